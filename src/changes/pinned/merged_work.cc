#include "changes/pinned/merged_work.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/path.h"
#include "base/side_change.h"
#include "changes/git/base_heads.h"
#include "changes/git/git.h"
#include "changes/git/git_folder.h"
#include "changes/git/quarantine.h"
#include "changes/pinned/pinned_git.h"
#include "changes/upper/drop_applied.h"
#include "changes/upper/upper_edit.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

struct Brought {
  std::string commit;
  std::vector<AppliedChange> changes;
  std::string settled;  // an earlier one, or the same, whose changes were dropped; "" if there is none
};

// "<commit>\n" or "<commit> <settled>\n", and the changes, as an apply stores them.
Status write_brought(UpperLayer& upper, const Brought& brought) {
  Intent intent;
  intent.changes = brought.changes;
  bool is_empty = brought.changes.empty() && brought.settled.empty();
  std::string ids = brought.settled.empty() ? brought.commit : brought.commit + " " + brought.settled;
  return write_git_record(upper, kBroughtRecord, is_empty ? "" : ids + "\n" + encode(intent));
}

bool is_good_path(const std::string& path) { return is_normal_path(path) && path != "/" && !is_in_git_dir(path); }

bool is_good(const AppliedChange& change) {
  return is_good_path(change.path) && (change.base_path.empty() || is_good_path(change.base_path));
}

// The agent can write there: whatever is not a note is none.
Result<std::optional<Brought>> read_brought(UpperLayer& upper) {
  std::optional<Brought> none;
  std::string text = WARREN_TRY(read_git_record(upper, kBroughtRecord));
  std::size_t end = text.find('\n');
  std::string_view ids = std::string_view(text).substr(0, end);
  std::string_view commit = ids.substr(0, ids.find(' '));
  std::string_view settled = commit.size() < ids.size() ? ids.substr(commit.size() + 1) : std::string_view();
  if (end == text.npos || !is_object_id(commit) || (!settled.empty() && !is_object_id(settled))) return none;
  Result<Intent> intent = decode_intent(std::string_view(text).substr(end + 1));
  if (!intent.ok() || !intent->steps.empty()) return none;
  if (!std::all_of(intent->changes.begin(), intent->changes.end(), is_good)) return none;
  return std::optional(Brought{std::string(commit), std::move(intent->changes), std::string(settled)});
}

class Settling {
 public:
  explicit Settling(const AgentOverlay& overlay) : overlay_(overlay), git_(overlay.base_path), base_(overlay.base) {}

  // Whether the base's HEAD has the commit, or its changes as other commits, and the agent still stands on it.
  Result<bool> is_merged(const std::string& commit) {
    std::optional<PinnedGit> pinned = WARREN_TRY(find_pinned_git(overlay_));
    std::optional<GitHeads> heads = WARREN_TRY(find_base_heads(overlay_));
    if (!pinned || !heads || heads->commit.empty() || heads->commit == pinned->head) return false;
    bool is_in_head = WARREN_TRY(git_.succeeds({"merge-base", "--is-ancestor", commit, heads->commit}))
    || WARREN_TRY(is_in_head_otherwise(git_, commit));
    if (!is_in_head) return false;
    std::optional<GitHeads> agent = WARREN_TRY(find_git_heads(overlay_.merged, "/.git"));
    if (!agent || agent->commit.empty()) return false;
    if (agent->commit == commit) return true;
    std::vector<TreeChange> all = WARREN_TRY(list_every_change(overlay_));
    std::optional<ScratchDir> borrowed = WARREN_TRY(borrow_commit(overlay_, all, agent->commit, git_));
    return git_.succeeds({"merge-base", "--is-ancestor", commit, agent->commit});
  }

  // Moves the changes that the base has as the commit does from the note to an intent. Call list_other first. What was
  // renamed to make room for a rename of these, and has not come with them, is no rename any more: its old name is now
  // that of another node.
  Result<Intent> take_merged(Brought& brought) {
    Intent merged;
    std::vector<AppliedChange> rest;
    for (AppliedChange& change : brought.changes) {
      bool is_there = WARREN_TRY(has(change));
      (is_there ? merged.changes : rest).push_back(std::move(change));
    }
    std::unordered_set<std::string_view> taken;
    for (const AppliedChange& change : merged.changes) {
      if (change.kind == TreeChangeKind::kRenamed) taken.insert(change.path);
    }
    std::erase_if(rest, [&](const AppliedChange& change) {
      return change.kind == TreeChangeKind::kRenamed && taken.contains(change.base_path);
    });
    brought.changes = std::move(rest);
    return merged;
  }

  // The files of the base's work tree that are not as in the commit. With an index of our own, since git writes what it
  // finds out to the index.
  Status list_other(const std::string& commit) {
    ScratchDir scratch = WARREN_TRY(ScratchDir::make("merged"));
    std::string git_dir = WARREN_TRY(git_.ask({"rev-parse", "--absolute-git-dir"}));
    Git git = git_;
    WARREN_TRY(git.use(git_dir, overlay_.base_path, scratch.path() + "/index"));
    std::unordered_set<std::string> unlike = WARREN_TRY(list_unlike(git, commit));
    for (const std::string& name : unlike) other_.insert("/" + name);
    std::string all = WARREN_TRY(git.ask({"ls-files", "-z"}));
    for (const std::string& name : split_at_nul(all)) committed_.insert("/" + name);
    return Ok{};
  }

 private:
  Result<bool> has(const AppliedChange& change) {
    std::optional<Attributes> there = WARREN_TRY(base_.find(change.path));
    if (change.kind == TreeChangeKind::kDeleted) return !there && !WARREN_TRY(was_in_base(change.upper));
    bool is_same_type = there && (there->mode & S_IFMT) == change.type;
    if (!is_same_type || there->is_directory()) return is_same_type;
    return committed_.contains(change.path) && !other_.contains(change.path);
  }

  // Whether a part of a renamed file was not copied: it is lost with the old name.
  Result<bool> was_in_base(Inode upper) {
    std::vector<ByteRange> ranges = WARREN_TRY(overlay_.upper.list_base_ranges(upper));
    return !ranges.empty();
  }

  const AgentOverlay& overlay_;
  Git git_;
  TreeFinder base_;
  std::unordered_set<std::string> committed_;
  std::unordered_set<std::string> other_;
};

}  // namespace

Status note_brought(const AgentOverlay& overlay, const std::string& commit, std::vector<AppliedChange> changes) {
  SideChange not_by_the_agent;
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kWrite));
  std::optional<Brought> before = WARREN_TRY(read_brought(overlay.upper));
  WARREN_TRY(write_brought(overlay.upper, {commit, std::move(changes), before ? before->settled : ""}));
  return unit->commit();
}

Result<std::string> find_settled_commit(UpperLayer& upper) {
  std::optional<Brought> brought = WARREN_TRY(read_brought(upper));
  return brought ? std::move(brought->settled) : std::string();
}

Status keep_renamed_content(const AgentOverlay& overlay, const std::vector<AppliedChange>& brought) {
  SideChange not_by_the_agent;
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kWrite));
  std::uint64_t bytes = 0;
  std::unordered_set<Inode> files;
  for (const AppliedChange& change : brought) {
    if (change.kind != TreeChangeKind::kDeleted || change.upper == Inode{}) continue;
    std::vector<ByteRange> in_base = WARREN_TRY(overlay.upper.list_base_ranges(change.upper));
    for (const ByteRange& range : in_base) bytes += range.end - range.begin;
    if (!in_base.empty()) files.insert(change.upper);
  }
  if (files.empty()) return Ok{};
  WARREN_TRY(overlay.upper.reserve(bytes));
  TreeFinder base(overlay.base);
  UpperTree tree = WARREN_TRY(UpperTree::read(overlay, base));
  UpperEdit edit(overlay, tree, base);
  for (const UpperNode& node : tree.nodes()) {
    if (!files.contains(node.node.inode)) continue;
    Status kept = edit.take_rest(node).within("keep " + quote(node.path));
    bool is_lost = !kept.ok() && kept.error().code() == Code::kConflict;  // the base has changed it already
    if (!is_lost) WARREN_TRY(std::move(kept));
  }
  return unit->commit();
}

Status forget_brought(UpperLayer& upper, const std::vector<std::string>& paths) {
  std::optional<Brought> brought = WARREN_TRY(read_brought(upper));
  if (!brought) return Ok{};
  std::unordered_set<std::string> gone(paths.begin(), paths.end());
  std::size_t count = brought->changes.size();
  std::erase_if(brought->changes, [&](const AppliedChange& change) { return gone.contains(change.path); });
  return brought->changes.size() < count ? write_brought(upper, *brought) : Status(Ok{});
}

Result<bool> settle_merged(Agent& agent) {
  SideChange not_by_the_agent;
  std::optional<AgentOverlay> overlay = agent.overlay();
  if (!overlay || agent.is_read_only()) return false;
  auto unit = WARREN_TRY(overlay->upper.begin(UnitAccess::kRead));
  std::optional<Brought> brought = WARREN_TRY(read_brought(overlay->upper));
  unit.reset();
  if (!brought || brought->changes.empty()) return false;
  Settling settling(*overlay);
  if (!WARREN_TRY(settling.is_merged(brought->commit))) return false;
  WARREN_TRY(settling.list_other(brought->commit));
  unit = WARREN_TRY(overlay->upper.begin(UnitAccess::kWrite));
  std::string commit = std::move(brought->commit);
  brought = WARREN_TRY(read_brought(overlay->upper));
  if (!brought || brought->commit != commit) return false;
  Intent merged = WARREN_TRY(settling.take_merged(*brought));
  if (merged.changes.empty()) return false;
  WARREN_TRY(drop_merged(*overlay, merged, find_use(agent)));
  brought->settled = brought->commit;
  WARREN_TRY(write_brought(overlay->upper, *brought));
  WARREN_TRY(unit->commit());
  return true;
}

Status settle_merged(const std::string& id_or_path, Clock& clock) {
  auto agent = WARREN_TRY(Agent::open({.id_or_path = id_or_path}, clock));
  WARREN_TRY(settle_merged(*agent));
  return agent->close();
}

}  // namespace warren
