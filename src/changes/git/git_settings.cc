#include "changes/git/git_settings.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <tuple>

#include <sys/stat.h>

#include <fmt/format.h>

#include "base/below.h"
#include "changes/git/git.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

// Of these sections only some variables are a command, or a repository that git runs the hooks of.
bool is_about_other_things(std::string_view key, std::string_view value) {
  constexpr std::string_view kOther[] = {"branch.", "user.", "url.", "color."};
  constexpr std::string_view kOfRemotes[] = {"uploadpack", "receivepack", "vcs", "url", "pushurl"};
  auto starts = [&](std::string_view one) { return key.starts_with(one); };
  if (std::any_of(std::begin(kOther), std::end(kOther), starts)) return true;
  std::string_view variable = key.substr(key.rfind('.') + 1);
  if (key.starts_with("submodule.")) return variable != "update" || !value.starts_with('!');
  bool is_of_remote = std::find(std::begin(kOfRemotes), std::end(kOfRemotes), variable) != std::end(kOfRemotes);
  return key.starts_with("remote.") && !is_of_remote;
}

// Of a URL, the path or the command that git finds on this machine: "ext::./run", "file:///srv/a".
std::string_view without_transport(std::string_view word) {
  constexpr std::string_view kFile = "file://";
  if (word.starts_with(kFile)) return word.substr(kFile.size());
  std::size_t at = word.find("::");
  return at == word.npos ? word : word.substr(at + 2);
}

std::vector<std::string_view> words_of(std::string_view value) {
  constexpr std::string_view kBetween = " \t\n\"'`;|&()<>=!$";
  std::vector<std::string_view> words;
  while (!value.empty()) {
    std::size_t end = std::min(value.find_first_of(kBetween), value.size());
    if (end > 0) words.push_back(value.substr(0, end));
    value.remove_prefix(std::min(value.size(), end + 1));
  }
  return words;
}

// Where git would look for it, below the top of the work tree: in .git for a file that is included, and in a submodule
// for its command. "" is the top.
std::string dir_of_setting(std::string_view key) {
  constexpr std::string_view kSubmodule = "submodule.";
  if (key.starts_with("include.") || key.starts_with("includeif.")) return "/.git";
  if (!key.starts_with(kSubmodule)) return "";
  key.remove_prefix(kSubmodule.size());
  return fmt::format("/{}", key.substr(0, key.rfind('.')));  // its name, which is its path unless it was moved
}

std::string path_in_tree(std::string_view word, const std::string& from, const std::string& base) {
  std::string whole = word.starts_with('/') ? std::string(word) : fmt::format("{}/{}", from, word);
  std::string plain = std::filesystem::path(whole).lexically_normal().string();
  while (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  if (!is_at_or_below(plain, base) || plain.size() <= base.size()) return "";
  return plain.substr(base.size());
}

struct Known {
  std::string settings;                                               // their file
  std::tuple<std::int64_t, std::int64_t, std::int64_t, ino_t> state;  // of the settings' file
  std::set<std::string> paths;
};

std::tuple<std::int64_t, std::int64_t, std::int64_t, ino_t> state_of(const std::string& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return {};
  return {info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_size, info.st_ino};
}

// The base may be a linked worktree, or below the top of one: git knows where its settings are.
Known ask_git(const std::string& base) {
  Known known{.settings = base + "/.git/config", .state = {}, .paths = {}};
  Git git(base);
  Result<std::string> common = git.ask({"rev-parse", "--git-common-dir"});
  Result<std::string> top = git.ask({"rev-parse", "--show-toplevel"});
  if (common.ok() && top.ok()) {
    known.settings = fmt::format("{}/config", common->starts_with('/') ? *common : fmt::format("{}/{}", base, *common));
  }
  known.state = state_of(known.settings);
  if (!common.ok() || !top.ok()) return known;
  Result<Captured> listed = git.run({"config", "--list", "-z", "--includes"});
  if (listed.ok() && listed->status == 0) known.paths = parse_named_paths(listed->output, base, *top);
  return known;
}

}  // namespace

std::set<std::string> parse_named_paths(std::string_view listed, const std::string& base, const std::string& top) {
  std::set<std::string> paths;
  for (const std::string& setting : split_at_nul(listed)) {
    std::string_view key = std::string_view(setting).substr(0, setting.find('\n'));
    if (key.size() >= setting.size()) continue;
    std::string_view value = std::string_view(setting).substr(key.size() + 1);
    if (is_about_other_things(key, value)) continue;
    for (std::string_view word : words_of(value)) {
      std::string path = path_in_tree(without_transport(word), top + dir_of_setting(key), base);
      if (!path.empty() && !is_at_or_below(path, "/.git")) paths.insert(std::move(path));
    }
  }
  return paths;
}

bool is_named_by_git(const std::string& base, std::string_view path) {
  static std::mutex mutex;
  static std::map<std::string, Known> known;
  auto names_it = [&](const Known& one) {
    return std::any_of(one.paths.begin(), one.paths.end(),
                       [&](const std::string& named) { return is_at_or_below(path, named); });
  };
  {
    std::lock_guard lock(mutex);
    auto found = known.find(base);
    if (found != known.end() && found->second.state == state_of(found->second.settings)) return names_it(found->second);
  }
  Known asked = ask_git(base);  // without the lock
  bool is_named = names_it(asked);
  std::lock_guard lock(mutex);
  known.insert_or_assign(base, std::move(asked));
  return is_named;
}

}  // namespace warren
