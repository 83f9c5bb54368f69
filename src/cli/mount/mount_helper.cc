#include "cli/mount/mount_helper.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/path.h"

namespace warren::cli {
namespace {

// Options that mount(8) handles itself, or that hold for all our mounts.
constexpr std::array<std::string_view, 21> kIgnored = {
    "defaults", "auto",  "noauto",  "rw",       "user",       "nouser", "users", "owner", "group", "_netdev", "nofail",
    "exec",     "async", "noatime", "relatime", "nodiratime", "nosuid", "nodev", "dev",   "suid",  "loud"};

Status add_option(std::vector<std::string>& words, std::string_view option) {
  if (option.empty() || option.starts_with("x-") || option.starts_with("comment=")) return Ok{};
  if (std::find(kIgnored.begin(), kIgnored.end(), option) != kIgnored.end()) return Ok{};
  if (option == "noexec") words.emplace_back("--no-exec");
  else if (option == "ro") words.emplace_back("--read-only");
  else if (option == "allow_other") words.emplace_back("--allow-other");
  else if (option == "allow_root") words.emplace_back("--allow-root");
  else if (option == "auto_unmount") words.emplace_back("--auto-unmount");
  else if (option.starts_with("uid=") || option.starts_with("gid=")) words.push_back(fmt::format("--{}", option));
  else
    return Error(Code::kInvalid, fmt::format("unknown mount option {}", quote(option)),
                 "the supported options are ro, noexec, allow_other, allow_root, auto_unmount, uid=N and gid=N");
  return Ok{};
}

Status add_options(std::vector<std::string>& words, std::string_view list) {
  while (!list.empty()) {
    std::size_t comma = std::min(list.find(','), list.size());
    WARREN_TRY(add_option(words, list.substr(0, comma)));
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
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string& word = given[i];
    if (word == "-o" && i + 1 < given.size()) WARREN_TRY(add_options(words, given[++i]));
    else if (word.starts_with("-o") && word.size() > 2)
      WARREN_TRY(add_options(words, std::string_view(word).substr(2)));
    else if ((word == "-t" || word == "-N") && i + 1 < given.size()) ++i;
    else if (word == "-f" || word == "-fn" || word == "-nf") is_fake = true;
    else if (!word.starts_with('-')) places.push_back(word);
    // -s, -n and -v only concern mount(8) itself.
  }
  if (places.size() != 2)
    return Error(Code::kInvalid, "mount.warren takes two arguments: an agent file and a directory");
  if (is_fake) return std::vector<std::string>();
  words.emplace_back("--");
  words.insert(words.end(), places.begin(), places.end());
  return words;
}

}  // namespace warren::cli
