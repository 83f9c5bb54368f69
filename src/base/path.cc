#include "base/path.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/printable.h"

namespace warren {

std::string quote(std::string_view bytes) { return "'" + printable(bytes) + "'"; }

Status check_link_target(std::string_view target) {
  constexpr std::size_t kTargetBytes = limits::kPathBytes - 1;
  if (target.empty()) return Error(Code::kNotFound, "the target of a symbolic link is empty");
  if (target.size() > kTargetBytes) {
    return Error(Code::kNameTooLong,
                 fmt::format("the target has {} bytes, at most {} are allowed", target.size(), kTargetBytes));
  }
  if (target.find('\0') != target.npos) return Error(Code::kInvalid, "the target contains a NUL");
  return Ok{};
}

Status check_xattr_name(std::string_view name) {
  if (name.empty() || name.find('\0') != name.npos) {
    return Error(Code::kInvalid, fmt::format("{} is not a valid attribute name", quote(name)));
  }
  if (name.size() > limits::kXattrNameBytes) {
    return Error(Code::kRange, fmt::format("the attribute's name has {} bytes, at most {} are allowed", name.size(),
                                           limits::kXattrNameBytes));
  }
  return Ok{};
}

Status check_name(std::string_view name) {
  if (name.empty()) return Error(Code::kNotFound, "the name is empty");
  if (name == "." || name == "..") return Error(Code::kInvalid, fmt::format("{} is not a valid name", quote(name)));
  if (name.size() > limits::kNameBytes) {
    return Error(Code::kNameTooLong, fmt::format("the name {}… has {} bytes, at most {} are allowed",
                                                 quote(name.substr(0, 40)), name.size(), limits::kNameBytes));
  }
  if (name.find('/') != name.npos) return Error(Code::kInvalid, fmt::format("the name {} contains a '/'", quote(name)));
  if (name.find('\0') != name.npos)
    return Error(Code::kInvalid, fmt::format("the name {} contains a NUL", quote(name)));
  return Ok{};
}

Result<std::vector<std::string_view>> split_path(std::string_view path) {
  if (path.empty()) return Error(Code::kNotFound, "the path is empty");
  if (path.size() > limits::kPathBytes) {
    return Error(Code::kNameTooLong,
                 fmt::format("the path has {} bytes, at most {} are allowed", path.size(), limits::kPathBytes));
  }
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  while (start < path.size()) {
    std::size_t end = path.find('/', start);
    if (end == path.npos) end = path.size();
    std::string_view part = path.substr(start, end - start);
    start = end + 1;
    if (part.empty() || part == ".") continue;
    if (part != "..") WARREN_TRY(check_name(part));
    parts.push_back(part);
  }
  return parts;
}

Result<std::string> normalise_path(std::string_view path) {
  std::vector<std::string_view> parts = WARREN_TRY(split_path(path));
  if (parts.empty()) return std::string("/");
  std::string out;
  for (std::string_view part : parts) {
    out += '/';
    out += part;
  }
  return out;
}

bool is_normal_path(std::string_view path) {
  if (path == "/") return true;
  if (!path.starts_with('/') || path.size() > limits::kStoredPathBytes) return false;
  int depth = 0;
  for (std::size_t at = 0; at != path.npos;) {
    std::size_t start = at + 1;
    at = path.find('/', start);
    if (++depth > limits::kTreeDepth || !check_name(path.substr(start, at - start)).ok()) return false;
  }
  return true;
}

std::string join_path(std::string_view parent, std::string_view name) {
  std::string out(parent);
  if (out.empty() || out.back() != '/') out += '/';
  out += name;
  return out;
}

SplitParent split_parent(std::string_view normalised) {
  return {.parent = directory_of(normalised), .name = base_name(normalised)};
}

std::string_view directory_of(std::string_view path) {
  std::size_t slash = path.rfind('/');
  return slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace warren
