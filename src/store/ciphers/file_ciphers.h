// Encrypted files: wr_cipher_file and wr_cipher_chunk, the codec that Chunks uses for them.
//
// A chunk in fs_data is AES-256-GCM ciphertext of the same size; its nonce and tag are in wr_cipher_chunk. The file's
// random id, its inode and the chunk's index are bound to it, so that a chunk of another file or from another place is
// noticed. A row in wr_cipher_file signs the size of the file and the set of its tags, so that an older chunk, put back
// together with its older tag, is noticed, too, and so is one that is missing. What this does not notice, and why it is
// built like this: docs/design/store.md.
//
// Use it inside a transaction. Which files are encrypted, and the signed sets, are kept in memory until another
// connection writes. The rows of wr_cipher_file are written by flush().
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "db/database.h"
#include "fs/types.h"
#include "store/ciphers/content_keys.h"
#include "store/undo_log.h"

namespace warren {

class FileCiphers {
 public:
  using Block = std::array<std::byte, Aes256Blocks::kBlockBytes>;
  using Nonce = std::array<std::byte, 24>;  // of the opening: ContentKey::Prefix; then the count

  struct File {
    ContentKey* key = nullptr;
    Block id{};
    std::uint64_t size = 0;
    std::uint64_t chunks = 0;
    Block sum{};  // of the fingerprints of all tags, by exclusive or
  };
  struct Seal {
    std::uint64_t index = 0;
    Nonce nonce{};
    Aes256Gcm::Tag tag{};
  };

  static Result<std::unique_ptr<FileCiphers>> open(Database& database, UndoLog& undo, ContentKeys& keys);

  ContentKeys& keys() { return keys_; }

  // Before everything below: drops what another connection may have changed. `epoch` is Database::foreign_epoch.
  void follow(std::uint64_t epoch);
  // Before the content of a file is read or changed; then find() knows it. `size` is what its inode says. kDenied
  // without its key, kCorrupt if it was changed without its key.
  Status admit(Inode node, std::uint64_t size);
  // Null if it is not encrypted, or was not admitted.
  File* find(Inode node);
  // Where find() has found nothing, before content is read or stored as it is: kInternal if it is encrypted after all.
  Status check_admitted(Inode node);
  // The key of an encrypted file, without a look at its content; nullopt if it is not encrypted.
  Result<std::optional<std::int64_t>> find_key_of(Inode node);

  // Before a file changes, also if its chunks are stored later: until flush() it stays known.
  void touch(Inode node);
  // The file is encrypted from now on. It has no chunks.
  void make(Inode node, ContentKey& key, std::uint64_t size);
  File new_file(ContentKey& key, std::uint64_t size);
  void put(Inode node, std::optional<File> file);  // instead of what is known
  void resize(Inode node, std::uint64_t size);     // of the file, as its inode will say
  Status erase_row(Inode node);                    // of wr_cipher_file: it is not encrypted any more
  Status remove(Inode node);                       // all rows of a file that is being removed; needs no key

  // Encrypts a chunk into `out`, which has its size. Call keep() with the result once the chunk is stored.
  Seal seal(const File& file, Inode node, std::uint64_t index, Bytes data, MutableBytes out);
  Status keep(File& file, Inode node, const Seal& seal);
  // Of kSealsAtOnce chunks, one after another, that had no seals.
  static constexpr std::size_t kSealsAtOnce = 16;
  using Seals = std::array<Seal, kSealsAtOnce>;
  Status keep_new(File& file, Inode node, const Seals& seals);
  // For a file that put() will replace the known one with: whatever seal there is belongs to the old one.
  Status keep_first(File& file, Inode node, const Seal& seal);
  // kCorrupt if it is not what was sealed.
  Status open(const File& file, Inode node, const Seal& seal, Bytes data, MutableBytes out);

  Result<std::optional<Seal>> find_seal(Inode node, std::uint64_t index);
  Result<std::vector<Seal>> list_seals(Inode node, std::uint64_t first, std::uint64_t last);
  // Of chunks that are removed; also of a file that was not admitted.
  Status erase_seals(Inode node, std::uint64_t first, std::uint64_t last);

  void limit_known(std::size_t files) { files_max_ = files; }

  Status flush();
  void forget();  // after a rollback, or when other code has replaced rows

  Result<std::vector<Inode>> list();                        // all encrypted files
  Result<std::vector<Inode>> list_of_key(std::int64_t id);  // those with this key

 private:
  FileCiphers(Database& database, UndoLog& undo, ContentKeys& keys) : database_(database), undo_(undo), keys_(keys) {}

  Status prepare();
  Result<std::optional<File>> load(Inode node, std::uint64_t size);
  Status add_fingerprints(File& file, Inode node);
  Sha256::Value sign(const File& file, Inode node) const;
  Block fingerprint(const File& file, const Aes256Gcm::Tag& tag) const;
  void forget_clean();
  void make_room();
  Nonce next_nonce();

  Database& database_;
  UndoLog& undo_;
  ContentKeys& keys_;
  std::unordered_map<Inode, std::optional<File>> files_;  // nullopt: not encrypted
  std::unordered_set<Inode> dirty_;                       // whose row is not what files_ has
  std::size_t files_max_ = 65'536;
  Inode admitted_{};  // the last one
  std::uint64_t epoch_ = 0;
  ContentKey::Prefix prefix_{};
  std::uint64_t count_ = 0;  // nonces used with prefix_; 0: there is none yet
  int process_ = 0;          // that made prefix_
  Statement get_file_;
  Statement get_seal_;
  Statement range_;
  Statement tags_;
  Statement any_seal_;
  Statement put_file_;
  Statement erase_file_;
  Statement insert_seals_;
  Statement put_seal_;
  Statement erase_seals_;
};

// The seals of a range of chunks, which the chunks must have one by one.
class SealedChunks {
 public:
  SealedChunks(FileCiphers& ciphers, const FileCiphers::File& file, Inode node, std::vector<FileCiphers::Seal> seals)
      : ciphers_(ciphers), file_(file), node_(node), seals_(std::move(seals)) {}

  // The content of the next chunk, in `buffer`.
  Result<Bytes> open(std::uint64_t index, Bytes data, std::string& buffer) {
    WARREN_TRY(skip(index));
    buffer.resize(data.size());
    WARREN_TRY(ciphers_.open(file_, node_, seals_[next_ - 1], data, as_mutable_bytes(buffer)));
    return as_bytes(buffer);
  }
  // For a chunk that was replaced in memory.
  Status skip(std::uint64_t index) {
    if (next_ == seals_.size() || seals_[next_].index != index) return mismatch();
    ++next_;
    return Ok{};
  }

  Status check_end() const { return next_ == seals_.size() ? Status(Ok{}) : Status(mismatch()); }

  static Error mismatch() {
    return {Code::kCorrupt, "it is encrypted, and has other chunks than were stored: it was changed without its key",
            "restore it from a checkpoint or a backup, or remove it"};
  }

 private:
  FileCiphers& ciphers_;
  const FileCiphers::File& file_;
  Inode node_;
  std::vector<FileCiphers::Seal> seals_;
  std::size_t next_ = 0;
};

}  // namespace warren
