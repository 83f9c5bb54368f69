#include "db/redo.h"

#include <utility>

namespace warren {
namespace {

Redo::Value own(const BoundValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* text = std::get_if<std::string_view>(&value)) return Redo::Text{std::string(*text)};
  if (const auto* blob = std::get_if<Bytes>(&value)) return Redo::Blob{std::string(as_text(*blob))};
  return std::monostate();
}

}  // namespace

std::uint32_t Redo::index_of(std::string_view sql) {
  auto [known, is_new] = sql_index_.try_emplace(std::string(sql), static_cast<std::uint32_t>(sql_.size()));
  if (is_new) sql_.emplace_back(sql);
  return known->second;
}

void Redo::add(std::uint32_t sql, const std::vector<BoundValue>& values, RedoOutcome outcome) {
  Step& step = steps_.emplace_back();
  step.sql = sql;
  step.outcome = outcome;
  step.values.reserve(values.size());
  for (const BoundValue& value : values) step.values.push_back(own(value));
}

}  // namespace warren
