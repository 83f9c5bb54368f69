#include "drives/drive_ref.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"

namespace warren {
namespace {

constexpr std::string_view kWebDrive = "url";

bool is_drive_letter(char c) { return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_' || c == '-'; }

Status check_components(std::string_view path) {
  auto names = WARREN_TRY(split_path(path));
  for (std::string_view name : names) {
    if (name != "..") continue;
    return Error(Code::kInvalid, fmt::format("the path {} contains '..', which drives do not have", quote(path)),
                 "name the item from the root of its drive");
  }
  return Ok{};
}

}  // namespace

bool is_drive_name(std::string_view name) {
  return !name.empty() && name.size() <= kDriveNameBytes && name.front() >= 'a' && name.front() <= 'z' &&
         std::ranges::all_of(name, is_drive_letter);
}

Status check_drive_name(std::string_view name) {
  if (is_drive_name(name)) return Ok{};
  return Error(
      Code::kInvalid, fmt::format("{} is not a valid drive name", quote(name)),
      fmt::format("a drive's name is a lower-case letter and then letters, digits, '_' or '-', at most {} in all",
                  kDriveNameBytes));
}

Result<Ref> make_ref(std::string_view drive, std::string_view path) {
  WARREN_TRY(check_drive_name(drive));
  WARREN_TRY(check_components(path));
  Ref ref { .drive = std::string(drive), .path = WARREN_TRY(normalise_path(path)) };
  WARREN_TRY(normalise_path(namespace_path(ref)).within("the path on its drive"));  // not too long as a whole
  return ref;
}

bool looks_like_ref(std::string_view text) {
  std::size_t colon = text.find(':');
  return colon != text.npos && is_drive_name(text.substr(0, colon)) && text.substr(colon + 1).starts_with('/');
}

Result<Ref> parse_ref(std::string_view text) {
  if (looks_like_ref(text)) {
    std::size_t colon = text.find(':');
    return make_ref(text.substr(0, colon), text.substr(colon + 1));
  }
  return Error(Code::kInvalid, fmt::format("{} is not a reference to an item", quote(text)),
               "a reference is DRIVE:/PATH, such as disk:/home/me/notes.md");
}

std::string to_string(const Ref& ref) {
  std::string_view path = ref.path;
  if (ref.drive == kWebDrive) {
    for (std::string_view scheme : {"/http:/", "/https:/"}) {
      if (path.starts_with(scheme)) return fmt::format("{}:{}/{}", ref.drive, scheme, path.substr(scheme.size()));
    }
  }
  return fmt::format("{}:{}", ref.drive, path);
}

std::string namespace_path(const Ref& ref) {
  return fmt::format("{}/{}{}", kDrivesPath, ref.drive, ref.is_drive() ? "" : ref.path);
}

std::optional<Ref> find_ref_of(std::string_view path) {
  if (!path.starts_with(kDrivesPath) || path.size() <= kDrivesPath.size() + 1 || path[kDrivesPath.size()] != '/') {
    return std::nullopt;
  }
  std::string_view rest = path.substr(kDrivesPath.size() + 1);
  std::size_t slash = rest.find('/');
  if (!is_drive_name(rest.substr(0, slash))) return std::nullopt;
  return Ref{.drive = std::string(rest.substr(0, slash)),
             .path = slash == rest.npos ? "/" : std::string(rest.substr(slash))};
}

Ref parent_of(const Ref& ref) {
  if (ref.is_drive()) return ref;
  return {.drive = ref.drive, .path = std::string(split_parent(ref.path).parent)};
}

std::string_view name_of(const Ref& ref) { return ref.is_drive() ? std::string_view() : split_parent(ref.path).name; }

Ref child_of(const Ref& ref, std::string_view name) { return {.drive = ref.drive, .path = join_path(ref.path, name)}; }

bool is_at_or_below(const Ref& ref, const Ref& top) {
  if (ref.drive != top.drive) return false;
  return top.is_drive() || ref.path == top.path || (ref.path.starts_with(top.path) && ref.path[top.path.size()] == '/');
}

}  // namespace warren
