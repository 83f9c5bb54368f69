#include "base/json.h"

#include <fmt/format.h>

namespace warren {

Result<Json> parse_json(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) return Error(Code::kInvalid, "not JSON: it begins with a byte order mark");
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    return Error(Code::kInvalid, fmt::format("not JSON at byte {}", error.byte),
                 "strings need double quotes: '\"text\"'");
  } catch (const nlohmann::json::exception&) {  // a number too large for a double
    return Error(Code::kInvalid, "a number in the JSON is too large");
  }
}

// The library skips a byte order mark, which JSON does not allow.
bool is_json(std::string_view text) { return !text.starts_with("\xEF\xBB\xBF") && Json::accept(text); }

std::string dump_json(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string dump_json_pretty(const Json& value) { return value.dump(2, ' ', false, Json::error_handler_t::replace); }

}  // namespace warren
