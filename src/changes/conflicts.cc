#include "changes/conflicts.h"

#include <unordered_map>

#include <fmt/format.h>

#include "base/below.h"
#include "base/binary.h"
#include "base/limits.h"
#include "base/path.h"
#include "changes/compare.h"
#include "changes/pinned/as_committed.h"
#include "changes/pinned/git_ancestor.h"
#include "changes/upper/tree_finder.h"
#include "fs/path_ops.h"
#include "text/diff/merge3.h"

namespace warren {
namespace {

using namespace std::string_literals;

constexpr std::size_t kAskedOfGit = 200;  // one by one

Result<std::optional<std::string>> find_ancestor(const AgentOverlay& overlay, const TreeChange& change) {
  if (!change.after || !change.after->is_file()) return std::optional<std::string>();
  if (change.committed) return change.committed;
  auto view = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));
  return overlay.upper.find_ancestor(change.after->inode);
}

// The version to compare and merge with. Never to decide whether there is a conflict: what git has is not what the
// agent saw for certain.
Result<std::optional<std::string>> find_merge_base(const AgentOverlay& overlay, const TreeChange& change) {
  std::optional<std::string> ancestor = WARREN_TRY(find_ancestor(overlay, change));
  return ancestor ? std::move(ancestor) : find_git_ancestor(overlay, change);
}

// If only times changed, or a new file has the old content, there is no conflict.
Result<bool> has_ancestors_content(const AgentOverlay& overlay, const TreeChange& change) {
  const Attributes& now = *change.before;
  if (!now.is_file() || !has_same_mode(now, *change.seen) || now.size != change.seen->size) return false;
  std::optional<std::string> ancestor = WARREN_TRY(find_ancestor(overlay, change));
  if (!ancestor || ancestor->size() != now.size) return false;
  std::string content = WARREN_TRY(read_file(overlay.base, change.base_path));
  return content == *ancestor;
}

std::string describe(const TreeChange& change) {
  const Attributes& now = *change.before;
  if (!change.seen) {
    return change.kind == TreeChangeKind::kDeleted
               ? "it was created or changed in the base, and the agent has not seen that"
               : "the base has a new or changed version that the agent has not seen";
  }
  if (((now.mode ^ change.seen->mode) & S_IFMT) != 0) return "its type was changed in the base";
  if (now.is_directory()) return "it is now a different directory in the base";
  if (now.size == change.seen->size && now.mtime == change.seen->mtime && now.inode == change.seen->inode)
    return "its mode or owner was changed in the base";
  return "it was changed in the base";
}

Result<std::optional<std::string>> find_reason(const AgentOverlay& overlay, const TreeChange& change) {
  if (change.touches_hidden) {
    return std::optional<std::string>("it would replace or move something in the base that was hidden from the agent");
  }
  if (!change.before && !change.is_set_back) {
    bool was_there = change.seen || change.has_lost_base;
    if (!was_there || change.kind != TreeChangeKind::kAdded || change.place.empty())
      return std::optional<std::string>();
    Result<Attributes> there = lstat(overlay.base, change.place);
    bool is_other_type = there.ok() && change.seen && ((there->mode ^ change.seen->mode) & S_IFMT) != 0;
    return std::optional(is_other_type ? "its type was changed in the base"s : "it was deleted from the base"s);
  }
  if (change.committed && change.before->is_file()) {
    bool is_same =
        change.committed->size() == change.before->size && WARREN_TRY(read_file(overlay.base, change.base_path))
    == *change.committed;
    return is_same ? std::optional<std::string>() : std::optional("it differs from the version that was committed"s);
  }
  if (change.is_set_back) return std::optional("it matches the agent's last commit, but the base has a newer one"s);
  if (change.is_unseen) {
    bool are_dirs = change.before->is_directory() && change.after && change.after->is_directory();
    return are_dirs ? std::optional<std::string>() : std::optional(describe(change));
  }
  if (!change.seen && change.after && change.before->is_file()) {
    // Replaced by a rename, or removed and created again: what it replaced was kept.
    std::optional<std::string> ancestor = WARREN_TRY(find_ancestor(overlay, change));
    if (ancestor) {
      bool is_same = ancestor->size() == change.before->size && WARREN_TRY(read_file(overlay.base, change.base_path))
      == *ancestor;
      return is_same ? std::optional<std::string>() : std::optional(describe(change));
    }
  }
  if (!change.seen) {
    // A directory's own time changes with any entry in it, and its entries are compared one by one.
    Timestamp changed_at = change.is_lost_link ? change.before->mtime : change.before->ctime;
    bool is_older = is_surely_older(changed_at, change.known_at);
    if (is_older || change.before->is_directory()) return std::optional<std::string>();
    return std::optional(describe(change));
  }
  if (is_as_seen(*change.before, *change.seen)) return std::optional<std::string>();
  bool is_same_text = WARREN_TRY(has_ancestors_content(overlay, change));
  if (is_same_text) return std::optional<std::string>();
  return std::optional(describe(change));
}

// Nothing is kept of a file that was deleted. But git may know that the base has it as at the session's start, after
// the user has been on another branch, for example.
bool has_only_other_times(const AgentOverlay& overlay, const TreeChange& change, std::size_t& asked) {
  bool may_be = change.kind == TreeChangeKind::kDeleted && !change.touches_hidden && !change.is_set_back &&
                !change.is_unseen && change.seen && change.before && change.before->is_file() &&
                has_same_mode(*change.before, *change.seen) && change.before->size == change.seen->size;
  if (!may_be || ++asked > kAskedOfGit) return false;
  Result<bool> is_same = has_version_of_start(overlay, change.base_path);
  return is_same.ok() && *is_same;
}

std::string_view word_of(const Attributes& node) {
  if (node.is_directory()) return "directory";
  if (node.is_symlink()) return "link";
  return node.is_file() ? "file" : "special file";
}

// What the agent has made at the paths of other nodes of the base, which are listed as deleted for that.
class Replacements {
 public:
  explicit Replacements(const std::vector<TreeChange>& changes) {
    std::unordered_map<std::string_view, const Attributes*> made;
    for (const TreeChange& change : changes) {
      bool is_new = change.kind == TreeChangeKind::kAdded || change.kind == TreeChangeKind::kRenamed;
      if (is_new && change.after) made.emplace(change.path, &*change.after);
    }
    for (const TreeChange& change : changes) {
      auto found = change.kind == TreeChangeKind::kDeleted ? made.find(change.path) : made.end();
      if (found != made.end()) by_path_.emplace(change.path, Replacement{change.base_path, found->second});
    }
  }

  // Says so, if the deletion only makes room for another node of the agent's.
  void describe(const TreeChange& deleted, ApplyConflict& conflict) const {
    std::string_view path = deleted.path;
    auto found = by_path_.find(path);
    while (found == by_path_.end() && path.size() > 1) {
      path = directory_of(path);
      found = by_path_.find(path);
    }
    // What was deleted in a renamed directory had another place in the base.
    if (found == by_path_.end() || !is_at_or_below(deleted.base_path, found->second.base_path)) return;
    conflict.is_replaced = true;
    conflict.is_new = deleted.is_unseen;
    std::string_view theirs = word_of(*deleted.before);
    std::string_view ours = word_of(*found->second.made);
    bool is_here = path == deleted.path;
    if (is_here && theirs == ours) return;
    if (deleted.is_unseen && is_here) {
      conflict.why = fmt::format("the base has a new {} there, and the agent a {}", theirs, ours);
      return;
    }
    if (deleted.is_unseen) conflict.why = "it is new in the base";
    conflict.why += fmt::format(", and the agent has a {} ", ours);
    conflict.why += is_here ? "there" : fmt::format("at {}", quote(path));
  }

 private:
  struct Replacement {
    std::string_view base_path;  // of the node of the base
    const Attributes* made;
  };
  std::unordered_map<std::string_view, Replacement> by_path_;
};

// What the base has in place of a directory: nothing new can be written in it.
class Blocks {
 public:
  Blocks(const AgentOverlay& overlay, const std::vector<TreeChange>& changes) : base_(overlay.base) {
    for (const TreeChange& change : changes) {
      if (is_new(change) && change.after && change.after->is_directory()) made_.emplace(change.path, &change);
    }
  }

  // Why the change cannot be written; nullopt if it is not because of that.
  Result<std::optional<std::string>> find(const TreeChange& change) {
    if (!is_new(change) || change.place.empty() || change.place == "/") return std::optional<std::string>();
    std::string_view dir = directory_of(change.path);
    if (dir != dir_) {
      why_ = WARREN_TRY(look_above(dir));
      dir_ = dir;
    }
    return why_;
  }

 private:
  static bool is_new(const TreeChange& change) {
    return change.kind == TreeChangeKind::kAdded || change.kind == TreeChangeKind::kRenamed;
  }

  // Where the base has now what apply will have at the path, after it has renamed and made the directories above it.
  // nullopt in one that it makes.
  std::optional<std::string> find_place(std::string_view path) const {
    for (std::string_view at = path; at != "/"; at = directory_of(at)) {
      auto made = made_.find(at);
      if (made == made_.end()) continue;
      if (made->second->kind == TreeChangeKind::kAdded) return std::nullopt;
      return made->second->base_path + std::string(path.substr(at.size()));
    }
    return std::string(path);
  }

  Result<std::optional<std::string>> look_above(std::string_view dir) {
    for (std::string_view at = dir; at != "/"; at = directory_of(at)) {
      std::optional<std::string> place = find_place(at);
      if (!place) continue;
      std::optional<Attributes> there = WARREN_TRY(base_.find(*place));
      if (there && there->is_directory()) break;
      if (there) return std::optional(fmt::format("the base has a {} at {} now", word_of(*there), quote(*place)));
    }
    return std::optional<std::string>();
  }

  TreeFinder base_;
  std::unordered_map<std::string_view, const TreeChange*> made_;  // directories, by path
  std::string dir_ = "/";                                         // the last one
  std::optional<std::string> why_;
};

// Whether a part of the agent's file can no longer be read.
Result<bool> is_missing_parts(const AgentOverlay& overlay, const TreeChange& change) {
  if (!change.after || !change.after->is_file()) return false;
  std::vector<ByteRange> in_base = WARREN_TRY(overlay.upper.list_base_ranges(change.after->inode));
  if (in_base.empty()) return false;
  std::string first(1, '\0');
  Result<std::size_t> got = read_at(overlay.merged, change.path, in_base.front().begin, as_mutable_bytes(first));
  return !got.ok() && got.error().code() == Code::kIo;
}

}  // namespace

Result<std::vector<ApplyConflict>> find_conflicts(const AgentOverlay& overlay, const std::vector<TreeChange>& changes) {
  auto view = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));  // one for all of them: each costs several locks
  std::vector<ApplyConflict> conflicts;
  Replacements replacements(changes);
  std::size_t asked = 0;
  Blocks blocks(overlay, changes);
  for (const TreeChange& change : changes) {
    std::optional<std::string> why = WARREN_TRY(find_reason(overlay, change));
    std::optional<std::string> block = WARREN_TRY(blocks.find(change));
    if (block && !change.touches_hidden) why = block;
    if (!why || has_only_other_times(overlay, change, asked)) continue;
    ApplyConflict conflict{change.path, *std::move(why)};
    conflict.is_deletion = change.kind == TreeChangeKind::kDeleted;
    conflict.is_blocked = block.has_value();
    conflict.is_lost = !change.before && !block;
    conflict.is_hidden = change.touches_hidden;
    if (conflict.is_deletion && !conflict.is_hidden) replacements.describe(change, conflict);
    conflict.is_incomplete = WARREN_TRY(is_missing_parts(overlay, change));
    if (conflict.is_incomplete)
      conflict.why += ", and part of the agent's version existed only in the base and is lost";
    conflicts.push_back(std::move(conflict));
  }
  return conflicts;
}

Result<bool> is_as_agent_saw(const AgentOverlay& overlay, const TreeChange& change) {
  if (!change.before) return false;
  std::optional<std::string> why = WARREN_TRY(find_reason(overlay, change));
  return !why;
}

Result<std::optional<std::string>> find_kept(const AgentOverlay& overlay, const TreeChange& change) {
  return find_ancestor(overlay, change);
}

Result<std::string> read_seen(const AgentOverlay& overlay, const TreeChange& change) {
  std::optional<std::string> why = WARREN_TRY(find_reason(overlay, change));
  if (!why && change.before) {
    if (change.before->is_symlink()) return read_link(overlay.base, change.base_path);
    return read_file(overlay.base, change.base_path, {.size_bytes_max = limits::kPatchFileBytes});
  }
  std::optional<std::string> ancestor = WARREN_TRY(find_merge_base(overlay, change));
  if (ancestor) return *std::move(ancestor);
  return Error(Code::kConflict,
               fmt::format("{}: {}, and the version that the agent started from was not kept, so its change cannot be "
                           "separated from that one",
                           quote(change.path), why.value_or("it is no longer in the base")),
               "name the paths to include, without this one, or use `warren apply` or `warren apply --to DIR`");
}

Result<std::string> read_compared(const AgentOverlay& overlay, const TreeChange& change) {
  if (WARREN_TRY(is_as_agent_saw(overlay, change))) return read_seen(overlay, change);
  FoundVersions found = WARREN_TRY(find_versions(overlay, change));
  if (!found.texts || !found.is_kept) return read_seen(overlay, change);
  const MergeVersions& texts = *found.texts;
  return with_shared_changes(texts.ancestor, texts.agent, merge_parts(texts.ancestor, texts.agent, texts.base));
}

Result<FoundVersions> find_versions(const AgentOverlay& overlay, const TreeChange& change) {
  auto none = [](std::string_view why) { return FoundVersions{.texts = {}, .why_none = why}; };
  bool is_pair = change.before && change.after && change.before->is_file() && change.after->is_file();
  if (!is_pair) return none("it is not a file on both sides");
  if (change.before->size > limits::kPatchFileBytes || change.after->size > limits::kPatchFileBytes)
    return none("it is too large");
  if (change.touches_hidden) return none("the base's file was hidden from the agent");
  std::optional<std::string> ancestor = WARREN_TRY(find_merge_base(overlay, change));
  bool is_kept = ancestor.has_value();
  if (!is_kept && !change.seen) ancestor.emplace();  // both have added it
  if (!ancestor) return none("the version that the agent started from was not kept");
  MergeVersions texts{.ancestor = *std::move(ancestor), .agent = {}, .base = {}};
  texts.agent = WARREN_TRY(read_file(overlay.merged, change.path));
  texts.base = WARREN_TRY(read_file(overlay.base, change.base_path));
  if (is_binary(texts.ancestor) || is_binary(texts.agent) || is_binary(texts.base)) return none("it is not text");
  return FoundVersions{.texts = std::move(texts), .why_none = {}, .is_kept = is_kept};
}

Result<std::optional<MergedChange>> merge_change_or_mark(const AgentOverlay& overlay, const TreeChange& change) {
  FoundVersions found = WARREN_TRY(find_versions(overlay, change));
  if (!found.texts) return std::optional<MergedChange>();
  Merged merged = merge3(found.texts->ancestor, found.texts->agent, found.texts->base, kMergeLabels);
  bool is_clean = merged.is_clean();
  return std::optional(MergedChange{std::move(merged.text), is_clean});
}

Result<std::optional<std::string>> merge_change(const AgentOverlay& overlay, const TreeChange& change) {
  std::optional<MergedChange> merged = WARREN_TRY(merge_change_or_mark(overlay, change));
  if (!merged || !merged->is_clean) return std::optional<std::string>();
  return std::optional(std::move(merged->text));
}

}  // namespace warren
