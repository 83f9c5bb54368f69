// One ranking out of several, and places out of chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace warren {

enum class FoundBy : unsigned { kText = 1, kMeaning = 2, kPattern = 4 };

// Chunks, best first.
struct RankedList {
  FoundBy by = FoundBy::kText;
  std::vector<std::int64_t> chunks;
};

struct FusedChunk {
  std::int64_t chunk = 0;
  double score = 0;
  unsigned by = 0;  // FoundBy
};

// Reciprocal rank fusion with k = 60: a list adds 1 / (60 + rank) to the score of each of its chunks. Ranks need no
// common scale, so that lists of any kind can be combined. Lists of the same kind, as of two models, count once for
// each chunk, by the better rank. Best first; of equally good ones, the lower number first.
std::vector<FusedChunk> fuse(const std::vector<RankedList>& lists);

// Neighbouring chunks of one file.
struct FoundPlace {
  std::int64_t best = 0;  // the chunk for which it is shown
  std::int64_t first = 0;
  std::int64_t last = 0;
  double score = 0;  // of the best one
  unsigned by = 0;
};

inline constexpr std::int64_t kPlaceChunks = 3;  // a place has at most so many

// The best `limit` places, at most `per_file_max` of a file.
std::vector<FoundPlace> places_of(const std::vector<FusedChunk>& chunks, std::size_t limit, std::size_t per_file_max);

}  // namespace warren
