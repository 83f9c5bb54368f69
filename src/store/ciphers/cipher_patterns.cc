#include "store/ciphers/cipher_patterns.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "text/glob_check.h"

namespace warren {
namespace {

// Why it cannot match what it seems to; empty if it can.
std::string_view find_pattern_fault(std::string_view pattern) {
  if (pattern.empty()) return "it is empty";
  if (pattern.find('\0') != pattern.npos) return "it has a NUL byte";
  if (!pattern.starts_with('/') && !pattern.starts_with("**")) return "it begins neither with '/' nor with '**'";
  if (has_unclosed_class(pattern)) return "a '[' in it is not closed; '\\[' is the character itself";
  for (std::size_t at = pattern.starts_with('/') ? 1 : 0; at < pattern.size();) {
    std::size_t end = std::min(pattern.find('/', at), pattern.size());
    std::string_view part = pattern.substr(at, end - at);
    if (part == ".." || part == ".") return "paths have no '.' and '..'";
    if (part.empty()) return "it has '//'";
    at = end + 1;
  }
  return {};
}

// Bytes before the first wildcard.
std::size_t literal_bytes(std::string_view pattern) {
  if (pattern.starts_with('/')) pattern.remove_prefix(1);
  std::size_t bytes = 0;
  for (std::size_t at = 0;
       at < pattern.size() && std::string_view("*?[").find(pattern[at]) == std::string_view::npos;) {
    at += pattern[at] == '\\' ? 2 : 1;
    ++bytes;
  }
  return bytes;
}

}  // namespace

Status check_cipher_pattern(std::string_view pattern) {
  if (pattern.size() > limits::kPathBytes) {
    return Error(Code::kNameTooLong, fmt::format("a pattern has at most {} bytes", limits::kPathBytes));
  }
  std::string_view fault = find_pattern_fault(pattern);
  if (fault.empty()) return Ok{};
  return Error(Code::kInvalid, fmt::format("{} is not a valid pattern: {}", quote(pattern), fault),
               "name a directory (/secrets) or use wildcards ('/secrets/**', '**/*.key')");
}

bool covers_path(const Glob& pattern, std::string_view path) {
  if (pattern.matches(path)) return true;
  if (pattern.is_plain()) return false;  // it includes what is below it
  for (std::size_t at = path.rfind('/'); at != path.npos && at > 0; at = path.rfind('/', at - 1)) {
    if (pattern.matches(path.substr(0, at))) return true;
  }
  return false;
}

bool decides_before(std::string_view a, std::string_view b) {
  std::size_t literal_a = literal_bytes(a);
  std::size_t literal_b = literal_bytes(b);
  if (literal_a != literal_b) return literal_a > literal_b;
  if (a.size() != b.size()) return a.size() > b.size();
  return a < b;
}

}  // namespace warren
