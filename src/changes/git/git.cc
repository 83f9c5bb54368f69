#include "changes/git/git.h"

#include <algorithm>

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
  std::string start = fmt::format("{}=", name);
  std::erase_if(variables_, [&](const std::string& variable) { return variable.starts_with(start); });
  variables_.push_back(start + std::string(value));
}

std::vector<std::string> Git::environment() const {
  std::vector<std::string> all = variables_;
  for (char** each = environ; *each != nullptr; ++each) {
    std::string_view name = std::string_view(*each).substr(0, std::string_view(*each).find('='));
    bool is_left_out = std::find(std::begin(kMisleading), std::end(kMisleading), name) != std::end(kMisleading) ||
                       std::any_of(variables_.begin(), variables_.end(), [&](std::string_view variable) {
                         return variable.substr(0, variable.find('=')) == name;
                       });
    if (!is_left_out) all.emplace_back(*each);
  }
  return all;
}

Result<Captured> Git::run(const std::vector<std::string>& words, int input) {
  std::vector<std::string> all{"git"};
  if (!git_dir_.empty()) all.insert(all.end(), {"--git-dir=" + git_dir_, "--work-tree=" + dir_});
  for (const char* setting : kSettings) all.insert(all.end(), {"-c", setting});
  for (const std::string& setting : settings_) all.insert(all.end(), {"-c", setting});
  all.insert(all.end(), words.begin(), words.end());
  std::vector<std::string> variables = environment();
  Result<Captured> done = run_captured(all, dir_, input, limit_, &variables).within("git " + words[0]);
  if (!done.ok() && done.error().code() == Code::kNotFound)
    return Error(Code::kNotFound, "git is not installed", "--as-patch writes a patch without git");
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
