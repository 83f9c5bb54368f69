#include "fs/memory/sparse_bytes.h"

#include <algorithm>

namespace warren {

SparseBytes::Chunk& SparseBytes::own(std::shared_ptr<Chunk>& chunk) {
  if (chunk.use_count() > 1) chunk = std::make_shared<Chunk>(*chunk);
  return *chunk;
}

std::uint64_t SparseBytes::missing_bytes(std::uint64_t offset, std::uint64_t length) const {
  if (length == 0) return 0;
  std::uint64_t first = offset / chunk_bytes_;
  std::uint64_t last = (offset + length - 1) / chunk_bytes_;
  std::uint64_t missing = last - first + 1;
  for (auto chunk = chunks_.lower_bound(first); chunk != chunks_.end() && chunk->first <= last; ++chunk) --missing;
  return missing * chunk_bytes_;
}

std::size_t SparseBytes::read(std::uint64_t offset, MutableBytes out) const {
  if (offset >= size_) return 0;
  std::uint64_t length = std::min<std::uint64_t>(out.size(), size_ - offset);
  std::fill_n(out.begin(), length, std::byte{0});
  std::uint64_t end = offset + length;
  for (auto chunk = chunks_.lower_bound(offset / chunk_bytes_); chunk != chunks_.end(); ++chunk) {
    std::uint64_t chunk_start = chunk->first * chunk_bytes_;
    if (chunk_start >= end) break;
    std::uint64_t from = std::max(offset, chunk_start);
    std::uint64_t to = std::min(end, chunk_start + chunk_bytes_);
    std::copy_n(chunk->second->begin() + static_cast<std::ptrdiff_t>(from - chunk_start), to - from,
                out.begin() + static_cast<std::ptrdiff_t>(from - offset));
  }
  return length;
}

void SparseBytes::write(std::uint64_t offset, Bytes data) {
  std::uint64_t done = 0;
  while (done < data.size()) {
    std::uint64_t at = offset + done;
    std::uint64_t within = at % chunk_bytes_;
    std::uint64_t length = std::min<std::uint64_t>(data.size() - done, chunk_bytes_ - within);
    std::shared_ptr<Chunk>& kept = chunks_[at / chunk_bytes_];
    if (!kept) kept = std::make_shared<Chunk>(chunk_bytes_);
    Chunk& chunk = own(kept);
    std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(done), length,
                chunk.begin() + static_cast<std::ptrdiff_t>(within));
    done += length;
  }
  if (!data.empty()) size_ = std::max(size_, offset + data.size());
}

void SparseBytes::zero(std::uint64_t offset, std::uint64_t length) {
  if (offset >= size_) return;
  std::uint64_t end = offset + std::min(length, size_ - offset);
  auto chunk = chunks_.lower_bound(offset / chunk_bytes_);
  while (chunk != chunks_.end() && chunk->first * chunk_bytes_ < end) {
    std::uint64_t chunk_start = chunk->first * chunk_bytes_;
    std::uint64_t chunk_end = std::min(chunk_start + chunk_bytes_, size_);
    std::uint64_t from = std::max(offset, chunk_start);
    std::uint64_t to = std::min(end, chunk_end);
    if (from == chunk_start && to == chunk_end) {
      chunk = chunks_.erase(chunk);
      continue;
    }
    std::fill_n(own(chunk->second).begin() + static_cast<std::ptrdiff_t>(from - chunk_start), to - from, std::byte{0});
    ++chunk;
  }
}

void SparseBytes::resize(std::uint64_t size) {
  if (size < size_) zero(size, size_ - size);
  size_ = size;
}

std::optional<std::uint64_t> SparseBytes::find_data(std::uint64_t offset) const {
  if (offset >= size_) return std::nullopt;
  auto chunk = chunks_.lower_bound(offset / chunk_bytes_);
  if (chunk == chunks_.end()) return std::nullopt;
  return std::max(offset, chunk->first * chunk_bytes_);
}

std::optional<std::uint64_t> SparseBytes::find_hole(std::uint64_t offset) const {
  if (offset >= size_) return std::nullopt;
  std::uint64_t index = offset / chunk_bytes_;
  while (chunks_.contains(index)) ++index;
  return std::min(std::max(offset, index * chunk_bytes_), size_);
}

}  // namespace warren
