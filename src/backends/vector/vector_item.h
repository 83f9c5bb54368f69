// Checks of vector items, and items as JSON: {"text": "…", "embedding": [0.1, …], "metadata": {…}}.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/vector/vector_index.h"
#include "base/result.h"

namespace warren {

inline constexpr std::size_t kVectorDimensionMax = 16'384;
inline constexpr std::size_t kVectorTopMax = 10'000;

// kInvalid: empty, too long, not finite, or all zeros, which has no direction.
Status check_embedding(std::span<const float> embedding);
// kInvalid if the dimensions differ.
Status check_dimension(std::size_t dimension, std::size_t expected);
// An item that an index of this dimension can take (0: any). kInvalid names the item.
Status check_item(const VectorItem& item, std::size_t dimension);
// All of them; in an empty index (dimension 0) the first decides. Returns the dimension.
Result<std::size_t> check_items(std::span<const VectorItem> items, std::size_t dimension);
// A query of an index of this dimension (0: of an empty index).
Status check_query(const VectorQuery& query, std::size_t dimension);

// A JSON array of numbers. kInvalid.
Result<std::vector<float>> parse_embedding(const Json& value);
Json embedding_json(std::span<const float> embedding);

// The embedding is needed; without text or metadata they are empty. Other members are refused with Members::kKnown,
// because an index would lose them. kInvalid says what is wrong; the id is the caller's business.
enum class Members { kAny, kKnown };
Result<VectorItem> parse_vector_item(std::string_view text, Members members = Members::kAny);
std::string format_vector_item(const VectorItem& item);

}  // namespace warren
