#include "base/json.h"

#include <fmt/format.h>

namespace warren {

Result<Json> parse_json(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    return Error(Code::kInvalid, fmt::format("not JSON at byte {}", error.byte),
                 "strings need double quotes: '\"text\"'");
  }
}

bool is_json(std::string_view text) { return Json::accept(text); }

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string dump_json_pretty(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace warren
