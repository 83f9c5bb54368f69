// Branches of a repository inside a tree, read as text: git never runs in a repository that a stranger wrote.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fs/file_system.h"

namespace warren {

namespace limits {
inline constexpr std::uint64_t kGitRefBytes = 4096;  // of one file
inline constexpr std::uint64_t kGitPackedRefsBytes = std::uint64_t{64} << 20;
inline constexpr std::size_t kGitRefs = 100'000;
}  // namespace limits

inline constexpr int kSymbolicLinksMax = 5;  // that lead from one reference to the next, as in git

using GitBranches = std::map<std::string, std::string>;    // "fix/parser" → the commit's id
using GitReferences = std::map<std::string, std::string>;  // "refs/tags/v1" → the object's id

struct GitHeads {
  std::string branch;    // of HEAD, not one that is a name for another: "main"; "" if HEAD names a commit
  std::string commit;    // of HEAD; "" before the first commit
  GitBranches branches;  // all of refs/heads
};

// Whether git would accept the name after refs/heads/: no "..", no component that starts with a dot or ends with
// ".lock", no control characters, none of " ~^:?*[\\".
bool is_branch_name(std::string_view name);
// kInvalid for the full name of a reference, "refs/heads/x", where that of a branch is meant.
Status check_is_not_full_name(std::string_view branch);
// The name in the content of a symbolic reference: "refs/heads/main" for "ref: refs/heads/main\n". nullopt for other
// content.
std::optional<std::string_view> find_symbolic_target(std::string_view content);
// "main" for "refs/heads/main"; "" for whatever is not the full name of a branch.
std::string_view branch_in(std::string_view reference);
bool is_object_id(std::string_view text);  // 40 or 64 lower-case hexadecimal digits

// The references in a packed-refs file; other lines are skipped.
GitReferences parse_packed_references(std::string_view text);
// Only the branches.
GitBranches parse_packed_branches(std::string_view text);

// Of the repository in `dir` ("/.git"). nullopt if `dir` is not a directory with a readable HEAD in the usual format.
// Names that git would not accept, links, and files that are not references are skipped. kTooLarge, kCorrupt.
Result<std::optional<GitHeads>> find_git_heads(FileSystem& fs, const std::string& dir);

// The commit of HEAD, "" if there is none. Reads no more than HEAD, its branch and, if that is packed, packed-refs.
// HEAD is at the top of `git_dir`, the branches are in `common`: the same directory, unless it is a linked worktree's.
Result<std::string> find_head_commit(FileSystem& git_dir, FileSystem& common);

}  // namespace warren
