// The part of Chunks that decides whether a file is encrypted.
#include <vector>

#include "store/files/chunks.h"

namespace warren {

Status Chunks::remove(Inode node) {
  WARREN_TRY(erase(node));
  return ciphers_ != nullptr ? ciphers_->remove(node) : Status(Ok{});
}

Status Chunks::encrypt_new(Inode node, ContentKey& key, std::uint64_t size) {
  ciphers_->make(node, key, size);
  return flush_alone();
}

Status Chunks::recode(Inode node, std::uint64_t size, ContentKey* key) {
  WARREN_TRY(write_back(node));
  last_chunks_.erase(node);
  std::vector<std::uint64_t> all;
  {
    Rows rows = indexes_.bind(1, node.value).bind(2, 0).rows();
    while (WARREN_TRY(rows.next())) all.push_back(static_cast<std::uint64_t>(rows.integer(0)));
  }
  if (const FileCiphers::File* file = find_cipher(node); file != nullptr && file->chunks != all.size()) {
    return SealedChunks::mismatch();
  }
  std::optional<FileCiphers::File> fresh;
  if (key != nullptr) fresh = ciphers_->new_file(*key, size);
  for (std::uint64_t index : all) {
    if (!WARREN_TRY(load(node, index))) continue;  // decrypts it as it is so far
    if (fresh) WARREN_TRY(seal_anew(*fresh, node, index));
    else WARREN_TRY(store_row(node, index, as_bytes(buffer_), false));
  }
  if (fresh) {
    ciphers_->put(node, fresh);
    return flush_alone();
  }
  WARREN_TRY(ciphers_->remove(node));
  ciphers_->put(node, std::nullopt);
  return flush_alone();
}

// The chunk in buffer_.
Status Chunks::seal_anew(FileCiphers::File& file, Inode node, std::uint64_t index) {
  sealed_.resize(buffer_.size());
  FileCiphers::Seal seal = ciphers_->seal(file, node, index, as_bytes(buffer_), as_mutable_bytes(sealed_));
  WARREN_TRY(store_row(node, index, as_bytes(sealed_), false));
  return ciphers_->keep_first(file, node, seal);
}

}  // namespace warren
