// The content of a file in memory: written chunks, and holes between them.
//
// A chunk is a hole until something is written to it, and again once all of it that lies within the file was zeroed or
// cut off. Holes read as zeros. A copy shares its chunks until one of the two changes them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"

namespace warren {

// Not thread-safe. Offsets are not checked against limits: the filesystem above does that.
class SparseBytes {
 public:
  explicit SparseBytes(std::uint64_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}

  std::uint64_t size() const { return size_; }
  std::uint64_t stored_bytes() const { return chunks_.size() * chunk_bytes_; }

  // By how much a write there would increase stored_bytes().
  std::uint64_t missing_bytes(std::uint64_t offset, std::uint64_t length) const;

  std::size_t read(std::uint64_t offset, MutableBytes out) const;
  void write(std::uint64_t offset, Bytes data);
  void zero(std::uint64_t offset, std::uint64_t length);  // clipped to the size
  void resize(std::uint64_t size);

  // The first byte of data, or of a hole, from `offset` on. The end counts as a hole.
  std::optional<std::uint64_t> find_data(std::uint64_t offset) const;
  std::optional<std::uint64_t> find_hole(std::uint64_t offset) const;

 private:
  std::uint64_t chunk_bytes_;
  std::uint64_t size_ = 0;
  using Chunk = std::vector<std::byte>;
  static Chunk& own(std::shared_ptr<Chunk>& chunk);  // one that no copy shares

  // Full chunks; bytes past the size are zero. Shared with copies of this content.
  std::map<std::uint64_t, std::shared_ptr<Chunk>> chunks_;
};

}  // namespace warren
