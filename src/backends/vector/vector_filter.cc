#include "backends/vector/vector_filter.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/path.h"

namespace warren {
namespace {

using Operator = VectorCondition::Operator;

struct NamedOperator {
  std::string_view name;
  Operator op;
};
constexpr std::array<NamedOperator, 8> kOperators{{{"$eq", Operator::kEqual},
                                                   {"$ne", Operator::kNotEqual},
                                                   {"$gt", Operator::kGreater},
                                                   {"$gte", Operator::kGreaterEqual},
                                                   {"$lt", Operator::kLess},
                                                   {"$lte", Operator::kLessEqual},
                                                   {"$in", Operator::kIn},
                                                   {"$nin", Operator::kNotIn}}};

bool is_plain(const Json& value) { return value.is_string() || value.is_number() || value.is_boolean(); }

Result<Operator> operator_of(std::string_view name) {
  std::string names;
  for (const NamedOperator& named : kOperators) {
    if (named.name == name) return named.op;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", named.name);
  }
  return Error(Code::kInvalid, fmt::format("unknown operator {}; it is one of {}", quote(name), names));
}

Result<VectorCondition> make_condition(const std::string& key, Operator op, const Json& value) {
  switch (op) {
    case Operator::kEqual:
    case Operator::kNotEqual:
      if (!is_plain(value)) return Error(Code::kInvalid, "the value must be a string, a number, true or false");
      break;
    case Operator::kIn:
    case Operator::kNotIn:
      if (!value.is_array() || value.empty() || !std::all_of(value.begin(), value.end(), is_plain)) {
        return Error(Code::kInvalid, fmt::format("{} takes a list of strings, numbers, true or false", name_of(op)));
      }
      break;
    default:
      if (!value.is_number()) return Error(Code::kInvalid, fmt::format("{} takes a number", name_of(op)));
  }
  return VectorCondition{.key = key, .op = op, .value = value};
}

bool holds(const VectorCondition& condition, const Json& metadata) {
  auto found = metadata.find(condition.key);
  bool is_there = found != metadata.end();
  auto order = [&](auto compare) { return is_there && found->is_number() && compare(*found, condition.value); };
  auto is_listed = [&] {
    return is_there && std::any_of(condition.value.begin(), condition.value.end(),
                                   [&](const Json& value) { return *found == value; });
  };
  switch (condition.op) {
    case Operator::kEqual: return is_there && *found == condition.value;
    case Operator::kNotEqual: return !is_there || *found != condition.value;
    case Operator::kGreater: return order([](const Json& a, const Json& b) { return a > b; });
    case Operator::kGreaterEqual: return order([](const Json& a, const Json& b) { return a >= b; });
    case Operator::kLess: return order([](const Json& a, const Json& b) { return a < b; });
    case Operator::kLessEqual: return order([](const Json& a, const Json& b) { return a <= b; });
    case Operator::kIn: return is_listed();
    case Operator::kNotIn: return !is_listed();
  }
  return false;
}

}  // namespace

std::string_view name_of(VectorCondition::Operator op) {
  for (const NamedOperator& named : kOperators) {
    if (named.op == op) return named.name;
  }
  return "?";
}

Result<VectorFilter> parse_vector_filter(const Json& filter) {
  if (!filter.is_object()) return Error(Code::kInvalid, "a filter is a JSON object, such as {\"topic\": \"birds\"}");
  VectorFilter conditions;
  for (const auto& [key, value] : filter.items()) {
    auto in_member = [&key = key] { return fmt::format("filter, member {}", quote(key)); };
    if (key.empty() || key.starts_with('$')) {
      return Error(Code::kInvalid, fmt::format("filter: {} is not the name of a metadata member", quote(key)),
                   "all members must match; there is no other way to combine them");
    }
    if (!value.is_object()) {
      conditions.push_back(WARREN_TRY(make_condition(key, Operator::kEqual, value).within(in_member)));
      continue;
    }
    if (value.empty()) return Error(Code::kInvalid, "there is no operator").within(in_member());
    for (const auto& [name, operand] : value.items()) {
      Operator op = WARREN_TRY(operator_of(name).within(in_member));
      conditions.push_back(WARREN_TRY(make_condition(key, op, operand).within(in_member)));
    }
  }
  return conditions;
}

bool matches(const VectorFilter& filter, const Json& metadata) {
  return std::all_of(filter.begin(), filter.end(), [&](const VectorCondition& one) { return holds(one, metadata); });
}

}  // namespace warren
