#include "base/json.h"

#include <fmt/format.h>

namespace warren {
namespace {

constexpr int kLevelsMax = 500;  // printing, copying and comparing a value take stack for each

// Before anything is built of it. True of some text that is not JSON, too.
bool is_too_deep(std::string_view text) {
  int level = 0;
  bool is_in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (is_in_string) {
      if (c == '\\') ++at;
      is_in_string = c != '"';
    } else if (c == '"') {
      is_in_string = true;
    } else if (c == '[' || c == '{') {
      if (++level > kLevelsMax) return true;
    } else if (c == ']' || c == '}') {
      --level;
    }
  }
  return false;
}

}  // namespace

Result<Json> parse_json(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) return Error(Code::kInvalid, "not JSON: it begins with a byte order mark");
  if (is_too_deep(text)) {
    return Error(Code::kInvalid, fmt::format("the JSON is nested more than {} levels deep", kLevelsMax));
  }
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
bool is_json(std::string_view text) {
  return !text.starts_with("\xEF\xBB\xBF") && !is_too_deep(text) && Json::accept(text);
}

std::string dump_json(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string dump_json_pretty(const Json& value) { return value.dump(2, ' ', false, Json::error_handler_t::replace); }

}  // namespace warren
