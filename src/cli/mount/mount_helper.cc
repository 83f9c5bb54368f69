#include "cli/mount/mount_helper.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/path.h"

namespace warren::cli {
namespace {

// Options that mount(8) handles itself, that hold for all our mounts (nosuid, nodev, default_permissions), or that
// choose when reading changes access times, which it never does here.
constexpr std::array<std::string_view, 43> kIgnored = {
    "defaults",   "auto",        "noauto",        "user",      "nouser",     "users",
    "nousers",    "owner",       "noowner",       "group",     "nogroup",    "_netdev",
    "nofail",     "atime",       "noatime",       "diratime",  "nodiratime", "relatime",
    "norelatime", "strictatime", "nostrictatime", "lazytime",  "nolazytime", "iversion",
    "noiversion", "mand",        "nomand",        "suid",      "nosuid",     "dev",
    "nodev",      "loud",        "silent",        "symfollow", "nonempty",   "default_permissions",
    "intr",       "nointr",      "acl",           "noacl",     "user_xattr", "nouser_xattr",
    "big_writes"};
constexpr std::array<std::string_view, 8> kIgnoredPrefixes = {
    "x-", "X-", "comment=", "user=", "fsname=", "subtype=", "helper=", "uhelper="};

constexpr std::string_view kSupported =
    "the supported options are ro, noexec, sync, dirsync, allow_other, allow_root, auto_unmount, passthrough, uid=N "
    "and "
    "gid=N";

// The last one of a pair counts, as for mount(8).
struct Flags {
  bool read_only = false;
  bool no_exec = false;
  bool sync = false;
};

bool is_ignored(std::string_view option) {
  if (option.empty() || std::find(kIgnored.begin(), kIgnored.end(), option) != kIgnored.end()) return true;
  return std::any_of(kIgnoredPrefixes.begin(), kIgnoredPrefixes.end(),
                     [&](std::string_view prefix) { return option.starts_with(prefix); });
}

Status add_option(std::vector<std::string>& words, Flags& flags, std::string_view option) {
  if (is_ignored(option)) return Ok{};
  if (option == "ro" || option == "rw") flags.read_only = option == "ro";
  else if (option == "noexec" || option == "exec") flags.no_exec = option == "noexec";
  else if (option == "sync" || option == "dirsync") flags.sync = true;
  else if (option == "async") flags.sync = false;
  else if (option == "allow_other") words.emplace_back("--allow-other");
  else if (option == "allow_root") words.emplace_back("--allow-root");
  else if (option == "auto_unmount") words.emplace_back("--auto-unmount");
  else if (option == "passthrough") words.emplace_back("--passthrough");
  else if (option.starts_with("uid=") || option.starts_with("gid=")) words.push_back(fmt::format("--{}", option));
  else if (option == "remount")
    return Error(Code::kInvalid, "the options of a mounted agent cannot be changed", "unmount it and mount it again");
  else return Error(Code::kInvalid, fmt::format("unknown mount option {}", quote(option)), std::string(kSupported));
  return Ok{};
}

Status add_options(std::vector<std::string>& words, Flags& flags, std::string_view list) {
  while (!list.empty()) {
    std::size_t comma = std::min(list.find(','), list.size());
    WARREN_TRY(add_option(words, flags, list.substr(0, comma)));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return Ok{};
}

}  // namespace

bool is_mount_helper(std::string_view program_name) {
  return program_name == "mount.warren" || program_name == "mount.fuse.warren";
}

Result<std::vector<std::string>> mount_words(std::span<const std::string> given) {
  std::vector<std::string> words{"mount"};
  std::vector<std::string> places;
  bool is_fake = false;
  Flags flags;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string& word = given[i];
    if (word == "-o" && i + 1 < given.size()) WARREN_TRY(add_options(words, flags, given[++i]));
    else if (word.starts_with("-o") && word.size() > 2)
      WARREN_TRY(add_options(words, flags, std::string_view(word).substr(2)));
    else if ((word == "-t" || word == "-N") && i + 1 < given.size()) ++i;
    else if (word == "-f" || word == "-fn" || word == "-nf") is_fake = true;
    else if (!word.starts_with('-')) places.push_back(word);
    // -s, -n and -v only concern mount(8) itself.
  }
  if (places.size() != 2)
    return Error(Code::kInvalid, "mount.warren takes two arguments: an agent file and a directory");
  if (is_fake) return std::vector<std::string>();
  if (flags.read_only) words.emplace_back("--read-only");
  if (flags.no_exec) words.emplace_back("--no-exec");
  if (flags.sync) words.emplace_back("--sync");
  words.emplace_back("--");
  words.insert(words.end(), places.begin(), places.end());
  return words;
}

}  // namespace warren::cli
