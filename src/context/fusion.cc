#include "context/fusion.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "context/index_rows.h"

namespace warren {
namespace {

constexpr double kFusionRank = 60;

// Whether the chunk is part of the place now.
bool extend_place(FoundPlace& place, const FusedChunk& chunk) {
  if (chunk.chunk == place.last + 1 && place.last - place.first + 1 < kPlaceChunks) place.last = chunk.chunk;
  else if (chunk.chunk == place.first - 1 && place.last - place.first + 1 < kPlaceChunks) place.first = chunk.chunk;
  else return false;
  place.by |= chunk.by;
  return true;
}

}  // namespace

std::vector<FusedChunk> fuse(const std::vector<RankedList>& lists) {
  std::unordered_map<std::int64_t, std::map<FoundBy, double>> scores;
  for (const RankedList& list : lists) {
    for (std::size_t rank = 0; rank < list.chunks.size(); ++rank) {
      double& score = scores[list.chunks[rank]][list.by];
      score = std::max(score, 1 / (kFusionRank + static_cast<double>(rank + 1)));
    }
  }
  std::vector<FusedChunk> fused;
  fused.reserve(scores.size());
  for (const auto& [chunk, by_list] : scores) {
    FusedChunk one{.chunk = chunk};
    for (const auto& [by, score] : by_list) {
      one.score += score;
      one.by |= static_cast<unsigned>(by);
    }
    fused.push_back(one);
  }
  std::ranges::sort(fused, [](const FusedChunk& a, const FusedChunk& b) {
    return a.score != b.score ? a.score > b.score : a.chunk < b.chunk;
  });
  return fused;
}

std::vector<FoundPlace> places_of(const std::vector<FusedChunk>& chunks, std::size_t limit, std::size_t per_file_max) {
  std::vector<FoundPlace> places;
  for (const FusedChunk& chunk : chunks) {
    std::int64_t file = file_of_chunk(chunk.chunk);
    std::size_t of_file = 0;
    bool is_part = false;
    for (FoundPlace& place : places) {
      if (file_of_chunk(place.best) != file) continue;
      ++of_file;
      if (!is_part) is_part = extend_place(place, chunk);
    }
    if (is_part || of_file >= per_file_max || places.size() >= limit) continue;
    places.push_back(
        {.best = chunk.chunk, .first = chunk.chunk, .last = chunk.chunk, .score = chunk.score, .by = chunk.by});
  }
  return places;
}

}  // namespace warren
