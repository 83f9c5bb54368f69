// References to items: "disk:/home/me/notes.md" is the path /home/me/notes.md on the drive disk.
//
// A drive is the folder /context/<drive> of an agent's namespace, and its items are the files in it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warren {

inline constexpr std::string_view kDrivesPath = "/context";
inline constexpr std::size_t kDriveNameBytes = 64;

struct Ref {
  std::string drive;
  std::string path;  // normalised: "/a/b"; "/" is the drive itself

  bool operator==(const Ref&) const = default;
  bool is_drive() const { return path == "/"; }
};

// [a-z][a-z0-9_-]*, at most kDriveNameBytes.
bool is_drive_name(std::string_view name);
Status check_drive_name(std::string_view name);

// kInvalid for a drive or path that cannot be: '..', NUL, '\n' and the like are refused, never interpreted. A path need
// not begin with '/'. kNameTooLong.
Result<Ref> make_ref(std::string_view drive, std::string_view path);
// "disk:/a/b". kInvalid without a drive's name and ":/".
Result<Ref> parse_ref(std::string_view text);
bool looks_like_ref(std::string_view text);  // begins with a drive's name and ":/"

// "disk:/a/b". The path of a web address shows both slashes: "url:/https://example.com/a".
std::string to_string(const Ref& ref);
std::string namespace_path(const Ref& ref);             // "/context/disk/a/b"
std::optional<Ref> find_ref_of(std::string_view path);  // of a normalised path of the namespace
Ref parent_of(const Ref& ref);                          // of a drive: the drive
std::string_view name_of(const Ref& ref);               // the last name; of a drive: empty
Ref child_of(const Ref& ref, std::string_view name);
bool is_at_or_below(const Ref& ref, const Ref& top);

}  // namespace warren
