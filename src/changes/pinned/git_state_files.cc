#include "changes/pinned/git_state_files.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/below.h"
#include "base/path.h"
#include "fs/list_dir.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

constexpr std::string_view kLogsOfBranches = "logs/refs/heads";
constexpr int kStateTreeDepth = 64;

bool has_state_logs(std::string_view dir) {
  return dir == kGitLogsDir || dir == kGitLogsOfReferences || is_at_or_below(dir, kLogsOfBranches);
}

}  // namespace

bool is_git_index(std::string_view name) { return name == "index" || name.starts_with("sharedindex."); }

bool is_under_way_dir(std::string_view name) {
  return name == "rebase-merge" || name == "rebase-apply" || name == "sequencer";
}

Result<std::optional<Attributes>> GitStateFiles::find(std::string_view path) {
  Result<Attributes> found = lstat(fs_, join_path(dir_, path));
  if (found.ok()) return std::optional(*found);
  Code code = found.error().code();
  if (code == Code::kNotFound || code == Code::kNotDirectory) return std::optional<Attributes>();
  return std::move(found).take_error();
}

Result<std::string> GitStateFiles::read(std::string_view path, std::uint64_t bytes_max) {
  return read_file(fs_, join_path(dir_, path), {.size_bytes_max = bytes_max});
}

Status GitStateFiles::add_file(const std::string& path, const Attributes& node) {
  std::uint64_t bytes_max = is_git_index(path) ? limits::kGitIndexBytes : limits::kGitStateFileBytes;
  bool is_left_out = node.size > bytes_max && path.find('/') == path.npos && !is_git_index(path) && path != "config";
  if (is_left_out) return Ok{};  // not of git: it has no file of that size but the index
  std::string content = WARREN_TRY(read(path, std::min(bytes_max, bytes_left_)));
  bytes_left_ -= content.size();
  nodes_.push_back({path, node, false, std::move(content)});
  return Ok{};
}

Status GitStateFiles::add_tree(const std::string& dir, const Attributes& as) { return add_tree(dir, as, 0); }

Status GitStateFiles::add_tree(const std::string& dir, const Attributes& as, int depth) {
  if (depth > kStateTreeDepth)
    return Error(Code::kLimit, fmt::format("{} has directories more than {} deep", quote(dir), kStateTreeDepth));
  nodes_.push_back({dir, as, false, {}});
  std::vector<std::string> names = WARREN_TRY(list_names(fs_, as.inode));
  for (const std::string& name : names) {
    std::string path = join_path(dir, name);
    std::optional<Attributes> node = WARREN_TRY(find(path));
    if (nodes_.size() > limits::kGitStateFiles)
      return Error(Code::kLimit, fmt::format("{} has more than {} files", quote(dir), limits::kGitStateFiles));
    if (node && node->is_directory()) WARREN_TRY(add_tree(path, *node, depth + 1));
    if (node && node->is_file()) WARREN_TRY(add_file(path, *node));
  }
  return Ok{};
}

Status GitStateFiles::add_logs(const std::string& dir, const Attributes& as) { return add_logs(dir, as, 0); }

Status GitStateFiles::add_logs(const std::string& dir, const Attributes& as, int depth) {
  std::vector<std::string> names = WARREN_TRY(list_names(fs_, as.inode));
  bool are_shown =
      !has_state_logs(dir) || depth > kStateTreeDepth || nodes_.size() + names.size() > limits::kGitStateFiles;
  nodes_.push_back({dir, as, are_shown, {}});
  if (are_shown) return Ok{};
  for (const std::string& name : names) {
    std::string path = join_path(dir, name);
    std::optional<Attributes> node = WARREN_TRY(find(path));
    if (node && node->is_directory()) WARREN_TRY(add_logs(path, *node, depth + 1));
    bool is_log = node && node->is_file() && node->size <= limits::kGitStateFileBytes && node->size <= log_bytes_left_;
    if (!is_log) continue;
    log_bytes_left_ -= node->size;
    WARREN_TRY(add_file(path, *node));
  }
  return Ok{};
}

}  // namespace warren
