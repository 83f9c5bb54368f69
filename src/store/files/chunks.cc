#include "store/files/chunks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <fmt/format.h>

namespace warren {
namespace {

// Writes up to this size are kept in memory during a batch; larger ones gain nothing from it.
constexpr std::size_t kKeptWriteBytes = std::size_t{32} << 10;

constexpr std::uint64_t kChunksAtOnce = 16;  // in one statement
static_assert(kChunksAtOnce == FileCiphers::kSealsAtOnce);

}  // namespace

Result<std::unique_ptr<Chunks>> Chunks::open(Database& db, const Schema& schema, UndoLog& undo, FileCiphers* ciphers) {
  std::unique_ptr<Chunks> chunks(new Chunks(db, schema.chunk_bytes, undo, ciphers));
  chunks->get_ = WARREN_TRY(db.prepare("SELECT data FROM fs_data WHERE ino = ? AND chunk_index = ?"));
  chunks->range_ =
      WARREN_TRY(db.prepare("SELECT chunk_index, data FROM fs_data WHERE ino = ? AND chunk_index BETWEEN ? AND ? "
                            "ORDER BY chunk_index"));
  chunks->last_ = WARREN_TRY(
      db.prepare("SELECT chunk_index, length(data) FROM fs_data WHERE ino = ? ORDER BY chunk_index DESC LIMIT 1"));
  chunks->indexes_ =
      WARREN_TRY(db.prepare("SELECT chunk_index FROM fs_data WHERE ino = ? AND chunk_index >= ? ORDER BY chunk_index"));
  if (db.is_read_only()) return chunks;
  chunks->put_ =
      WARREN_TRY(db.prepare("INSERT INTO fs_data (ino, chunk_index, data) VALUES (?, ?, ?) "
                            "ON CONFLICT (ino, chunk_index) DO UPDATE SET data = excluded.data"));
  // For chunks known to be new, which saves a lookup. If one exists after all, the rows inserted before it stay.
  chunks->insert_ = WARREN_TRY(db.prepare("INSERT OR FAIL INTO fs_data (ino, chunk_index, data) VALUES (?, ?, ?)"));
  chunks->insert_many_ =
      WARREN_TRY(db.prepare("INSERT OR FAIL INTO fs_data (ino, chunk_index, data) VALUES "
                            "(?1, ?2 + 0, ?3), (?1, ?2 + 1, ?4), (?1, ?2 + 2, ?5), (?1, ?2 + 3, ?6), "
                            "(?1, ?2 + 4, ?7), (?1, ?2 + 5, ?8), (?1, ?2 + 6, ?9), (?1, ?2 + 7, ?10), "
                            "(?1, ?2 + 8, ?11), (?1, ?2 + 9, ?12), (?1, ?2 + 10, ?13), (?1, ?2 + 11, ?14), "
                            "(?1, ?2 + 12, ?15), (?1, ?2 + 13, ?16), (?1, ?2 + 14, ?17), (?1, ?2 + 15, ?18)"));
  chunks->erase_ = WARREN_TRY(db.prepare("DELETE FROM fs_data WHERE ino = ?"));
  chunks->erase_from_ = WARREN_TRY(db.prepare("DELETE FROM fs_data WHERE ino = ? AND chunk_index >= ?"));
  chunks->erase_range_ = WARREN_TRY(db.prepare("DELETE FROM fs_data WHERE ino = ? AND chunk_index BETWEEN ? AND ?"));
  chunks->trim_ =
      WARREN_TRY(db.prepare("UPDATE fs_data SET data = substr(data, 1, ?1) WHERE ino = ?2 AND chunk_index = ?3 "
                            "AND length(data) > ?1"));
  return chunks;
}

Chunks::KeptFile* Chunks::find_kept(Inode node) {
  if (kept_.empty()) return nullptr;
  auto found = kept_.find(node);
  return found == kept_.end() ? nullptr : &found->second;
}

const Chunks::Kept* Chunks::find_kept(Inode node, std::uint64_t index) {
  KeptFile* file = find_kept(node);
  if (file == nullptr) return nullptr;
  auto found = file->find(index);
  return found == file->end() ? nullptr : &found->second;
}

void Chunks::erase_kept(Inode node, std::uint64_t index) {
  KeptFile* file = find_kept(node);
  if (file == nullptr || !file->contains(index)) return;
  remember_for_undo(node, index);
  file->erase(index);
  if (file->empty()) kept_.erase(node);
}

// Before a kept chunk changes, or stops being kept.
void Chunks::remember_for_undo(Inode node, std::uint64_t index) {
  if (!undo_.is_active()) return;
  const Kept* kept = find_kept(node, index);
  if (kept == nullptr) {
    undo_.add([this, node, index] { erase_kept(node, index); });
    return;
  }
  undo_.add([this, node, index, before = *kept] {
    kept_[node].insert_or_assign(index, before);
    kept_queue_.push(node, index);
  });
}

Status Chunks::keep(Inode node, std::uint64_t index, Bytes data, bool is_new) {
  if (find_cipher(node) != nullptr) ciphers_->touch(node);
  remember_for_undo(node, index);
  auto [kept, is_first] = kept_[node].try_emplace(index);
  if (is_first) {
    kept_queue_.push(node, index);
    kept->second.is_new = is_new;
  }
  kept->second.data = as_text(data);
  kept->second.changed = ++changes_;
  database_.batch().note_kept_back(is_first ? chunk_bytes_ : 0);
  return Ok{};
}

// A chunk is no longer kept as soon as SQLite has it.
Status Chunks::write_back(Inode node) {
  return write_back_kept(database_, [&]() -> Status {
    while (KeptFile* file = find_kept(node)) {
      auto first = file->begin();
      WARREN_TRY(store(node, first->first, as_bytes(first->second.data), first->second.is_new));
      erase_kept(node, first->first);
    }
    return Ok{};
  });
}

Status Chunks::write_back() {
  std::vector<Inode> ordered;  // as in the file
  ordered.reserve(kept_.size());
  for (const auto& [node, file] : kept_) ordered.push_back(node);
  std::sort(ordered.begin(), ordered.end());
  for (Inode node : ordered) WARREN_TRY(write_back(node));
  kept_queue_.clear();
  last_chunks_.clear();
  return ciphers_ != nullptr ? write_back_kept(database_, [this] { return ciphers_->flush(); }) : Status(Ok{});
}

// Without a batch, the row of an encrypted file is written at once, so that a change that fails is seen to be one.
Status Chunks::finish(Inode node, std::uint64_t size) {
  if (ciphers_ == nullptr) return Ok{};
  ciphers_->resize(node, size);
  return flush_alone();
}

Status Chunks::flush_alone() {
  return ciphers_ != nullptr && !database_.batch().is_open() ? ciphers_->flush() : Status(Ok{});
}

Result<bool> Chunks::write_back_one() {
  auto find = [this](const ChunkKey& key) { return find_kept(key.first, key.second); };
  auto write = [this](const ChunkKey& key, const Kept& kept) {
    return store(key.first, key.second, as_bytes(kept.data), kept.is_new);
  };
  auto erase = [this](const ChunkKey& key) { erase_kept(key.first, key.second); };
  return kept_queue_.write_back_one(database_, changes_, find, write, erase);
}

// Fills `out` from one chunk after another, with zeros where there is none.
class ChunkCopy {
 public:
  ChunkCopy(std::uint64_t chunk_bytes, std::uint64_t offset, MutableBytes out)
      : chunk_bytes_(chunk_bytes), offset_(offset), out_(out) {}

  void add(std::uint64_t index, Bytes stored) {
    std::uint64_t start = index * chunk_bytes_;
    Bytes data = stored.first(std::min<std::size_t>(stored.size(), chunk_bytes_));
    std::size_t skip = start < offset_ ? static_cast<std::size_t>(offset_ - start) : 0;
    if (skip >= data.size()) return;
    auto at = static_cast<std::size_t>(start + skip - offset_);
    zero_until(at);
    std::size_t length = std::min(data.size() - skip, out_.size() - at);
    std::memcpy(out_.data() + at, data.data() + skip, length);
    filled_ = at + length;
  }

  void finish() { zero_until(out_.size()); }

 private:
  void zero_until(std::size_t end) {
    if (end > filled_) std::memset(out_.data() + filled_, 0, end - filled_);
    filled_ = std::max(filled_, end);
  }

  std::uint64_t chunk_bytes_;
  std::uint64_t offset_;
  MutableBytes out_;
  std::size_t filled_ = 0;
};

Status Chunks::read(Inode node, std::uint64_t offset, MutableBytes out) {
  if (out.empty()) return Ok{};
  std::uint64_t first = offset / chunk_bytes_;
  std::uint64_t last = (offset + out.size() - 1) / chunk_bytes_;
  ChunkCopy copy(chunk_bytes_, offset, out);
  KeptFile none;
  KeptFile* found = find_kept(node);
  KeptFile& kept = found != nullptr ? *found : none;
  auto newer = kept.lower_bound(first);
  if (first == last && newer != kept.end() && newer->first == first) {
    copy.add(first, as_bytes(newer->second.data));
    copy.finish();
    return Ok{};
  }
  // Merges two ordered lists; a kept chunk replaces a stored one of the same index.
  auto add_kept_until = [&](std::uint64_t end) {
    for (; newer != kept.end() && newer->first < end && newer->first <= last; ++newer) {
      copy.add(newer->first, as_bytes(newer->second.data));
    }
  };
  std::optional<SealedChunks> sealed;
  if (FileCiphers::File* file = find_cipher(node)) {
    sealed.emplace(*ciphers_, *file, node, WARREN_TRY(ciphers_->list_seals(node, first, last)));
  } else {
    WARREN_TRY(check_plain(node));
  }
  Rows rows = range_.bind(1, node.value).bind(2, first).bind(3, last).rows();
  while (WARREN_TRY(rows.next())) {
    auto index = static_cast<std::uint64_t>(rows.integer(0));
    add_kept_until(index);
    bool is_old = newer != kept.end() && newer->first == index;
    Bytes data = rows.blob(1);
    if (sealed && is_old) WARREN_TRY(sealed->skip(index));
    if (is_old) continue;
    if (sealed) {
      WARREN_TRY(check_stored(node, index, data.size()));
      data = WARREN_TRY(sealed->open(index, data, sealed_));
    }
    copy.add(index, data);
  }
  if (sealed) WARREN_TRY(sealed->check_end());
  add_kept_until(last + 1);
  copy.finish();
  return Ok{};
}

Status Chunks::write(Inode node, std::uint64_t size, std::uint64_t offset, Bytes data) {
  if (data.empty()) return Ok{};
  std::uint64_t end = offset + data.size();
  std::uint64_t new_size = std::max(size, end);
  std::uint64_t first = offset / chunk_bytes_;
  keeps_ = database_.batch().is_open() && data.size() <= kKeptWriteBytes;
  if (!database_.batch().is_open()) last_chunks_.clear();
  if (size > 0) WARREN_TRY(fill_short_tail(node, first));
  else last_chunks_[node] = LastChunk();
  for (std::uint64_t index = first; !data.empty(); ++index) {
    if (index * chunk_bytes_ >= offset && WARREN_TRY(put_many(node, index, data))) {
      data = data.subspan(kChunksAtOnce * chunk_bytes_);
      index += kChunksAtOnce - 1;
      continue;
    }
    std::uint64_t start = index * chunk_bytes_;
    auto begin = static_cast<std::size_t>(std::max(offset, start) - start);
    std::size_t length = std::min<std::size_t>(chunk_bytes_ - begin, data.size());
    Bytes part = data.first(length);
    data = data.subspan(length);
    bool replaces_all = begin == 0 && (length == chunk_bytes_ || start + length >= size);
    if (replaces_all) {
      WARREN_TRY(put(node, index, part));
    } else {
      WARREN_TRY(write_part(node, new_size, index, begin, part));
    }
  }
  return finish(node, new_size);
}

Status Chunks::grow(Inode node, std::uint64_t size) { return finish(node, size); }

Status Chunks::write_part(Inode node, std::uint64_t new_size, std::uint64_t index, std::size_t begin, Bytes data) {
  WARREN_TRY(load(node, index));
  bool is_last = new_size <= (index + 1) * chunk_bytes_;
  std::size_t needed = is_last ? begin + data.size() : chunk_bytes_;
  if (buffer_.size() < needed) buffer_.resize(needed, '\0');
  std::memcpy(buffer_.data() + begin, data.data(), data.size());
  return put(node, index, as_bytes(buffer_));
}

Status Chunks::fill_short_tail(Inode node, std::uint64_t first_index) {
  auto known = last_chunks_.find(node);
  bool is_fine = known != last_chunks_.end() && (known->second.end > first_index || known->second.is_whole);
  if (is_fine) return Ok{};
  WARREN_TRY(write_back(node));
  LastChunk last;
  {
    Rows rows = last_.bind(1, node.value).rows();
    if (WARREN_TRY(rows.next())) {
      last.end = static_cast<std::uint64_t>(rows.integer(0)) + 1;
      last.is_whole = static_cast<std::uint64_t>(rows.integer(1)) >= chunk_bytes_;
    }
  }
  last_chunks_[node] = last;
  if (last.end > first_index || last.is_whole) return Ok{};
  WARREN_TRY(load(node, last.end - 1));
  buffer_.resize(chunk_bytes_, '\0');
  return put(node, last.end - 1, as_bytes(buffer_));
}

Result<bool> Chunks::load(Inode node, std::uint64_t index) {
  if (const Kept* kept = find_kept(node, index); kept != nullptr) {
    buffer_ = kept->data;
    return true;
  }
  buffer_.clear();
  FileCiphers::File* file = find_cipher(node);
  std::vector<FileCiphers::Seal> seals;
  if (file != nullptr) seals = WARREN_TRY(ciphers_->list_seals(node, index, index));
  Rows rows = get_.bind(1, node.value).bind(2, index).rows();
  if (!WARREN_TRY(rows.next())) {
    if (file != nullptr) WARREN_TRY(SealedChunks(*ciphers_, *file, node, std::move(seals)).check_end());
    return false;
  }
  WARREN_TRY(check_stored(node, index, rows.blob(0).size()));
  if (file == nullptr) {
    buffer_ = as_text(rows.blob(0));
    return true;
  }
  WARREN_TRY(SealedChunks(*ciphers_, *file, node, std::move(seals)).open(index, rows.blob(0), buffer_));
  return true;
}

Status Chunks::check_stored(Inode node, std::uint64_t index, std::size_t bytes) const {
  if (bytes <= chunk_bytes_) return Ok{};
  return Error(Code::kCorrupt, fmt::format("chunk {} of node {} has {} bytes, more than the chunk size {}", index,
                                           node.value, bytes, chunk_bytes_));
}

Status Chunks::put(Inode node, std::uint64_t index, Bytes data) {
  auto last = last_chunks_.find(node);
  bool is_new = last != last_chunks_.end() && index >= last->second.end;
  if (last != last_chunks_.end() && index + 1 >= last->second.end) {
    last->second = {.end = index + 1, .is_whole = data.size() == chunk_bytes_};
  }
  if (keeps_) return keep(node, index, data, is_new);
  if (find_kept(node, index) != nullptr) {
    erase_kept(node, index);
    database_.batch().note_kept_back(0);  // a change, even if the statement below fails
  }
  database_.batch().add_bytes(data.size());
  return store(node, index, data, is_new);
}

Status Chunks::store(Inode node, std::uint64_t index, Bytes data, bool is_new) {
  FileCiphers::File* file = find_cipher(node);
  if (file == nullptr) {
    WARREN_TRY(check_plain(node));
    return store_row(node, index, data, is_new);
  }
  sealed_.resize(data.size());
  FileCiphers::Seal seal = ciphers_->seal(*file, node, index, data, as_mutable_bytes(sealed_));
  WARREN_TRY(store_row(node, index, as_bytes(sealed_), is_new));
  return ciphers_->keep(*file, node, seal);
}

Status Chunks::check_plain(Inode node) { return ciphers_ != nullptr ? ciphers_->check_admitted(node) : Status(Ok{}); }

Status Chunks::store_row(Inode node, std::uint64_t index, Bytes data, bool is_new) {
  if (is_new) {
    Status stored = insert_.bind(1, node.value).bind(2, index).bind(3, data).run();
    if (stored.ok() || stored.error().code() != Code::kConflict) return stored;
    // A row beyond the file's size: other programs leave such rows.
  }
  return put_.bind(1, node.value).bind(2, index).bind(3, data).run();
}

// Stores the first kChunksAtOnce whole chunks of `data` if all of them are new; otherwise does nothing and returns
// false.
Result<bool> Chunks::put_many(Inode node, std::uint64_t index, Bytes data) {
  if (keeps_ || data.size() < kChunksAtOnce * chunk_bytes_) return false;
  auto last = last_chunks_.find(node);
  if (last == last_chunks_.end() || index < last->second.end) return false;
  FileCiphers::File* file = find_cipher(node);
  FileCiphers::Seals seals;
  if (file != nullptr) {
    sealed_.resize(kChunksAtOnce * chunk_bytes_);
    for (std::uint64_t i = 0; i < kChunksAtOnce; ++i) {
      seals[i] = ciphers_->seal(*file, node, index + i, data.subspan(i * chunk_bytes_, chunk_bytes_),
                                as_mutable_bytes(sealed_).subspan(i * chunk_bytes_, chunk_bytes_));
    }
    data = as_bytes(sealed_);
  }
  insert_many_.bind(1, node.value).bind(2, index);
  for (std::uint64_t i = 0; i < kChunksAtOnce; ++i) {
    insert_many_.bind(static_cast<int>(i) + 3, data.subspan(i * chunk_bytes_, chunk_bytes_));
  }
  Status stored = insert_many_.run();
  if (!stored.ok() && stored.error().code() == Code::kConflict) return false;  // one by one, as in store
  WARREN_TRY(std::move(stored));
  if (file != nullptr) WARREN_TRY(ciphers_->keep_new(*file, node, seals));
  last->second = {.end = index + kChunksAtOnce, .is_whole = true};
  database_.batch().add_bytes(kChunksAtOnce * chunk_bytes_);
  return true;
}

Status Chunks::cut(Inode node, std::uint64_t size) {
  if (size == 0) {
    WARREN_TRY(erase(node));
    WARREN_TRY(erase_seals(node, 0, INT64_MAX));
    return finish(node, size);
  }
  last_chunks_.erase(node);
  WARREN_TRY(write_back(node));
  std::uint64_t whole = size / chunk_bytes_;
  std::uint64_t rest = size % chunk_bytes_;
  std::uint64_t end = whole + (rest > 0 ? 1 : 0);
  WARREN_TRY(erase_from_.bind(1, node.value).bind(2, end).run());
  WARREN_TRY(erase_seals(node, end, INT64_MAX));
  if (rest == 0) return finish(node, size);
  if (find_cipher(node) == nullptr) return trim_.bind(1, rest).bind(2, node.value).bind(3, whole).run();
  if (WARREN_TRY(load(node, whole)) && buffer_.size() > rest) {
    buffer_.resize(rest);
    WARREN_TRY(store(node, whole, as_bytes(buffer_), false));
  }
  return finish(node, size);
}

Status Chunks::erase_seals(Inode node, std::uint64_t first, std::uint64_t last) {
  return ciphers_ != nullptr ? ciphers_->erase_seals(node, first, last) : Status(Ok{});
}

Result<std::uint64_t> Chunks::cut_some(Inode node, std::uint64_t size) {
  constexpr std::uint64_t kStep = 4096;  // chunks
  WARREN_TRY(write_back(node));
  last_chunks_.erase(node);
  std::optional<std::int64_t> last = WARREN_TRY(last_.bind(1, node.value).find_integer());
  std::uint64_t end = last ? static_cast<std::uint64_t>(*last) + 1 : 0;
  std::uint64_t kept = size / chunk_bytes_ + (size % chunk_bytes_ != 0 ? 1 : 0);
  if (end <= kept) return size;
  std::uint64_t begin = std::max(kept, end > kStep ? end - kStep : 0);
  WARREN_TRY(erase_from_.bind(1, node.value).bind(2, begin).run());
  WARREN_TRY(erase_seals(node, begin, INT64_MAX));
  database_.batch().add_bytes((end - begin) * 512);
  return std::max(begin * chunk_bytes_, size);
}

Status Chunks::punch(Inode node, std::uint64_t size, std::uint64_t offset, std::uint64_t length) {
  std::uint64_t end = std::min(size, offset + length);
  if (offset >= end) return Ok{};
  WARREN_TRY(write_back(node));
  last_chunks_.erase(node);
  keeps_ = false;
  std::uint64_t first = offset / chunk_bytes_;
  std::uint64_t last = (end - 1) / chunk_bytes_;
  auto begin_in_first = static_cast<std::size_t>(offset - first * chunk_bytes_);
  auto end_in_last = static_cast<std::size_t>(end - last * chunk_bytes_);
  bool first_whole = begin_in_first == 0;
  bool last_whole = end_in_last == chunk_bytes_ || end == size;
  if (first == last) {
    if (!first_whole || !last_whole) {
      WARREN_TRY(zero_part(node, first, begin_in_first, end_in_last));
      return flush_alone();
    }
  } else {
    if (!first_whole) WARREN_TRY(zero_part(node, first, begin_in_first, chunk_bytes_));
    if (!last_whole) WARREN_TRY(zero_part(node, last, 0, end_in_last));
  }
  std::uint64_t from = first + (first_whole ? 0 : 1);
  std::uint64_t until = last + (last_whole ? 1 : 0);  // not included
  if (from < until) {
    WARREN_TRY(erase_range_.bind(1, node.value).bind(2, from).bind(3, until - 1).run());
    WARREN_TRY(erase_seals(node, from, until - 1));
  }
  return flush_alone();
}

Status Chunks::zero_part(Inode node, std::uint64_t index, std::size_t begin, std::size_t end) {
  if (!WARREN_TRY(load(node, index))) return Ok{};
  end = std::min(end, buffer_.size());
  if (begin >= end) return Ok{};
  std::memset(buffer_.data() + begin, 0, end - begin);
  return put(node, index, as_bytes(buffer_));
}

Status Chunks::erase(Inode node) {
  while (KeptFile* file = find_kept(node)) {
    erase_kept(node, file->begin()->first);
    database_.batch().note_kept_back(0);
  }
  last_chunks_.erase(node);
  return erase_.bind(1, node.value).run();
}

Result<std::optional<std::uint64_t>> Chunks::find_data(Inode node, std::uint64_t offset) {
  WARREN_TRY(write_back(node));
  auto index = WARREN_TRY(indexes_.bind(1, node.value).bind(2, offset / chunk_bytes_).find_integer());
  if (!index) return std::optional<std::uint64_t>();
  return std::optional(std::max(offset, static_cast<std::uint64_t>(*index) * chunk_bytes_));
}

Result<std::uint64_t> Chunks::find_hole(Inode node, std::uint64_t offset) {
  WARREN_TRY(write_back(node));
  std::uint64_t expected = offset / chunk_bytes_;
  Rows rows = indexes_.bind(1, node.value).bind(2, expected).rows();
  while (WARREN_TRY(rows.next())) {
    if (static_cast<std::uint64_t>(rows.integer(0)) != expected) break;
    ++expected;
  }
  return std::max(offset, expected * chunk_bytes_);
}

}  // namespace warren
