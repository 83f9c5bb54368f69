// Conditions on the metadata of vector items, all of which must hold:
//   {"topic": "birds", "year": {"$gte": 2020, "$lt": 2024}, "lang": {"$in": ["de", "fr"]}}
//
// A condition is on one top-level member. Equality and $in compare strings, numbers and booleans; the order operators
// compare numbers. A missing member fulfils only $ne and $nin.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace warren {

struct VectorCondition {
  enum class Operator : std::uint8_t { kEqual, kNotEqual, kGreater, kGreaterEqual, kLess, kLessEqual, kIn, kNotIn };

  std::string key;
  Operator op = Operator::kEqual;
  Json value;  // a list for kIn and kNotIn

  bool operator==(const VectorCondition&) const = default;
};

using VectorFilter = std::vector<VectorCondition>;

// kInvalid names the member and what is wrong with it.
Result<VectorFilter> parse_vector_filter(const Json& filter);
bool matches(const VectorFilter& filter, const Json& metadata);
std::string_view name_of(VectorCondition::Operator op);  // "$eq"

}  // namespace warren
