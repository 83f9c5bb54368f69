// Runs git in a repository of the user's, without anything that it would run by itself except content filters.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "changes/git/scratch_dir.h"
#include "os/processes/capture.h"

namespace warren {

// Hooks, the file system monitor and automatic maintenance are switched off; variables that would lead git to another
// repository (GIT_DIR and others) do not reach it. Never point it to a repository whose settings a stranger wrote.
class Git {
 public:
  explicit Git(std::string dir) : dir_(std::move(dir)) {}

  // From now on, commands use this work tree and index instead of the repository's own.
  void use(std::string git_dir, std::string work_tree, std::string index);
  void set_author(std::string name, std::string email);
  void set_variable(std::string_view name, std::string_view value);
  void add_setting(std::string setting) { settings_.push_back(std::move(setting)); }  // "fetch.fsckObjects=true"
  void set_limit(std::chrono::milliseconds limit) { limit_ = limit; }                 // of each command

  // kNotFound if git is not installed.
  Result<Captured> run(const std::vector<std::string>& words, int input = -1);
  // What git printed, without the newline that it adds: the answer may be a path. kInvalid with git's own message.
  Result<std::string> ask(const std::vector<std::string>& words, int input = -1);
  Result<std::string> ask_with(const std::vector<std::string>& words, std::string_view input);
  Result<bool> succeeds(const std::vector<std::string>& words);

 private:
  std::vector<std::string> environment() const;  // of git: ours, and the variables that were set

  std::string dir_;
  std::string git_dir_;  // "" to let git find it
  std::vector<std::string> variables_;
  std::vector<std::string> settings_;
  std::optional<std::chrono::milliseconds> limit_;
};

// The content of objects/info/alternates that borrows from one directory of objects.
std::string alternates_text(const std::string& objects);

// The parts of git's output with -z.
std::vector<std::string> split_at_nul(std::string_view text);

}  // namespace warren
