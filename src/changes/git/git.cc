#include "changes/git/git.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/bytes.h"
#include "os/error.h"
#include "text/diff/git_patch.h"

namespace warren {
namespace {

// Set in a git hook or an alias, for example. They would lead git away from the directory that it is started in.
constexpr std::string_view kMisleading[] = {
    "GIT_DIR",        "GIT_WORK_TREE",        "GIT_INDEX_FILE",
    "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",  "GIT_PREFIX",           "GIT_SHALLOW_FILE"};

constexpr const char* kSettings[] = {"core.hooksPath=/dev/null",
                                     "core.fsmonitor=false",
                                     "core.safecrlf=false",
                                     "core.fileMode=true",
                                     "core.symlinks=true",
                                     "core.splitIndex=false",
                                     "gc.auto=0",
                                     "maintenance.auto=false",
                                     "core.untrackedCache=false",
                                     "log.showSignature=false",
                                     "safe.bareRepository=all"};  // our quarantine is one

constexpr std::size_t kSubjectBytes = 200;

// Paths, and lists of them. Where they are relative, the files of an agent could have these names in a work tree of
// ours. In a list, an empty entry is the current directory, too.
constexpr std::string_view kPaths[] = {"HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM",
                                       "GIT_EXEC_PATH"};
struct PathList {
  std::string_view name;
  std::string_view separators;
  bool may_be_names = false;  // an entry without '/' is not a path: the loader looks for it in its own directories
};
constexpr PathList kPathLists[] = {{"PATH", ":"},           {"LD_LIBRARY_PATH", ":;"}, {"LD_PRELOAD", ": ", true},
                                   {"LD_AUDIT", ":", true}, {"GCONV_PATH", ":"},       {"LOCPATH", ":"}};

constexpr const char* kFilters = R"(^filter\..*\.(clean|smudge|process)$)";
// Before the command of a filter, which a shell runs. Git passes on which repository and work tree it was given;
// without that, git finds the user's in the directory.
constexpr std::string_view kAtHome =
    "unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE; cd \"$WARREN_FILTER_DIR\" || exit 1\n";

template <class List, class One>
bool is_one_of(const List& list, const One& one) {
  return std::find(std::begin(list), std::end(list), one) != std::end(list);
}

// As seen from `dir`.
std::string make_absolute(const std::string& path, const std::string& dir) {
  return path.starts_with('/') ? path : fmt::format("{}/{}", dir, path);
}

// "" if nothing is left.
std::string make_list_absolute(std::string_view value, const PathList& list, const std::string& dir) {
  bool may_be_in_list = dir.find_first_of(list.separators) == dir.npos;
  std::string absolute;
  for (std::size_t at = 0; at <= value.size();) {
    std::size_t end = std::min(value.find_first_of(list.separators, at), value.size());
    std::string entry(value.substr(at, end - at));
    at = end + 1;
    bool is_kept = entry.starts_with('/') || (list.may_be_names && entry.find('/') == entry.npos);
    if (!is_kept && !may_be_in_list) continue;
    if (!absolute.empty()) absolute += ':';
    absolute += is_kept ? entry : make_absolute(entry, dir);
  }
  return absolute;
}

bool is_misleading(std::string_view name) { return is_one_of(kMisleading, name); }

Result<Fd> scratch_file_with(std::string_view content) {
  Fd file = WARREN_TRY(open_scratch_file());
  WARREN_TRY(write_all(file.get(), as_bytes(content)));
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return system_error(errno, "read a temporary file");
  return file;
}

constexpr const char* kWithoutCommits =
    "if that is because of a session's commits, `warren apply --no-commits` applies its changes as files";

// Less if this process has been given less.
std::uint64_t memory_in_force() {
  struct rlimit limit {};
  bool is_known = ::getrlimit(RLIMIT_DATA, &limit) == 0;
  return is_known ? std::min<std::uint64_t>(limit.rlim_cur, limits::kGitMemory) : limits::kGitMemory;
}

// Otherwise it would look as if git had not found something. A shell in between returns a signal as a status.
Status check_end(const std::string& command, const Captured& done) {
  constexpr int kSignals[] = {128 + SIGABRT, 128 + SIGBUS, 128 + SIGKILL, 128 + SIGSEGV};
  constexpr std::string_view kMemory[] = {"ut of memory", "annot allocate memory", "memory exhausted"};
  if (done.status == 0) return Ok{};
  bool is_short_of_memory = std::any_of(std::begin(kMemory), std::end(kMemory),
                                        [&](std::string_view word) { return done.errors.find(word) != word.npos; });
  if (is_short_of_memory) {
    return Error(
        Code::kTooLarge,
        fmt::format("git {}: the repository needs more than {} MiB of memory", command, memory_in_force() >> 20),
        kWithoutCommits);
  }
  if (done.signal == 0 && !is_one_of(kSignals, done.status)) return Ok{};
  return Error(Code::kIo, fmt::format("git {} was ended by signal {}", command, done.status - 128));
}

Error failed(const std::string& command, const Captured& done) {
  return Error(Code::kInvalid, fmt::format("git {}: {}", command, trimmed(done.errors, kWhitespace)));
}

std::unordered_set<std::string> names_in(std::string_view listed) {
  std::vector<std::string> names = split_at_nul(listed);
  return {names.begin(), names.end()};
}

}  // namespace

Git::Git(std::string dir) : dir_(std::move(dir)) { set_variable("GIT_NO_LAZY_FETCH", "1"); }

Status Git::use(std::string git_dir, std::string work_tree, std::string index) {
  git_dir_ = std::move(git_dir);
  WARREN_TRY(keep_filters_in_dir());
  work_tree_ = std::move(work_tree);
  set_variable("GIT_INDEX_FILE", std::move(index));
  return Ok{};
}

// Git runs content filters at the top of the work tree, where shells and interpreters look for programs and modules. In
// a work tree of ours these would be the agent's.
Status Git::keep_filters_in_dir() {
  constexpr int kNone = 1;
  Captured listed = WARREN_TRY(run({"config", "-z", "--get-regexp", kFilters}));
  if (listed.status != 0 && listed.status != kNone) return failed("config", listed);
  std::map<std::string, std::string> commands;  // the last one counts
  for (const std::string& setting : split_at_nul(listed.output)) {
    std::size_t end = std::min(setting.find('\n'), setting.size());
    commands.insert_or_assign(setting.substr(0, end), setting.substr(std::min(end + 1, setting.size())));
  }
  for (const auto& [key, command] : commands) {
    if (command.empty()) continue;  // switched off
    std::string variable = fmt::format("WARREN_FILTER_{}", options_.size());
    set_variable(variable, std::string(kAtHome) + command);
    options_.push_back(fmt::format("--config-env={}={}", key, variable));
  }
  set_variable("WARREN_FILTER_DIR", dir_);
  return Ok{};
}

void Git::set_author(std::string name, std::string email) {
  set_variable("GIT_AUTHOR_NAME", std::move(name));
  set_variable("GIT_AUTHOR_EMAIL", std::move(email));
}

void Git::set_variable(std::string name, std::string value) {
  variables_.insert_or_assign(std::move(name), std::move(value));
}

// The variable is a list with ':' between directories, unless they are quoted.
void Git::borrow_objects(const std::string& dir) {
  std::string quoted = git_quote("", dir);
  set_variable("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted.starts_with('"') ? quoted : fmt::format("\"{}\"", quoted));
}

void Git::allow_lazy_fetch() { variables_.erase("GIT_NO_LAZY_FETCH"); }

std::vector<std::string> Git::list_environment() const {
  std::vector<std::string> environment;
  for (char** one = environ; *one != nullptr; ++one) {
    std::string_view variable = *one;
    std::string name(variable.substr(0, variable.find('=')));
    if (is_misleading(name) || variables_.contains(name)) continue;
    std::string value(variable.substr(std::min(name.size() + 1, variable.size())));
    if (is_one_of(kPaths, name)) value = value.empty() ? value : make_absolute(value, dir_);
    const auto* list = std::find_if(std::begin(kPathLists), std::end(kPathLists),
                                    [&](const PathList& each) { return each.name == name; });
    if (list != std::end(kPathLists) && !value.empty()) value = make_list_absolute(value, *list, dir_);
    if (name == "PATH" && value.empty()) value = "/usr/bin:/bin";
    environment.push_back(fmt::format("{}={}", name, value));
  }
  for (const auto& [name, value] : variables_) environment.push_back(fmt::format("{}={}", name, value));
  return environment;
}

Result<std::chrono::milliseconds> Git::find_time_left() const {
  if (deadline_ == Deadline::max()) return limit_;
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
  if (left.count() <= 0) return Error(Code::kTimeout, "the commands before it took too long");
  return std::min(left, limit_);
}

Result<Captured> Git::run(const std::vector<std::string>& words, int input) {
  std::chrono::milliseconds limit = WARREN_TRY(find_time_left().within("git " + words[0]));
  std::vector<std::string> environment = list_environment();
  std::vector<std::string> all{"git"};
  if (!work_tree_.empty()) all.insert(all.end(), {"-C", work_tree_, "--work-tree=" + work_tree_});
  if (!git_dir_.empty()) all.push_back("--git-dir=" + git_dir_);
  for (const char* setting : kSettings) all.insert(all.end(), {"-c", setting});
  for (const std::string& setting : settings_) all.insert(all.end(), {"-c", setting});
  all.insert(all.end(), options_.begin(), options_.end());
  all.insert(all.end(), words.begin(), words.end());
  Result<Captured> done =
      run_captured(all, dir_, input, limit, &environment, limits::kGitMemory).within("git " + words[0]);
  if (!done.ok() && done.error().code() == Code::kNotFound)
    return Error(Code::kNotFound, "git is not installed", "--as-patch writes a patch without git");
  if (!done.ok()) {
    bool is_too_much = done.error().code() == Code::kTimeout || done.error().code() == Code::kTooLarge;
    return is_too_much ? std::move(done).take_error().with_hint(kWithoutCommits) : std::move(done).take_error();
  }
  std::erase(done->errors, '\0');  // which ends what a repository that is fetched from says
  WARREN_TRY(check_end(words[0], *done));
  return done;
}

Result<std::string> Git::ask(const std::vector<std::string>& words, int input) {
  Captured done = WARREN_TRY(run(words, input));
  if (done.status != 0) return failed(words[0], done);
  if (done.output.ends_with('\n')) done.output.pop_back();
  return std::move(done.output);
}

Result<std::string> Git::ask_with(const std::vector<std::string>& words, std::string_view input) {
  Fd file = WARREN_TRY(scratch_file_with(input));
  return ask(words, file.get());
}

Result<bool> Git::succeeds(const std::vector<std::string>& words) {
  Captured done = WARREN_TRY(run(words));
  return done.status == 0;
}

std::string cut_subject(std::string subject) {
  if (subject.size() <= kSubjectBytes) return subject;
  std::size_t end = kSubjectBytes;
  while (end > 0 && (static_cast<unsigned char>(subject[end]) & 0xC0U) == 0x80) --end;  // between two characters
  return subject.substr(0, end) + "…";
}

std::string alternates_text(const std::string& objects) { return git_quote("", objects) + "\n"; }

std::vector<std::string> split_at_nul(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    std::size_t end = text.find('\0');
    parts.emplace_back(text.substr(0, end));
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
  }
  return parts;
}

Result<std::unordered_set<std::string>> list_differing(Git& git, const std::string& from, const std::string& to) {
  std::string listed = WARREN_TRY(git.ask({"diff-tree", "-r", "-z", "--name-only", "--no-renames", from, to}));
  return names_in(listed);
}

Result<std::vector<std::string>> list_changed_by(Git& git, const std::string& commits) {
  if (commits.empty()) return std::vector<std::string>();
  std::string names = WARREN_TRY(git.ask_with(
      {"diff-tree", "--stdin", "--root", "-r", "-c", "-z", "--name-only", "--no-commit-id", "--no-renames"},
      commits + "\n"));
  return split_at_nul(names);
}

Result<std::unordered_set<std::string>> list_unlike(Git& git, const std::string& commit) {
  WARREN_TRY(git.ask({"read-tree", commit}));
  WARREN_TRY(git.run({"update-index", "-q", "--refresh"}));  // fails if something differs
  std::string listed = WARREN_TRY(git.ask({"diff-files", "-z", "--name-only", "--no-renames", "--diff-filter=MT",
                                           "--ignore-submodules=dirty"}));  // git is not started in them
  return names_in(listed);
}

// As "./src/a": git would take ":-)" for a pattern.
Result<std::unordered_set<std::string>> list_ignored(Git& git, const std::vector<std::string>& names) {
  constexpr int kNone = 1;
  constexpr std::size_t kPrefix = 2;
  std::unordered_set<std::string> ignored;
  if (names.empty()) return ignored;
  std::string asked;
  for (const std::string& name : names) asked += "./" + name + '\0';
  Fd input = WARREN_TRY(scratch_file_with(asked));
  Captured done = WARREN_TRY(git.run({"check-ignore", "-z", "--stdin"}, input.get()));
  if (done.status != 0 && done.status != kNone) return failed("check-ignore", done);
  for (const std::string& name : split_at_nul(done.output)) ignored.insert(name.substr(kPrefix));
  return ignored;
}

Result<std::string> find_head_of(Git& git) {
  Captured head = WARREN_TRY(git.run({"rev-parse", "--verify", "--quiet", "HEAD^{commit}"}));
  return std::string(head.status == 0 ? trimmed(head.output, kWhitespace) : std::string_view());
}

Result<bool> has_head(Git& git) {
  std::string head = WARREN_TRY(find_head_of(git));
  return !head.empty();
}

Result<bool> has_commit(Git& git, const std::string& commit) {
  return git.succeeds({"cat-file", "-e", commit + "^{commit}"});
}

Result<bool> is_in_head_otherwise(Git git, const std::string& commit) {
  if (!WARREN_TRY(has_commit(git, commit))) return false;
  Captured common = WARREN_TRY(git.run({"merge-base", "HEAD", commit}));
  if (common.status != 0) return false;
  std::string from(trimmed(common.output, kWhitespace));
  if (from == commit) return false;
  git.allow_lazy_fetch();  // a partial clone may lack old trees
  std::unordered_set<std::string> changed = WARREN_TRY(list_differing(git, from, commit));
  std::unordered_set<std::string> other = WARREN_TRY(list_differing(git, "HEAD", commit));
  auto is_other = [&](const std::string& name) { return other.contains(name); };
  if (changed.empty() || std::any_of(changed.begin(), changed.end(), is_other)) return false;
  std::string commits = WARREN_TRY(git.ask({"rev-list", commit, "^HEAD"}));
  std::vector<std::string> touched = WARREN_TRY(list_changed_by(git, commits));
  return std::none_of(touched.begin(), touched.end(), is_other);
}

Result<std::string> find_empty_tree(Git& git) { return git.ask_with({"hash-object", "-t", "tree", "--stdin"}, ""); }

}  // namespace warren
