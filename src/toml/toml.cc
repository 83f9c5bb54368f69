#include "toml/toml.h"

#include <sstream>

#include <fmt/format.h>
#include <toml++/toml.h>

namespace warren {
namespace {

Json json_of(const toml::node& node) {
  if (const toml::table* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [key, value] : *table) object[std::string(key.str())] = json_of(value);
    return object;
  }
  if (const toml::array* array = node.as_array()) {
    Json list = Json::array();
    for (const toml::node& value : *array) list.push_back(json_of(value));
    return list;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* real = node.as_floating_point()) return real->get();
  if (const auto* boolean = node.as_boolean()) return boolean->get();
  std::ostringstream text;
  node.visit([&](const auto& value) {
    if constexpr (toml::is_date<decltype(value)> || toml::is_time<decltype(value)> ||
                  toml::is_date_time<decltype(value)>) {
      text << value.get();
    }
  });
  return text.str();
}

}  // namespace

Result<Json> parse_toml(std::string_view text) {
  try {
    return json_of(toml::parse(text));
  } catch (const toml::parse_error& error) {
    return Error(Code::kInvalid, fmt::format("line {}, column {}: {}", error.source().begin.line,
                                             error.source().begin.column, error.description()));
  } catch (const std::exception& error) {
    return Error(Code::kInvalid, error.what());
  }
}

}  // namespace warren
