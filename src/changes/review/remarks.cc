#include "changes/review/remarks.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include <sys/sysmacros.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/path.h"
#include "changes/compare.h"
#include "changes/git/git_settings.h"
#include "changes/linked_names.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

struct RunByItself {
  std::string_view name;  // the file's name, or its last components
  std::string_view why;
};

constexpr RunByItself kNames[]{
    {".envrc", "direnv runs it"},
    {".gitattributes", "it selects programs that git runs"},
    {".vscode/tasks.json", "the editor runs its tasks"},
    {".vscode/settings.json", "it names programs that the editor runs"},
    {".vscode/launch.json", "the editor runs what it names"},
    {".devcontainer/devcontainer.json", "the editor runs its commands"},
    {".devcontainer.json", "the editor runs its commands"},
    {".claude/settings.json", "agents run its hooks"},
    {".claude/settings.local.json", "agents run its hooks"},
    {".codex/config.toml", "agents run what it names"},
    {".gemini/settings.json", "agents run what it names"},
    {".cursor/mcp.json", "agents run what it names"},
    {".mcp.json", "agents run what it names"},
    {"Makefile", "make runs it"},
    {"makefile", "make runs it"},
    {"GNUmakefile", "make runs it"},
    {"justfile", "just runs it"},
    {"Justfile", "just runs it"},
    {"Rakefile", "rake runs it"},
    {"Taskfile.yml", "task runs it"},
    {"CMakeLists.txt", "cmake runs it"},
    {"package.json", "npm runs its scripts"},
    {".npmrc", "it names programs that npm runs"},
    {".yarnrc.yml", "it names programs that yarn runs"},
    {".pnpmfile.cjs", "pnpm runs it"},
    {"setup.py", "pip runs it"},
    {"conftest.py", "pytest runs it"},
    {"noxfile.py", "nox runs it"},
    {"sitecustomize.py", "python runs it"},
    {"usercustomize.py", "python runs it"},
    {"build.rs", "cargo runs it"},
    {".cargo/config.toml", "it names programs that cargo runs"},
    {".cargo/config", "it names programs that cargo runs"},
    {"build.gradle", "gradle runs it"},
    {"build.gradle.kts", "gradle runs it"},
    {"gradlew", "it is run to build"},
    {".pre-commit-config.yaml", "pre-commit runs its hooks"},
    {".mise.toml", "mise runs its tasks and hooks"},
    {"mise.toml", "mise runs its tasks and hooks"},
    {".gdbinit", "gdb runs it"},
    {".lldbinit", "lldb runs it"},
    {".exrc", "vi runs it"},
    {".nvim.lua", "nvim runs it"},
    {".dir-locals.el", "emacs runs it"},
    {".bashrc", "your shell runs it"},
    {".bash_profile", "your shell runs it"},
    {".profile", "your shell runs it"},
    {".zshrc", "your shell runs it"},
    {".zshenv", "your shell runs it"},
    {".vimrc", "vim runs it"},
    {".nvimrc", "nvim runs it"},
    {".Rprofile", "R runs it"},
    {".irbrc", "irb runs it"},
    {".ghci", "ghci runs it"},
    {"*.pth", "python runs its lines"},
    {"lefthook.yml", "git runs its hooks"},
    {".lefthook.yml", "git runs its hooks"},
    {".overcommit.yml", "git runs its hooks"},
    {".hg/hgrc", "it names programs that hg runs"},
    {".zed/tasks.json", "the editor runs its tasks"},
    {".zed/settings.json", "it names programs that the editor runs"},
    {".idea/workspace.xml", "the editor runs what it names"},
    {".idea/watcherTasks.xml", "the editor runs its tasks"},
    {".vscode/mcp.json", "agents run what it names"},
    {"*.code-workspace", "the editor runs its tasks"},
    {".cursor/hooks.json", "agents run its hooks"},
    {".qwen/settings.json", "agents run what it names"},
    {".factory/settings.json", "agents run what it names"},
    {".amp/settings.json", "agents run what it names"},
    {"opencode.json", "agents run what it names"},
    {"crush.json", "agents run what it names"},
    {"mvnw", "it is run to build"},
    {"pom.xml", "maven runs its plugins"},
    {".mvn/extensions.xml", "maven loads what it names"},
    {".mvn/jvm.config", "it changes how maven runs"},
    {"settings.gradle", "gradle runs it"},
    {"settings.gradle.kts", "gradle runs it"},
    {"gradle-wrapper.properties", "gradlew runs what it names"},
    {"gradle-wrapper.jar", "gradlew runs it"},
    {"build.sbt", "sbt runs it"},
    {"project/plugins.sbt", "sbt loads what it names"},
    {"meson.build", "meson runs it"},
    {"SConstruct", "scons runs it"},
    {"BUILD.bazel", "bazel runs it"},
    {".bazelrc", "it changes how bazel runs"},
    {"tools/bazel", "bazel runs it"},
    {"configure", "it is run to build"},
    {"Gemfile", "bundler runs it"},
    {"*.gemspec", "bundler runs it"},
    {"mix.exs", "mix runs it"},
    {"Setup.hs", "cabal runs it"},
    {"build.zig", "zig runs it"},
    {"CMakePresets.json", "it changes how cmake runs"},
    {"*.csproj", "dotnet runs its tasks"},
    {"build.xml", "ant runs it"},
    {"flake.nix", "nix runs it"},
    {".yarnrc", "it names programs that yarn runs"},
    {"rust-toolchain.toml", "it names the programs that cargo runs"},
    {"pyproject.toml", "pip runs what it names"},
    {"tox.ini", "tox runs its commands"},
    {"vite.config.js", "vite runs it"},
    {"vite.config.ts", "vite runs it"},
    {".eslintrc.js", "eslint runs it"},
    {"eslint.config.js", "eslint runs it"},
    {".ssh/authorized_keys", "it lets others log in"},
    {".ssh/config", "it names programs that ssh runs"},
    {".ssh/rc", "ssh runs it"},
    {".gitconfig", "it names programs that git runs"},
    {".config/git/config", "it names programs that git runs"},
    {".config/fish/config.fish", "your shell runs it"},
    {".tmux.conf", "tmux runs its commands"},
};

// A folder whose files are run, or loaded as plugins.
constexpr std::array<RunByItself, 7> kFolders{{{".config/autostart", "your desktop runs it"},
                                               {".config/systemd/user", "systemd runs it"},
                                               {".husky", "git runs it as a hook"},
                                               {".claude/hooks", "agents run it as a hook"},
                                               {".github/hooks", "agents run it as a hook"},
                                               {".opencode/plugin", "agents load it"},
                                               {".yarn/releases", "yarn runs it"}}};

// git's hooks, in whatever folder core.hooksPath names.
constexpr std::array<std::string_view, 17> kGitHooks{
    "applypatch-msg",    "pre-applypatch",    "post-applypatch",       "pre-commit",  "pre-merge-commit",
    "commit-msg",        "post-commit",       "prepare-commit-msg",    "pre-rebase",  "post-checkout",
    "post-merge",        "pre-push",          "reference-transaction", "pre-auto-gc", "post-rewrite",
    "post-index-change", "fsmonitor-watchman"};

// Directories that hold such files: another directory or a link in their place brings its own.
constexpr std::array<std::string_view, 9> kDirs{".git",   ".husky", ".vscode", ".devcontainer", ".claude",
                                                ".cargo", ".codex", ".gemini", ".cursor"};

bool has_component(std::string_view path, std::string_view name) {
  for (std::size_t at = path.find(name); at != path.npos; at = path.find(name, at + 1)) {
    std::size_t end = at + name.size();
    bool is_whole = (at == 0 || path[at - 1] == '/') && (end == path.size() || path[end] == '/');
    if (is_whole) return true;
  }
  return false;
}

// "" for a file of git that runs nothing: objects, references, the index.
std::string_view why_in_git(std::string_view path) {
  if (path.ends_with("/.git")) return "it says where git finds hooks and settings";
  if (has_component(path, "hooks")) return "git runs it as a hook";
  std::string_view name = base_name(path);
  if (name == "config" || name == "config.worktree") return "git settings name programs that git runs";
  if (name == "attributes") return "it selects programs that git runs";
  return "";
}

// "*.pth" is a suffix.
bool ends_with_path(std::string_view path, std::string_view name) {
  if (name.starts_with('*')) return path.ends_with(name.substr(1));
  return path.ends_with(name) && path.size() > name.size() && path[path.size() - name.size() - 1] == '/';
}

// Git takes any directory for a repository that has a HEAD, objects and references, all of which may be links, or that
// has a HEAD and a file that names the place of the others. So a HEAD is enough to look out for, and what git obeys
// beside parts of a repository that are there already.
bool is_in_bare_repository(FileSystem& merged, std::string_view path) {
  std::string_view name = base_name(path);
  if (name == "HEAD" || name == "commondir") return true;
  std::string dir(directory_of(path));
  if (base_name(dir) == "hooks") dir = directory_of(dir);
  else if (name != "config" && name != "config.worktree") return false;
  for (const char* part : {"HEAD", "objects", "refs", "commondir"}) {
    if (resolve(merged, join_path(dir, part), Follow::kNo).ok()) return true;
  }
  return false;
}

bool brings_files(std::string_view path) {
  return std::find(kDirs.begin(), kDirs.end(), base_name(path)) != kDirs.end();
}

Result<Json> read_scripts(FileSystem& fs, const std::string& path) {
  std::string text = WARREN_TRY(read_file(fs, path, {.size_bytes_max = limits::kPatchFileBytes}));
  Json json = WARREN_TRY(parse_json(text));
  return json.is_object() && json.contains("scripts") ? json["scripts"] : Json();
}

// If one of both cannot be read, they count as changed.
bool are_scripts_changed(const AgentOverlay& overlay, const TreeChange& change) {
  Result<Json> after = read_scripts(overlay.merged, change.path);
  if (!after.ok()) return true;
  bool has_before = change.before && change.before->is_file() && !change.base_path.empty();
  if (!has_before) return !after->is_null();
  Result<Json> before = read_scripts(overlay.base, change.base_path);
  return !before.ok() || *before != *after;
}

void add_modes(const TreeChange& change, Remarks& remarks) {
  const Attributes& node = *change.after;
  std::uint32_t had = change.before ? change.before->mode : 0;
  std::uint32_t fresh = node.is_file() ? node.mode & 06000U & ~had : 0;
  if ((fresh & 04000U) != 0) remarks.privileges.emplace_back("set-user-id");
  if ((fresh & 02000U) != 0) remarks.privileges.emplace_back("set-group-id");
  bool is_device = S_ISBLK(node.mode) || S_ISCHR(node.mode);
  remarks.is_opened = !node.is_symlink() && !is_device && (node.mode & 0002U & ~had) != 0;
  if (is_device) {
    auto number = static_cast<dev_t>(node.rdev);
    remarks.privileges.push_back(fmt::format("{} device {}:{}", S_ISBLK(node.mode) ? "block" : "character",
                                             gnu_dev_major(number), gnu_dev_minor(number)));
  }
}

Status add_xattrs(const AgentOverlay& overlay, const TreeChange& change, Remarks& remarks) {
  Result<XattrMap> listed = read_xattrs(overlay.upper.fs(), change.after->inode);
  bool is_gone = !listed.ok() && listed.error().code() == Code::kStale;  // the agent has just removed or replaced it
  if (is_gone) return Ok{};
  XattrMap ours = WARREN_TRY(std::move(listed));
  std::erase_if(ours, [](const auto& xattr) { return !is_privileged_xattr(xattr.first); });
  if (ours.empty()) return Ok{};
  XattrMap theirs;
  if (change.before && !change.base_path.empty()) {
    Attributes node = WARREN_TRY(resolve(overlay.base, change.base_path, Follow::kNo));
    theirs = WARREN_TRY(read_xattrs(overlay.base, node.inode));
  }
  for (const auto& [name, value] : ours) {
    auto there = theirs.find(name);
    if (there == theirs.end() || there->second != value) remarks.privileges.push_back(name);
  }
  return Ok{};
}

}  // namespace

std::optional<std::string_view> runs_by_itself(std::string_view path) {
  if (has_component(path, ".git")) {
    std::string_view why = why_in_git(path);
    return why.empty() ? std::optional<std::string_view>() : std::optional(why);
  }
  for (const RunByItself& folder : kFolders) {
    if (has_component(path, folder.name)) return folder.why;
  }
  if (std::find(kGitHooks.begin(), kGitHooks.end(), base_name(path)) != kGitHooks.end()) {
    return std::string_view("git runs it as a hook if its settings name this folder");
  }
  const auto* known = std::find_if(std::begin(kNames), std::end(kNames),
                                   [&](const RunByItself& one) { return ends_with_path(path, one.name); });
  return known == std::end(kNames) ? std::optional<std::string_view>() : std::optional(known->why);
}

bool holds_what_runs(std::string_view path) {
  std::string_view name = base_name(path);
  auto begins_with_it = [&](const RunByItself& one) {
    return one.name.size() > name.size() && one.name.starts_with(name) && one.name[name.size()] == '/';
  };
  return brings_files(path) || std::any_of(std::begin(kNames), std::end(kNames), begins_with_it) ||
         std::any_of(kFolders.begin(), kFolders.end(),
                     [&](const RunByItself& one) { return one.name == name || begins_with_it(one); });
}

std::vector<std::string> Remarks::list() const {
  std::vector<std::string> all = privileges;
  if (takes_back_work) all.emplace_back("reverts your uncommitted work");
  if (is_opened) all.emplace_back("everybody can write it");
  if (!runs.empty()) all.push_back("runs by itself: " + runs);
  return all;
}

Result<Remarks> remarks_of(const AgentOverlay& overlay, const TreeChange& change) {
  Remarks remarks;
  remarks.takes_back_work = change.takes_back_work;
  if (!change.after) return remarks;
  add_modes(change, remarks);
  WARREN_TRY(add_xattrs(overlay, change, remarks));
  remarks.is_in_git = has_component(change.path, ".git");
  std::uint32_t had = change.before ? change.before->mode : 0;
  bool is_new_program = change.after->is_file() && (change.after->mode & 0111U & ~had) != 0;
  bool is_new = change.kind != TreeChangeKind::kModified || change.is_content_changed || is_new_program;
  bool is_plain_dir = change.after->is_directory() && change.kind != TreeChangeKind::kRenamed;
  if (is_plain_dir || !is_new) return remarks;
  std::optional<std::string_view> why = runs_by_itself(change.path);
  if (!why && !change.after->is_file() && brings_files(change.path)) why = "programs run what is in it";
  if (!why && !remarks.is_in_git && is_in_bare_repository(overlay.merged, change.path))
    why = "git takes the directory for a repository";
  if (!why && is_named_by_git(overlay.base_path, change.path)) why = "the settings of git name it";
  bool is_package = change.path.ends_with("/package.json") && change.after->is_file();
  if (why && (!is_package || are_scripts_changed(overlay, change))) remarks.runs = *why;
  if (!why && !remarks.is_in_git) remarks.runs = runs_through_link(overlay.base_path, change.path).value_or("");
  return remarks;
}

std::vector<std::string> leave_out_devices(std::vector<TreeChange>& changes, const PrivilegedPaths& privileged) {
  std::unordered_set<std::string> out;
  std::vector<std::string> notes;
  for (const TreeChange& change : changes) {
    bool is_device = change.after && (S_ISBLK(change.after->mode) || S_ISCHR(change.after->mode));
    if (!is_device || privileged.contains(change.path)) continue;
    out.insert(change.path);
    notes.push_back(fmt::format("{}: left out, because it is a {} device (--privileged PATH writes it)",
                                quote(change.path), S_ISBLK(change.after->mode) ? "block" : "character"));
  }
  std::erase_if(changes, [&](const TreeChange& change) { return out.contains(change.path); });
  return notes;
}

}  // namespace warren
