#include "store/ciphers/file_ciphers.h"

#include <algorithm>
#include <cstring>

#include <unistd.h>

#include <fmt/format.h>

#include "crypto/hmac.h"

namespace warren {
namespace {

constexpr std::size_t kTagsAtOnce = 4096;
constexpr std::string_view kChunkContext = "warren chunk 1";  // part of the format: never change them
constexpr std::string_view kStateContext = "warren file 1";

void append_number(std::string& text, std::uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) text.push_back(static_cast<char>(value >> shift));
}

template <class Array>
bool fill_array(Array& out, Bytes bytes) {
  if (bytes.size() != out.size()) return false;
  std::copy(bytes.begin(), bytes.end(), out.begin());
  return true;
}

void put_number(std::byte* out, std::uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) *out++ = static_cast<std::byte>(value >> shift);
}

// What a chunk is bound to.
using ChunkContext =
    std::array<std::byte, kChunkContext.size() + sizeof(FileCiphers::Block) + 2 * sizeof(std::uint64_t)>;

ChunkContext context_of(const FileCiphers::File& file, Inode node, std::uint64_t index) {
  ChunkContext context;
  std::memcpy(context.data(), kChunkContext.data(), kChunkContext.size());
  std::memcpy(context.data() + kChunkContext.size(), file.id.data(), file.id.size());
  put_number(context.data() + context.size() - 16, node.value);
  put_number(context.data() + context.size() - 8, index);
  return context;
}

ContentKey::Prefix prefix_of(const FileCiphers::Nonce& nonce) {
  ContentKey::Prefix prefix;
  std::copy_n(nonce.begin(), prefix.size(), prefix.begin());
  return prefix;
}

Aes256Gcm::Nonce count_of(const FileCiphers::Nonce& nonce) {
  Aes256Gcm::Nonce count{};
  std::copy(nonce.begin() + 16, nonce.end(), count.begin() + 4);
  return count;
}

void add_to(FileCiphers::Block& sum, const FileCiphers::Block& more) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] ^= more[i];
}

Error damaged(std::string_view what) {
  return {Code::kCorrupt, fmt::format("it is encrypted, and {}: it was changed without its key", what),
          "`warren fsck` lists such files; restore it from a checkpoint or a backup, or remove it"};
}

Result<FileCiphers::Seal> seal_of(const Rows& rows) {
  FileCiphers::Seal seal{.index = static_cast<std::uint64_t>(rows.integer(0))};
  if (!fill_array(seal.nonce, rows.blob(1)) || !fill_array(seal.tag, rows.blob(2))) {
    return damaged(fmt::format("the nonce or the tag of chunk {} is not valid", seal.index));
  }
  return seal;
}

}  // namespace

Result<std::unique_ptr<FileCiphers>> FileCiphers::open(Database& database, UndoLog& undo, ContentKeys& keys) {
  std::unique_ptr<FileCiphers> ciphers(new FileCiphers(database, undo, keys));
  WARREN_TRY(ciphers->prepare());
  return ciphers;
}

Status FileCiphers::prepare() {
  Database& db = database_;
  get_file_ = WARREN_TRY(db.prepare("SELECT key_id, file_id, size, mac FROM wr_cipher_file WHERE ino = ?"));
  get_seal_ =
      WARREN_TRY(db.prepare("SELECT chunk_index, nonce, tag FROM wr_cipher_chunk WHERE ino = ? AND chunk_index = ?"));
  range_ =
      WARREN_TRY(db.prepare("SELECT chunk_index, nonce, tag FROM wr_cipher_chunk WHERE ino = ? AND chunk_index "
                            "BETWEEN ? AND ? ORDER BY chunk_index"));
  tags_ = WARREN_TRY(db.prepare("SELECT tag FROM wr_cipher_chunk WHERE ino = ? AND chunk_index BETWEEN ? AND ?"));
  any_seal_ = WARREN_TRY(db.prepare("SELECT 1 FROM wr_cipher_chunk WHERE ino = ? LIMIT 1"));
  if (db.is_read_only()) return Ok{};
  put_file_ = WARREN_TRY(
      db.prepare("INSERT INTO wr_cipher_file (ino, key_id, file_id, size, mac) VALUES (?, ?, ?, ?, ?) ON CONFLICT (ino)"
                 " DO UPDATE SET key_id = excluded.key_id, file_id = excluded.file_id, size = excluded.size,"
                 " mac = excluded.mac"));
  erase_file_ = WARREN_TRY(db.prepare("DELETE FROM wr_cipher_file WHERE ino = ?"));
  insert_seals_ = WARREN_TRY(
      db.prepare("INSERT INTO wr_cipher_chunk (ino, chunk_index, nonce, tag) VALUES "
                 "(?1, ?2 + 0, ?3, ?4), (?1, ?2 + 1, ?5, ?6), (?1, ?2 + 2, ?7, ?8), (?1, ?2 + 3, ?9, ?10), "
                 "(?1, ?2 + 4, ?11, ?12), (?1, ?2 + 5, ?13, ?14), (?1, ?2 + 6, ?15, ?16), (?1, ?2 + 7, ?17, ?18), "
                 "(?1, ?2 + 8, ?19, ?20), (?1, ?2 + 9, ?21, ?22), (?1, ?2 + 10, ?23, ?24), (?1, ?2 + 11, ?25, ?26), "
                 "(?1, ?2 + 12, ?27, ?28), (?1, ?2 + 13, ?29, ?30), (?1, ?2 + 14, ?31, ?32), (?1, ?2 + 15, ?33, ?34)"));
  put_seal_ = WARREN_TRY(
      db.prepare("INSERT INTO wr_cipher_chunk (ino, chunk_index, nonce, tag) VALUES (?, ?, ?, ?) ON CONFLICT (ino, "
                 "chunk_index) DO UPDATE SET nonce = excluded.nonce, tag = excluded.tag"));
  erase_seals_ = WARREN_TRY(db.prepare("DELETE FROM wr_cipher_chunk WHERE ino = ? AND chunk_index BETWEEN ? AND ?"));
  return Ok{};
}

// What is known of files.

void FileCiphers::follow(std::uint64_t epoch) {
  if (epoch == epoch_) return;
  epoch_ = epoch;
  forget_clean();
}

// What is dirty is of the running transaction, or of the open batch: nobody else can have changed it.
void FileCiphers::forget_clean() {
  std::erase_if(files_, [this](const auto& one) { return !dirty_.contains(one.first); });
}

// Whoever copies from one file to another has admitted both.
void FileCiphers::make_room() {
  if (files_.size() < files_max_) return;
  std::erase_if(files_, [this](const auto& one) { return one.first != admitted_ && !dirty_.contains(one.first); });
}

Status FileCiphers::admit(Inode node, std::uint64_t size) {
  auto known = files_.find(node);
  if (known == files_.end()) {
    make_room();
    known = files_.emplace(node, WARREN_TRY(load(node, size))).first;
  }
  admitted_ = node;
  const std::optional<File>& file = known->second;
  if (file && file->size != size) return damaged(fmt::format("its size was {}, not {}", file->size, size));
  return Ok{};
}

FileCiphers::File* FileCiphers::find(Inode node) {
  auto known = files_.find(node);
  return known != files_.end() && known->second ? &*known->second : nullptr;
}

Status FileCiphers::check_admitted(Inode node) {
  if (files_.contains(node) || !WARREN_TRY(find_key_of(node))) return Ok{};
  return Error(Code::kInternal,
               fmt::format("node {} is encrypted, and its content is used without its key", node.value));
}

Result<std::optional<std::int64_t>> FileCiphers::find_key_of(Inode node) {
  if (const File* known = find(node); known != nullptr) return std::optional(known->key->id());
  return get_file_.bind(1, node.value).find_integer();
}

Result<std::optional<FileCiphers::File>> FileCiphers::load(Inode node, std::uint64_t size) {
  File file;
  Sha256::Value mac;
  {
    Rows rows = get_file_.bind(1, node.value).rows();
    if (!WARREN_TRY(rows.next())) {
      auto seal = WARREN_TRY(any_seal_.bind(1, node.value).find_integer());
      if (seal) return damaged("the row that says so is missing");
      return std::optional<File>();
    }
    file.key = WARREN_TRY(keys_.get(rows.integer(0)));
    file.size = static_cast<std::uint64_t>(rows.integer(2));
    if (!fill_array(file.id, rows.blob(1)) || !fill_array(mac, rows.blob(3))) return damaged("its row is not valid");
  }
  WARREN_TRY(add_fingerprints(file, node));
  if (sign(file, node) != mac) return damaged("its chunks are not those that were signed");
  if (file.size != size) return damaged(fmt::format("its size was {}, not {}", file.size, size));
  return std::optional(file);
}

// All tags of the file: 16 bytes for each chunk.
Status FileCiphers::add_fingerprints(File& file, Inode node) {
  std::string tags;
  auto add_all = [&] {
    file.key->fingerprints().apply(as_mutable_bytes(tags));
    Block one;
    for (std::size_t at = 0; at < tags.size(); at += one.size()) {
      std::memcpy(one.data(), tags.data() + at, one.size());
      add_to(file.sum, one);
    }
    tags.clear();
  };
  Rows rows = tags_.bind(1, node.value).bind(2, INT64_MIN).bind(3, INT64_MAX).rows();
  while (WARREN_TRY(rows.next())) {
    Bytes tag = rows.blob(0);
    if (tag.size() != sizeof(Aes256Gcm::Tag)) return damaged("a tag is not valid");
    tags += as_text(tag);
    ++file.chunks;
    if (tags.size() == kTagsAtOnce * sizeof(Aes256Gcm::Tag)) add_all();
  }
  add_all();
  return Ok{};
}

FileCiphers::Block FileCiphers::fingerprint(const File& file, const Aes256Gcm::Tag& tag) const {
  Block block = tag;
  file.key->fingerprints().apply(block);
  return block;
}

Sha256::Value FileCiphers::sign(const File& file, Inode node) const {
  std::string text(kStateContext);
  text += as_text(Bytes(file.id));
  append_number(text, node.value);
  append_number(text, file.size);
  append_number(text, file.chunks);
  text += as_text(Bytes(file.sum));
  return file.key->sign(as_bytes(text));
}

// A change in a batch can be undone alone, and what is in memory then has to be what it was.
void FileCiphers::touch(Inode node) {
  bool was_dirty = !dirty_.insert(node).second;
  if (!undo_.is_active()) return;
  database_.batch().note_kept_back(0);
  auto known = files_.find(node);
  bool was_known = known != files_.end();
  std::optional<File> before = was_known ? known->second : std::nullopt;
  undo_.add([this, node, was_dirty, was_known, before] {
    if (was_known) files_.insert_or_assign(node, before);
    else files_.erase(node);
    if (was_dirty) dirty_.insert(node);
    else dirty_.erase(node);
  });
}

FileCiphers::File FileCiphers::new_file(ContentKey& key, std::uint64_t size) {
  File file{.key = &key, .size = size};
  fill_with_random(file.id);
  return file;
}

void FileCiphers::make(Inode node, ContentKey& key, std::uint64_t size) { put(node, new_file(key, size)); }

void FileCiphers::put(Inode node, std::optional<File> file) {
  touch(node);
  files_.insert_or_assign(node, file);
}

void FileCiphers::resize(Inode node, std::uint64_t size) {
  File* file = find(node);
  if (file == nullptr || file->size == size) return;
  touch(node);
  file->size = size;
}

Status FileCiphers::erase_row(Inode node) {
  put(node, std::nullopt);
  return erase_file_.bind(1, node.value).run();
}

Status FileCiphers::remove(Inode node) {
  if (!WARREN_TRY(find_key_of(node)) && !WARREN_TRY(any_seal_.bind(1, node.value).find_integer())) return Ok{};
  touch(node);
  files_.erase(node);
  WARREN_TRY(erase_seals_.bind(1, node.value).bind(2, INT64_MIN).bind(3, INT64_MAX).run());
  return erase_file_.bind(1, node.value).run();
}

Status FileCiphers::flush() {
  while (!dirty_.empty()) {
    Inode node = *dirty_.begin();
    if (const File* file = find(node); file != nullptr) {
      Sha256::Value mac = sign(*file, node);
      put_file_.bind(1, node.value).bind(2, file->key->id()).bind(3, Bytes(file->id)).bind(4, file->size);
      Status stored = put_file_.bind(5, Bytes(mac)).run();
      if (!stored.ok()) {
        if (!database_.batch().is_open()) forget();  // the transaction will be rolled back
        return stored;
      }
    }
    dirty_.erase(node);
  }
  return Ok{};
}

void FileCiphers::forget() {
  files_.clear();
  dirty_.clear();
}

// Chunks.

// No nonce is used twice, whatever becomes of the file: a copy or a restored one is opened by another process, or by
// this one again, and has another prefix. Nor after a fork(2).
FileCiphers::Nonce FileCiphers::next_nonce() {
  if (count_ == 0 || process_ != ::getpid()) {
    fill_with_random(prefix_);
    process_ = ::getpid();
    count_ = 0;
  }
  ++count_;
  Nonce nonce{};
  std::copy(prefix_.begin(), prefix_.end(), nonce.begin());
  for (std::size_t i = 0; i < 8; ++i) nonce[nonce.size() - 1 - i] = static_cast<std::byte>(count_ >> (8 * i));
  return nonce;
}

FileCiphers::Seal FileCiphers::seal(const File& file, Inode node, std::uint64_t index, Bytes data, MutableBytes out) {
  Seal seal{.index = index, .nonce = next_nonce()};
  ChunkContext context = context_of(file, node, index);
  Aes256Gcm& cipher = file.key->cipher(prefix_of(seal.nonce));
  seal.tag = cipher.seal(count_of(seal.nonce), context, data, out);
  return seal;
}

Status FileCiphers::keep(File& file, Inode node, const Seal& seal) {
  std::optional<Seal> before = WARREN_TRY(find_seal(node, seal.index));
  put_seal_.bind(1, node.value).bind(2, seal.index).bind(3, Bytes(seal.nonce)).bind(4, Bytes(seal.tag));
  WARREN_TRY(put_seal_.run());
  touch(node);
  if (before) add_to(file.sum, fingerprint(file, before->tag));
  else ++file.chunks;
  add_to(file.sum, fingerprint(file, seal.tag));
  return Ok{};
}

Status FileCiphers::keep_new(File& file, Inode node, const Seals& seals) {
  insert_seals_.bind(1, node.value).bind(2, seals.front().index);
  int column = 3;
  for (const Seal& seal : seals) {
    insert_seals_.bind(column, Bytes(seal.nonce)).bind(column + 1, Bytes(seal.tag));
    column += 2;
  }
  WARREN_TRY(insert_seals_.run());
  touch(node);
  for (const Seal& seal : seals) add_to(file.sum, fingerprint(file, seal.tag));
  file.chunks += seals.size();
  return Ok{};
}

Status FileCiphers::keep_first(File& file, Inode node, const Seal& seal) {
  put_seal_.bind(1, node.value).bind(2, seal.index).bind(3, Bytes(seal.nonce)).bind(4, Bytes(seal.tag));
  WARREN_TRY(put_seal_.run());
  ++file.chunks;
  add_to(file.sum, fingerprint(file, seal.tag));
  return Ok{};
}

Status FileCiphers::open(const File& file, Inode node, const Seal& seal, Bytes data, MutableBytes out) {
  ChunkContext context = context_of(file, node, seal.index);
  Aes256Gcm& cipher = file.key->cipher(prefix_of(seal.nonce));
  if (cipher.open(count_of(seal.nonce), context, data, seal.tag, out)) return Ok{};
  return damaged(fmt::format("chunk {} is not what was stored", seal.index));
}

Result<std::optional<FileCiphers::Seal>> FileCiphers::find_seal(Inode node, std::uint64_t index) {
  Rows rows = get_seal_.bind(1, node.value).bind(2, index).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<Seal>();
  return std::optional(WARREN_TRY(seal_of(rows)));
}

Result<std::vector<FileCiphers::Seal>> FileCiphers::list_seals(Inode node, std::uint64_t first, std::uint64_t last) {
  std::vector<Seal> seals;
  Rows rows = range_.bind(1, node.value).bind(2, first).bind(3, last).rows();
  while (WARREN_TRY(rows.next())) seals.push_back(WARREN_TRY(seal_of(rows)));
  return seals;
}

Status FileCiphers::erase_seals(Inode node, std::uint64_t first, std::uint64_t last) {
  File* file = find(node);
  File after;
  if (file != nullptr) {
    after = *file;
    for (const Seal& seal : WARREN_TRY(list_seals(node, first, last))) {
      add_to(after.sum, fingerprint(after, seal.tag));
      --after.chunks;
    }
    if (after.chunks == file->chunks) return Ok{};
  }
  WARREN_TRY(erase_seals_.bind(1, node.value).bind(2, first).bind(3, last).run());
  if (file != nullptr) put(node, after);
  return Ok{};
}

namespace {

Result<std::vector<Inode>> list_inodes(Statement& query) {
  std::vector<Inode> all;
  Rows rows = query.rows();
  while (WARREN_TRY(rows.next())) all.push_back(Inode{static_cast<std::uint64_t>(rows.integer(0))});
  return all;
}

}  // namespace

Result<std::vector<Inode>> FileCiphers::list() {
  Statement query = WARREN_TRY(database_.prepare("SELECT ino FROM wr_cipher_file ORDER BY ino"));
  return list_inodes(query);
}

Result<std::vector<Inode>> FileCiphers::list_of_key(std::int64_t id) {
  Statement query = WARREN_TRY(database_.prepare("SELECT ino FROM wr_cipher_file WHERE key_id = ? ORDER BY ino"));
  query.bind(1, id);
  return list_inodes(query);
}

}  // namespace warren
