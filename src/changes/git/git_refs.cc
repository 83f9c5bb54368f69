#include "changes/git/git_refs.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/limits.h"
#include "base/path.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

constexpr std::string_view kReferences = "refs/";
constexpr std::string_view kHeads = "refs/heads/";

bool is_ref_component(std::string_view name) {
  if (name.empty() || name.front() == '.' || name.back() == '.' || name.ends_with(".lock")) return false;
  if (name.find("..") != name.npos || name.find("@{") != name.npos) return false;
  return std::none_of(name.begin(), name.end(), [](char c) {
    auto byte = static_cast<unsigned char>(c);
    return byte <= 0x20 || byte == 0x7f || std::string_view("~^:?*[\\").find(c) != std::string_view::npos;
  });
}

// The first line of a small regular file; nullopt if it is anything else.
Result<std::optional<std::string>> find_line(FileSystem& fs, const std::string& path) {
  Result<Attributes> node = lstat(fs, path);
  bool is_missing =
      !node.ok() && (node.error().code() == Code::kNotFound || node.error().code() == Code::kNotDirectory);
  if (is_missing || (node.ok() && (!node->is_file() || node->size > limits::kGitRefBytes)))
    return std::optional<std::string>();
  if (!node.ok()) return std::move(node).error();
  std::string text = WARREN_TRY(read_file(fs, path, {.size_bytes_max = limits::kGitRefBytes}));
  return std::optional(std::string(trimmed(text.substr(0, text.find('\n')), kWhitespace)));
}

// The object that packed-refs has for one reference; "" if it has none.
Result<std::string> find_packed(FileSystem& common, const std::string& name) {
  Result<Attributes> node = lstat(common, "/packed-refs");
  if (!node.ok() || !node->is_file()) return std::string();
  std::string text = WARREN_TRY(read_file(common, "/packed-refs", {.size_bytes_max = limits::kGitPackedRefsBytes}));
  std::size_t end = text.find(fmt::format(" {}\n", name));
  if (end == text.npos) return std::string();
  std::size_t begin = end == 0 ? end : text.rfind('\n', end - 1) + 1;  // npos + 1 is 0
  std::string id = text.substr(begin, end - begin);
  return is_object_id(id) ? id : "";
}

// Reads refs/heads with everything below it.
class LooseBranches {
 public:
  LooseBranches(FileSystem& fs, std::string dir, GitBranches& found) : fs_(fs), dir_(std::move(dir)), found_(found) {}

  Status read() {
    pending_.emplace_back();
    while (!pending_.empty()) {
      std::string prefix = std::move(pending_.back());
      pending_.pop_back();
      WARREN_TRY(read_below(prefix));
    }
    return Ok{};
  }

 private:
  Status read_below(const std::string& prefix) {
    std::string dir = dir_ + "/" + std::string(kHeads) + prefix;
    dir.pop_back();
    Result<Attributes> node = lstat(fs_, dir);
    if (!node.ok() || !node->is_directory()) return Ok{};
    std::vector<NamedAttributes> entries = WARREN_TRY(read_dir_plus(fs_, dir));
    for (const NamedAttributes& entry : entries) {
      std::string name = prefix + entry.name;
      if (!is_branch_name(name)) continue;
      if (++seen_ > limits::kGitRefs)
        return Error(Code::kTooLarge,
                     fmt::format("the agent's repository has more than {} branches", limits::kGitRefs));
      if (entry.attributes.is_directory()) {
        pending_.push_back(name + "/");
        continue;
      }
      std::optional<std::string> line = WARREN_TRY(find_line(fs_, join_path(dir, entry.name)));
      if (line && is_object_id(*line)) found_.insert_or_assign(name, *std::move(line));
    }
    return Ok{};
  }

  FileSystem& fs_;
  std::string dir_;
  GitBranches& found_;
  std::vector<std::string> pending_;  // "", "fix/"
  std::size_t seen_ = 0;
};

}  // namespace

Status check_is_not_full_name(std::string_view branch) {
  if (!branch.starts_with("refs/")) return Ok{};
  return Error(Code::kInvalid, fmt::format("{} is the full name of a reference, not of a branch", quote(branch)),
               "give the name without 'refs/heads/'");
}

bool is_branch_name(std::string_view name) {
  if (name.empty() || name.size() > limits::kPathBytes / 2 || name.front() == '-' || name == "@" || name == "HEAD")
    return false;
  for (std::size_t at = 0; at <= name.size();) {
    std::size_t end = std::min(name.find('/', at), name.size());
    if (!is_ref_component(name.substr(at, end - at))) return false;
    at = end + 1;
  }
  return true;
}

std::optional<std::string_view> find_symbolic_target(std::string_view content) {
  constexpr std::string_view kSymbolic = "ref:";
  content = trimmed(content, kWhitespace);
  if (!content.starts_with(kSymbolic)) return std::nullopt;
  return trimmed(content.substr(kSymbolic.size()), kWhitespace);
}

std::string_view branch_in(std::string_view reference) {
  if (!reference.starts_with(kHeads)) return {};
  std::string_view branch = reference.substr(kHeads.size());
  return is_branch_name(branch) ? branch : std::string_view();
}

bool is_object_id(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) && std::all_of(text.begin(), text.end(), is_lower_hex_digit);
}

GitReferences parse_packed_references(std::string_view text) {
  GitReferences found;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    std::size_t space = line.find(' ');
    if (space == line.npos || !is_object_id(line.substr(0, space))) continue;
    std::string_view name = line.substr(space + 1);
    if (!name.starts_with(kReferences) || !is_branch_name(name)) continue;
    found.insert_or_assign(std::string(name), std::string(line.substr(0, space)));
    if (found.size() >= limits::kGitRefs) break;
  }
  return found;
}

GitBranches parse_packed_branches(std::string_view text) {
  GitBranches found;
  for (auto& [name, id] : parse_packed_references(text)) {
    std::string_view branch = branch_in(name);
    if (!branch.empty()) found.emplace(branch, id);
  }
  return found;
}

Result<std::optional<GitHeads>> find_git_heads(FileSystem& fs, const std::string& dir) {
  std::optional<GitHeads> none;
  Result<Attributes> node = lstat(fs, dir);
  if (!node.ok() || !node->is_directory()) return none;
  std::optional<std::string> head = WARREN_TRY(find_line(fs, dir + "/HEAD"));
  if (!head) return none;
  GitHeads heads;
  Result<Attributes> packed = lstat(fs, dir + "/packed-refs");
  if (packed.ok() && packed->is_file()) {
    std::string text = WARREN_TRY(read_file(fs, dir + "/packed-refs", {.size_bytes_max = limits::kGitPackedRefsBytes}));
    heads.branches = parse_packed_branches(text);
  }
  WARREN_TRY(LooseBranches(fs, dir, heads.branches).read());
  if (is_object_id(*head)) {
    heads.commit = *std::move(head);
    return std::optional(std::move(heads));
  }
  // A branch may be a name for another one, too.
  for (int links = 0; head; ++links) {
    std::optional<std::string_view> name = find_symbolic_target(*head);
    if (!name) break;
    std::string_view branch = branch_in(*name);
    if (links == kSymbolicLinksMax || branch.empty()) return none;
    heads.branch = branch;
    head = WARREN_TRY(find_line(fs, fmt::format("{}/{}{}", dir, kHeads, heads.branch)));
  }
  if (heads.branch.empty()) return none;
  // A file with other content is damaged, and a packed reference of that name does not count.
  bool is_damaged = head && !is_object_id(*head);
  auto found = heads.branches.find(heads.branch);
  if (found != heads.branches.end() && !is_damaged) heads.commit = found->second;
  return std::optional(std::move(heads));
}

Result<std::string> find_head_commit(FileSystem& git_dir, FileSystem& common) {
  std::optional<std::string> line = WARREN_TRY(find_line(git_dir, "/HEAD"));
  for (int links = 0; line && links < kSymbolicLinksMax; ++links) {
    std::optional<std::string_view> target = find_symbolic_target(*line);
    if (!target) break;
    std::string name(*target);
    if (branch_in(name).empty()) return std::string();
    line = WARREN_TRY(find_line(common, "/" + name));
    if (!line) return find_packed(common, name);
  }
  return line && is_object_id(*line) ? *line : "";
}

}  // namespace warren
