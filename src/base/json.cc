#include "base/json.h"

#include <cstdint>
#include <iterator>

#include <fmt/format.h>

#include "base/utf8.h"

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

std::string dump_by_library(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

bool needs_no_escape(char c) { return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\'; }

void append_escaped(std::string& out, char c) {
  switch (c) {
    case '"': out += "\\\""; break;
    case '\\': out += "\\\\"; break;
    case '\b': out += "\\b"; break;
    case '\f': out += "\\f"; break;
    case '\n': out += "\\n"; break;
    case '\r': out += "\\r"; break;
    case '\t': out += "\\t"; break;
    default: fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
  }
}

// The library looks at each byte by itself, which was a third of the time of a call that reads a file.
void append_text(std::string& out, const std::string& whole) {
  if (!is_utf8(whole)) {
    out += dump_by_library(whole);
    return;
  }
  std::string_view text = whole;
  out += '"';
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (needs_no_escape(text[at])) continue;
    out += text.substr(begin, at - begin);
    append_escaped(out, text[at]);
    begin = at + 1;
  }
  out += text.substr(begin);
  out += '"';
}

void append_json(std::string& out, const Json& value) {
  std::string_view separator;
  if (const auto* members = value.get_ptr<const Json::object_t*>()) {
    out += '{';
    for (const auto& [name, member] : *members) {
      out += separator;
      append_text(out, name);
      out += ':';
      append_json(out, member);
      separator = ",";
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (const Json& member : value) {
      out += separator;
      append_json(out, member);
      separator = ",";
    }
    out += ']';
  } else if (const auto* text = value.get_ptr<const std::string*>()) {
    append_text(out, *text);
  } else if (const auto* positive = value.get_ptr<const std::uint64_t*>()) {
    fmt::format_to(std::back_inserter(out), "{}", *positive);
  } else if (const auto* number = value.get_ptr<const std::int64_t*>()) {
    fmt::format_to(std::back_inserter(out), "{}", *number);
  } else {
    out += dump_by_library(value);
  }
}

}  // namespace

Json json_object(std::size_t members) {
  Json made = Json::object();
  made.get_ref<Json::object_t&>().reserve(members);
  return made;
}

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

std::string dump_json(const Json& value) {
  std::string out;
  append_json(out, value);
  return out;
}

std::string dump_json_pretty(const Json& value) { return value.dump(2, ' ', false, Json::error_handler_t::replace); }

}  // namespace warren
