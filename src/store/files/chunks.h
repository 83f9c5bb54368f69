// File content: fs_data, one row per chunk that holds anything.
//
// A missing chunk is a hole and reads as zeros, and so does the range after a short chunk's end. Only
// the last chunk of a file may be shorter than the chunk size (FS-9 in docs/format.md); a write
// beyond a short one pads it first.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "db/database.h"
#include "fs/types.h"
#include "store/ciphers/file_ciphers.h"
#include "store/schema.h"
#include "store/undo_log.h"
#include "store/write_back.h"

namespace warren {

// Use it inside a transaction. Sizes belong to the node row: the caller passes and updates them.
//
// While a batch is open (Commits::kGrouped), small writes stay in memory until write_back, so that
// appending a line does not write a row each time. Every function here sees them.
//
// Chunks of an encrypted file (store/ciphers/file_ciphers.h) are encrypted when they are given to SQLite. Whoever reads
// or changes such a file has admitted it before.
class Chunks {
 public:
  // `ciphers` outlives it; null if no file is encrypted.
  static Result<std::unique_ptr<Chunks>> open(Database& database, const Schema& schema, UndoLog& undo,
                                              FileCiphers* ciphers);

  // Fills all of `out`, which must lie within the file.
  Status read(Inode node, std::uint64_t offset, MutableBytes out);

  // `size` is the file's size before the write. O(data), and one chunk read at either end.
  Status write(Inode node, std::uint64_t size, std::uint64_t offset, Bytes data);

  // Drops everything after `size`.
  Status cut(Inode node, std::uint64_t size);
  // The file has `size` bytes from now on, and a hole at its end.
  Status grow(Inode node, std::uint64_t size);

  // Makes [offset, offset + length) of a file of `size` bytes a hole.
  Status punch(Inode node, std::uint64_t size, std::uint64_t offset, std::uint64_t length);

  // Of a node that is being removed.
  Status remove(Inode node);

  // A new file, which has no chunks, is encrypted.
  Status encrypt_new(Inode node, ContentKey& key, std::uint64_t size);
  // Encrypts all chunks of a file anew, with this key or, without one, not at all. It was admitted.
  Status recode(Inode node, std::uint64_t size, ContentKey* key);

  // Shrinks a large file in steps, so that neither the memory nor the time of a step grows with it: drops
  // some of the last chunks after `size` and returns the remaining size, at least `size`.
  Result<std::uint64_t> cut_some(Inode node, std::uint64_t size);

  Status write_back();
  // Writes back one chunk that has not changed lately. False if there is none.
  Result<bool> write_back_one();
  void forget_kept() {  // after a rollback
    kept_.clear();
    kept_queue_.clear();
    last_chunks_.clear();
  }
  void forget_cache() { last_chunks_.clear(); }  // after a change was undone

  // The first data, or the first hole, at or after `offset`, whatever the file's size.
  Result<std::optional<std::uint64_t>> find_data(Inode node, std::uint64_t offset);
  Result<std::uint64_t> find_hole(Inode node, std::uint64_t offset);

 private:
  struct Kept {
    std::string data;           // the whole chunk
    bool is_new = false;        // the file has no row for it
    std::uint64_t changed = 0;  // changes_ at its last change
  };
  using KeptFile = std::map<std::uint64_t, Kept>;    // by index
  using ChunkKey = std::pair<Inode, std::uint64_t>;  // node and index

  Chunks(Database& database, std::uint32_t chunk_bytes, UndoLog& undo, FileCiphers* ciphers)
      : database_(database), chunk_bytes_(chunk_bytes), undo_(undo), ciphers_(ciphers) {}

  Result<bool> load(Inode node, std::uint64_t index);  // into buffer_; false if there is none
  Status put(Inode node, std::uint64_t index, Bytes data);
  Status keep(Inode node, std::uint64_t index, Bytes data, bool is_new);
  Status store(Inode node, std::uint64_t index, Bytes data, bool is_new);
  Status store_row(Inode node, std::uint64_t index, Bytes data, bool is_new);
  Status erase(Inode node);
  Status erase_seals(Inode node, std::uint64_t first, std::uint64_t last);
  FileCiphers::File* find_cipher(Inode node) { return ciphers_ != nullptr ? ciphers_->find(node) : nullptr; }
  Status check_plain(Inode node);
  Status check_stored(Inode node, std::uint64_t index, std::size_t bytes) const;
  Status finish(Inode node, std::uint64_t size);  // of a change
  Status flush_alone();                           // the rows of encrypted files, if there is no batch
  Status seal_anew(FileCiphers::File& file, Inode node, std::uint64_t index);
  Result<bool> put_many(Inode node, std::uint64_t index, Bytes data);
  KeptFile* find_kept(Inode node);
  const Kept* find_kept(Inode node, std::uint64_t index);
  void erase_kept(Inode node, std::uint64_t index);
  void remember_for_undo(Inode node, std::uint64_t index);
  Status write_back(Inode node);
  Status write_part(Inode node, std::uint64_t new_size, std::uint64_t index, std::size_t begin, Bytes data);
  Status fill_short_tail(Inode node, std::uint64_t first_index);
  Status zero_part(Inode node, std::uint64_t index, std::size_t begin, std::size_t end);

  static constexpr std::uint64_t kSettledAfter = 32;

  Database& database_;
  std::uint64_t chunk_bytes_;
  UndoLog& undo_;
  FileCiphers* ciphers_;
  std::unordered_map<Inode, KeptFile> kept_;  // only while a batch is open; no file in it is empty
  bool keeps_ = false;                        // of the write under way
  WriteBackQueue<ChunkKey> kept_queue_{kSettledAfter};
  std::uint64_t changes_ = 0;  // to kept chunks

  // The last chunk of each file written in this batch, or by this call without one. Saves looking it up each time, and
  // every chunk after it is known to be new.
  struct LastChunk {
    std::uint64_t end = 0;  // one more than its index
    bool is_whole = true;   // or there is none: in both cases nothing needs padding
  };
  std::unordered_map<Inode, LastChunk> last_chunks_;
  std::string buffer_;  // one chunk; a member to save allocations
  std::string sealed_;  // encrypted chunks that are being stored, or a chunk that was decrypted
  Statement get_;
  Statement range_;
  Statement put_;
  Statement insert_;
  Statement insert_many_;
  Statement last_;
  Statement erase_;
  Statement erase_from_;
  Statement erase_range_;
  Statement trim_;
  Statement indexes_;
};

}  // namespace warren
