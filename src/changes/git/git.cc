#include "changes/git/git.h"

#include <cstdlib>
#include <filesystem>

#include <unistd.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/bytes.h"
#include "os/error.h"
#include "text/diff/git_patch.h"

namespace warren {
namespace {

// Set in a git hook or an alias, for example. They would lead git away from the directory that it is started in.
constexpr const char* kMisleading[] = {"GIT_DIR",        "GIT_WORK_TREE",        "GIT_INDEX_FILE",
                                       "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
                                       "GIT_NAMESPACE",  "GIT_PREFIX",           "GIT_SHALLOW_FILE"};

constexpr const char* kSettings[] = {
    "core.hooksPath=/dev/null", "core.fsmonitor=false",  "core.safecrlf=false", "core.fileMode=true",
    "core.symlinks=true",       "core.splitIndex=false", "gc.auto=0",           "maintenance.auto=false",
    "core.untrackedCache=false"};

}  // namespace

void Git::use(std::string git_dir, std::string work_tree, std::string index) {
  dir_ = std::move(work_tree);
  git_dir_ = std::move(git_dir);
  set_variable("GIT_INDEX_FILE", index);
}

void Git::set_author(std::string name, std::string email) {
  set_variable("GIT_AUTHOR_NAME", name);
  set_variable("GIT_AUTHOR_EMAIL", email);
}

void Git::set_variable(std::string_view name, std::string_view value) {
  variables_.push_back(fmt::format("{}={}", name, value));
}

Result<Captured> Git::run(const std::vector<std::string>& words, int input) {
  std::vector<std::string> all;
  for (const char* name : kMisleading) {
    if (std::getenv(name) != nullptr) all.insert(all.end(), {"-u", name});
  }
  all.insert(all.end(), variables_.begin(), variables_.end());
  if (!all.empty()) all.insert(all.begin(), "env");
  all.emplace_back("git");
  if (!git_dir_.empty()) all.insert(all.end(), {"--git-dir=" + git_dir_, "--work-tree=" + dir_});
  for (const char* setting : kSettings) all.insert(all.end(), {"-c", setting});
  for (const std::string& setting : settings_) all.insert(all.end(), {"-c", setting});
  all.insert(all.end(), words.begin(), words.end());
  Result<Captured> done = run_captured(all, dir_, input, limit_);
  bool is_missing = done.ok() ? all.front() == "env" && done->status == 127 : done.error().code() == Code::kNotFound;
  if (is_missing) return Error(Code::kNotFound, "git is not installed", "--as-patch writes a patch without git");
  if (done.ok()) std::erase(done->errors, '\0');  // which ends what a repository that is fetched from says
  return done;
}

Result<std::string> Git::ask(const std::vector<std::string>& words, int input) {
  Captured done = WARREN_TRY(run(words, input));
  if (done.status != 0)
    return Error(Code::kInvalid, fmt::format("git {}: {}", words[0], trimmed(done.errors, kWhitespace)));
  if (done.output.ends_with('\n')) done.output.pop_back();
  return std::move(done.output);
}

Result<std::string> Git::ask_with(const std::vector<std::string>& words, std::string_view input) {
  Fd file = WARREN_TRY(open_scratch_file());
  WARREN_TRY(write_all(file.get(), as_bytes(input)));
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return system_error(errno, "read a temporary file");
  return ask(words, file.get());
}

Result<bool> Git::succeeds(const std::vector<std::string>& words) {
  Captured done = WARREN_TRY(run(words));
  return done.status == 0;
}

Result<ScratchDir> ScratchDir::make(std::string_view name) {
  const char* dir = std::getenv("TMPDIR");
  std::string path = fmt::format("{}/warren-{}-XXXXXX", dir != nullptr && dir[0] == '/' ? dir : "/tmp", name);
  if (::mkdtemp(path.data()) == nullptr) return system_error(errno, "create a temporary directory");
  return ScratchDir(std::move(path));
}

ScratchDir::~ScratchDir() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
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

}  // namespace warren
