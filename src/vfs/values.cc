#include "vfs/values.h"

#include <string>

#include <fmt/format.h>

#include "base/json.h"
#include "base/path.h"
#include "fs/path_ops.h"
#include "vfs/rights.h"

namespace warren {
namespace {

// A value takes many times the memory of its text: it is built only to find out where the text is wrong.
Status check_json(std::string_view text) {
  if (is_json(text)) return Ok{};
  WARREN_TRY(parse_json(text));
  return Error(Code::kInvalid, "not JSON");
}

Status check_lines(std::string_view data) {
  std::size_t line = 1;
  while (!data.empty()) {
    std::size_t end = std::min(data.find('\n'), data.size());
    std::string_view one = data.substr(0, end);
    if (!one.empty()) {
      WARREN_TRY(check_json(one).within([&] { return fmt::format("line {}", line); }));
    }
    data.remove_prefix(std::min(end + 1, data.size()));
    ++line;
  }
  return Ok{};
}

// What is stored for the value, or why it cannot be.
Result<std::string> stored_form(std::string_view path, std::string_view data) {
  if (path.ends_with(".json")) {
    WARREN_TRY(check_json(data));
  } else if (path.ends_with(".jsonl")) {
    if (is_json(data)) {  // a value over several lines becomes one line
      Json one = WARREN_TRY(parse_json(data));
      return dump_json(one) + "\n";
    }
    WARREN_TRY(check_lines(data));
    std::string text(data);
    if (!text.empty() && text.back() != '\n') text += '\n';
    return text;
  }
  return std::string(data);
}

}  // namespace

Status write_value(FileSystem& view, std::string_view path, std::string_view data, AsIs as_is,
                   std::optional<std::int64_t> expires_at_ms) {
  std::string normal = WARREN_TRY(normalise_path(path));
  if (region_of(normal) == Region::kEpisodic) {
    if (expires_at_ms)
      return Error(Code::kInvalid, fmt::format("{} cannot expire: /mem/episodic only grows", quote(path)));
    return append_value(view, path, data, as_is);
  }
  WriteFileOptions options{.expires_at_ms = expires_at_ms};
  if (as_is == AsIs::kYes) return write_file(view, path, as_bytes(data), options);
  std::string stored = WARREN_TRY(stored_form(path, data).within([&] { return "write " + quote(path); }));
  return write_file(view, path, as_bytes(stored), options);
}

Status append_value(FileSystem& view, std::string_view path, std::string_view data, AsIs as_is) {
  if (as_is == AsIs::kYes) return append_file(view, path, as_bytes(data));
  std::string stored = WARREN_TRY(stored_form(path, data).within([&] { return "append to " + quote(path); }));
  return append_file(view, path, as_bytes(stored));
}

}  // namespace warren
