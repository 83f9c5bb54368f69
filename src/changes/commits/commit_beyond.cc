// Files that an agent's commits change though its session has no change in them.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/binary.h"
#include "base/limits.h"
#include "base/path.h"
#include "changes/commits/commits.h"
#include "changes/compare.h"
#include "changes/git/blobs.h"
#include "changes/git/git_folder.h"
#include "changes/git/git_log.h"
#include "changes/git/git_work_tree.h"
#include "changes/git/raw_diff.h"
#include "changes/pinned/head_versions.h"
#include "changes/pinned/pinned_git.h"
#include "changes/review/patch.h"
#include "changes/undo/undo.h"
#include "fs/overlay/recorded.h"
#include "fs/path_ops.h"
#include "os/files/host_files.h"
#include "os/files/host_tree.h"
#include "text/diff/merge3.h"

namespace warren {
namespace {

using Statuses = std::unordered_map<std::string, char>;  // "src/a" → A M D T, as git's --name-status

Statuses parse_statuses(std::string_view text) {
  Statuses found;
  std::vector<std::string> parts = split_at_nul(text);
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    if (!parts[i].empty()) found.emplace(parts[i + 1], parts[i][0]);
  }
  return found;
}

using Renames = std::unordered_map<std::string, std::string>;  // "src/a" → "lib/a"
using BlobIds = std::vector<std::string>;

// As git finds them, by content.
Result<Renames> list_renamed(Git& git, const std::string& from, const std::string& to) {
  std::string listed =
      WARREN_TRY(git.ask({"diff-tree", "-r", "-z", "-M", "--name-status", "--diff-filter=R", from, to}));
  Renames renamed;
  std::vector<std::string> parts = split_at_nul(listed);
  for (std::size_t i = 0; i + 2 < parts.size(); i += 3) renamed.emplace(parts[i + 1], parts[i + 2]);
  return renamed;
}

Result<std::unordered_set<std::string>> list_deleted(Git& git, const std::string& from, const std::string& to) {
  std::string listed =
      WARREN_TRY(git.ask({"diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=D", from, to}));
  std::vector<std::string> names = split_at_nul(listed);
  return std::unordered_set<std::string>(names.begin(), names.end());
}

// A file that others have changed since the start, and the agent's commits have changed after that. "" for the id of a
// version that is not a file.
struct CommittedFile {
  std::string name;  // "src/a"
  std::string start;
  std::string newer;
  std::string own;  // of the agent's HEAD, there perhaps at another path

  bool needs_content() const { return !newer.empty() && !own.empty() && own != start && own != newer; }
  // As contains_newer, where the content does not matter.
  bool contains_newer_by_ids() const { return newer.empty() || own == newer; }
};

Result<std::vector<CommittedFile>> list_changed_by_both(Git& git, const std::string& start, const std::string& common,
                                                        const std::string& head) {
  auto changed = [&](const std::string& from, const std::string& to) -> Result<std::vector<RawDiff>> {
    return parse_raw_diff(
        WARREN_TRY(git.ask({"diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", from, to})));
  };
  auto id_of = [](const std::string& mode, const std::string& id) {
    return mode == kGitNoMode || mode == kGitSubmoduleMode ? std::string() : id;
  };
  std::unordered_map<std::string, std::string> at_start;  // what others have changed
  for (const RawDiff& one : WARREN_TRY(changed(start, common)))
    at_start.emplace(one.path, id_of(one.old_mode, one.old_id));
  std::vector<RawDiff> ours = WARREN_TRY(changed(common, head));
  std::unordered_map<std::string, std::string> at_head;
  for (const RawDiff& one : ours) at_head.emplace(one.path, id_of(one.new_mode, one.new_id));
  Renames renamed = WARREN_TRY(list_renamed(git, common, head));
  std::vector<CommittedFile> files;
  for (const RawDiff& one : ours) {
    auto before = at_start.find(one.path);
    if (before == at_start.end()) continue;
    auto moved = renamed.find(one.path);
    const std::string& own = at_head[moved == renamed.end() ? one.path : moved->second];
    files.push_back({one.path, before->second, id_of(one.old_mode, one.old_id), own});
  }
  return files;
}

// Whether the agent's version contains what others have changed since the start: merging that into it changes nothing.
// Also where that is unknown: files that are large or binary. The texts are of start, newer and own.
bool contains_newer(const BlobTexts& texts) {
  std::string_view start = texts[0].value_or("");
  bool is_text = texts[1] && texts[2] && !is_binary(*texts[1]) && !is_binary(*texts[2]);
  if (!is_text) return true;
  Merged merged = merge3(start, *texts[2], *texts[1], {.ours = "agent", .theirs = "base"});
  return !merged.is_clean() || merged.text == *texts[2];
}

Result<std::unordered_set<std::string>> list_session_paths(const AgentOverlay& overlay,
                                                           const std::vector<TreeChange>& changes) {
  std::unordered_set<std::string> paths;
  std::vector<ChangedFile> files = WARREN_TRY(list_changed_files(overlay, changes));
  for (const ChangedFile& file : files) {
    if (file.before) paths.insert(file.before->path);
    if (file.after) paths.insert(file.after->path);
  }
  return paths;
}

Result<std::optional<Attributes>> find_shown(FileSystem& fs, const std::string& path) {
  Result<Attributes> node = lstat(fs, path);
  if (node.ok()) return std::optional(*node);
  Code code = node.error().code();
  if (code == Code::kNotFound || code == Code::kNotDirectory || code == Code::kDenied)
    return std::optional<Attributes>();
  return std::move(node).take_error();
}

// Whether the agent has changed or removed the path itself, even if the result is what the base has.
Result<bool> was_touched(const AgentOverlay& overlay, const std::string& path) {
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));
  std::optional<Attributes> node = WARREN_TRY(find_shown(overlay.upper.fs(), path));
  std::optional<Cover> cover = WARREN_TRY(overlay.upper.find_cover(path));
  bool is_frozen = cover && (node ? cover->seen && is_as_recorded(*node, *cover->seen) : !cover->seen);
  if (node || is_frozen) return !is_frozen;
  std::optional<Attributes> removed = WARREN_TRY(overlay.upper.find_removed(path));
  return removed.has_value();
}

// Files that the base has from this agent, which has committed them, too.
struct AppliedFiles {
  std::unordered_set<std::string> paths;
  std::unordered_map<std::string, HostNode> written;  // by the last apply of each

  // Whether nobody has changed it since.
  bool is_as_written(const std::string& path, const std::optional<Attributes>& now) const {
    auto found = written.find(path);
    if (found == written.end() || !now) return false;
    const HostNode& node = found->second;
    return (now->mode & S_IFMT) == node.type && now->size == node.size && now->mtime == node.mtime;
  }
};

AppliedFiles list_applied_files(const AgentOverlay& overlay) {
  AppliedFiles applied;
  Result<HostIdentity> file = identify_host_node(overlay.agent_path);
  Result<std::vector<KeptApply>> kept = list_kept();  // the newest first
  if (!file.ok() || !kept.ok()) return applied;       // then the user is asked
  // By identity: a new agent file may have the inode of one that was deleted. Older records have none.
  auto is_own = [&](const ApplyRecord& record) {
    if (record.agent_identity.empty()) return record.base == overlay.base_path && record.inode == file->inode;
    return record.agent_identity == overlay.identity;
  };
  for (const KeptApply& one : *kept) {
    bool counts = one.record.kind == RecordKind::kApply && one.record.intent && is_own(one.record);
    if (!counts) continue;
    for (const Step& step : one.record.intent->steps) applied.paths.insert(step.path);
    for (const AppliedChange& change : one.record.intent->changes) {
      applied.paths.insert(change.path);  // a step may write a whole directory
      applied.written.emplace(change.path, change.written);
    }
  }
  return applied;
}

}  // namespace

Result<std::vector<std::string>> CommitImport::list_brought() {
  std::string commits = WARREN_TRY(list_brought_commits());
  std::vector<std::string> names = WARREN_TRY(list_changed_by(joined_, commits));
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// Names of files that commits change which are neither in the base's HEAD nor were there at the agent's start.
Result<std::vector<std::string>> CommitImport::list_newly_committed() {
  std::string asked = head_ + "\n";
  if (WARREN_TRY(has_head(base_))) asked += "^HEAD\n";
  std::optional<PinnedGit> pinned = WARREN_TRY(find_pinned_git(overlay_));
  if (!start_.empty()) asked += "^" + start_ + "\n";
  if (pinned) {
    for (const auto& [name, id] : pinned->references) asked += "^" + id + "\n";
  }
  std::string commits = WARREN_TRY(joined_.ask_with({"rev-list", "--ignore-missing", "--stdin"}, asked));
  std::vector<std::string> listed = WARREN_TRY(list_changed_by(joined_, commits));
  auto bad = std::find_if_not(listed.begin(), listed.end(), is_git_path);
  if (bad != listed.end()) return damaged(fmt::format("{} is not a valid path", quote(*bad)));
  return listed;
}

// Of the files that the agent's HEAD has in another version than both its start and what a merge would compare it with.
Result<CommitImport::Beyond> CommitImport::look_at_head(const std::vector<TreeChange>& changes) {
  Beyond beyond;
  if (head_.empty() || head_ != commit_ || is_merged_) return beyond;
  std::vector<std::string> names = WARREN_TRY(list_newly_committed());
  if (names.empty()) return beyond;
  const std::vector<std::string> compare{"diff-tree", "-r", "-z", "--name-status", "--no-renames"};
  auto statuses_since = [&](const std::string& from) -> Result<std::optional<Statuses>> {
    std::vector<std::string> words = compare;
    words.insert(words.end(), {from, head_});
    Captured listed = WARREN_TRY(joined_.run(words));
    return listed.status == 0 ? std::optional(parse_statuses(listed.output)) : std::nullopt;
  };
  std::optional<Statuses> since_start = WARREN_TRY(statuses_since(from_));
  // On another branch of the base's, its files say nothing about what a merge would bring.
  bool is_behind = !start_.empty() && !WARREN_TRY(base_.succeeds({"merge-base", "--is-ancestor", start_, "HEAD"}));
  Captured common = WARREN_TRY(joined_.run({"merge-base", "HEAD", head_}));  // none before the base's first commit
  std::string merge_base(trimmed(common.output, kWhitespace));
  std::optional<Statuses> since_base;
  std::optional<Statuses> since_head;
  if (!is_behind && common.status == 0) {
    since_base = WARREN_TRY(statuses_since(merge_base));
    since_head = WARREN_TRY(statuses_since("HEAD"));
  }
  std::unordered_set<std::string> of_session = WARREN_TRY(list_session_paths(overlay_, changes));
  std::unordered_map<std::string, Candidate> candidates;
  std::vector<std::string> on_others = WARREN_TRY(list_on_others(changes, names, is_behind));
  for (std::string& name : names) {
    auto found = since_start ? since_start->find(name) : Statuses::iterator();
    bool is_other = since_start && found != since_start->end() && (!since_base || since_base->contains(name)) &&
                    (!since_head || since_head->contains(name));
    if (!is_other || of_session.contains("/" + name)) continue;
    std::optional<Attributes> node = WARREN_TRY(find_shown(overlay_.merged, "/" + name));
    if (node && !node->is_file() && !node->is_symlink()) continue;  // a submodule, or a directory in its place
    candidates.emplace(name, Candidate{found->second, node});
  }
  beyond = WARREN_TRY(sort_candidates(candidates, is_behind));
  WARREN_TRY(leave_out_renamed_back(beyond));
  beyond.foreign.insert(beyond.foreign.end(), on_others.begin(), on_others.end());
  if (common.status == 0 && !start_.empty()) beyond.reverted = WARREN_TRY(list_reverted(merge_base));
  return beyond;
}

// Files that the agent changed and committed, but not on top of a version that it has had from the base: it changed
// what the base had for a moment, while the user switched branches, for example. The commit contains that, too.
Result<std::vector<std::string>> CommitImport::list_on_others(const std::vector<TreeChange>& changes,
                                                              const std::vector<std::string>& names, bool is_behind) {
  std::vector<std::string> found;
  std::optional<PinnedGit> pinned = WARREN_TRY(find_pinned_git(overlay_));
  if (!pinned || pinned->head.empty()) return found;
  std::unordered_set<std::string> committed(names.begin(), names.end());
  std::vector<std::string> shared;
  auto version_in = [&](const std::string& commit, const std::string& name) -> Result<std::string> {
    Captured found_there = WARREN_TRY(joined_.run({"rev-parse", "--verify", "--quiet", commit + ":" + name}));
    return std::string(found_there.status == 0 ? trimmed(found_there.output, kWhitespace) : std::string_view());
  };
  auto unit = WARREN_TRY(overlay_.upper.begin(UnitAccess::kRead));
  std::unordered_set<std::string> applied = list_known_applied(overlay_);
  for (const TreeChange& change : changes) {
    bool may_be = change.kind == TreeChangeKind::kModified && change.after->is_file() && change.seen &&
                  !is_frozen_number(change.seen->inode) && !is_surely_older(change.seen->ctime, pinned->begun) &&
                  committed.contains(change.path.substr(1)) && !applied.contains(change.path);
    if (!may_be) continue;
    std::optional<std::string> seen = WARREN_TRY(overlay_.upper.find_ancestor(change.after->inode));
    if (!seen) {  // large or binary: the base still has it, or it was there only for a moment
      std::optional<Attributes> there = WARREN_TRY(find_shown(overlay_.base, change.place));
      if (is_behind || !there || !is_as_recorded(*there, *change.seen)) found.push_back(change.path);
      continue;
    }
    std::string name = change.path.substr(1);
    std::string at_start = WARREN_TRY(version_in(pinned->head, name));
    if (at_start.empty()) continue;  // the start did not have it
    std::string hashed = WARREN_TRY(joined_.ask_with({"hash-object", "--stdin", "--path", name}, *seen));
    if (shared.empty()) shared = WARREN_TRY(list_shared_commits(overlay_, *pinned, joined_, head_, "HEAD"));
    bool is_known = false;
    for (const std::string& commit : shared) {
      std::string version = WARREN_TRY(version_in(commit, name));
      is_known = version == hashed;
      if (is_known) break;
    }
    if (!is_known) found.push_back(change.path);
  }
  return found;
}

// Of the files that others have changed between the start and `common`, a commit that is in the agent's history.
Result<std::vector<std::string>> CommitImport::list_reverted(const std::string& common) {
  std::vector<std::string> reverted;
  if (common == start_) return reverted;
  if (!WARREN_TRY(joined_.succeeds({"merge-base", "--is-ancestor", start_, common}))) return reverted;
  std::vector<CommittedFile> files = WARREN_TRY(list_changed_by_both(joined_, start_, common, head_));
  std::vector<std::vector<std::string>> looked_at;
  for (const CommittedFile& file : files)
    looked_at.push_back(file.needs_content() ? std::vector{file.start, file.newer, file.own} : BlobIds());
  std::vector<const CommittedFile*> removed;
  WARREN_TRY(visit_blobs(joined_, looked_at, limits::kPatchFileBytes, [&](std::size_t i, const BlobTexts& texts) {
    const CommittedFile& file = files[i];
    bool is_whole = file.needs_content() ? contains_newer(texts) : file.contains_newer_by_ids();
    if (!is_whole && file.own.empty()) removed.push_back(&file);
    else if (!is_whole) reverted.push_back("/" + file.name);
    return Status(Ok{});
  }));
  if (!removed.empty()) {
    // What the commit still had that brought the newer work, the agent has seen before it removed it.
    std::string arrival = WARREN_TRY(find_arrival(common));
    std::unordered_set<std::string> never_there;
    if (!arrival.empty()) never_there = WARREN_TRY(list_deleted(joined_, common, arrival));
    for (const CommittedFile* file : removed) {
      if (arrival.empty() || never_there.contains(file->name)) reverted.push_back("/" + file->name);
    }
  }
  std::sort(reverted.begin(), reverted.end());
  return reverted;
}

// The commit with which the agent's HEAD got to contain another one, by its log, if git wrote the files, too, or if it
// is that one itself, which the agent has made: what that commit has and a later one removes, the agent has seen. "" if
// it was otherwise, for example a reset, or is not known.
Result<std::string> CommitImport::find_arrival(const std::string& common) {
  constexpr std::size_t kEntriesMax = 200;
  std::vector<LogEntry> log = read_git_log(overlay_.merged, "/.git/logs/HEAD");
  bool is_known = !log.empty() && log.back().to == head_;
  if (!is_known) return std::string();
  std::size_t count = 0;
  for (auto entry = log.rbegin(); entry != log.rend() && count < kEntriesMax; ++entry, ++count) {
    bool had_it = WARREN_TRY(joined_.succeeds({"merge-base", "--is-ancestor", common, entry->from}));
    if (had_it) continue;
    bool has_made = entry->to == common && makes_commit(*entry);
    return writes_files(*entry) || has_made ? entry->to : std::string();
  }
  return std::string();
}

// What the work tree shows as it was committed is the base's. What it shows otherwise, the agent has taken back, if it
// has touched it; else the base has changed since, unless it has what the agent made of it later, by an apply.
Result<CommitImport::Beyond> CommitImport::sort_candidates(const std::unordered_map<std::string, Candidate>& candidates,
                                                           bool is_base_behind) {
  Beyond beyond;
  if (candidates.empty()) return beyond;
  std::unordered_set<std::string> dirty = WARREN_TRY(list_dirty_candidates(candidates));
  AppliedFiles applied = list_applied_files(overlay_);
  for (const auto& [name, one] : candidates) {
    std::string path = "/" + name;
    bool is_as_committed = one.status == 'D' ? !one.shown : one.shown && !dirty.contains(name);
    bool is_own = one.status == 'A' && !one.shown;  // on another branch, the base may have shown it for a moment
    if (is_own && is_base_behind) is_own = !WARREN_TRY(has_in_base(name));
    if (!is_own) is_own = WARREN_TRY(was_touched(overlay_, path));
    bool has_removed_it = is_own && one.status == 'D' && is_as_committed;  // itself, whatever the base has
    if (has_removed_it || (!is_own && applied.is_as_written(path, one.shown))) continue;
    bool is_harmless = is_as_committed && !is_base_behind;
    if (is_harmless && (is_own || applied.paths.contains(path))) continue;
    bool is_users = is_harmless && WARREN_TRY(is_as_at_start(path));
    std::vector<std::string>& others = is_users ? beyond.uncommitted : beyond.foreign;
    (is_own && !is_as_committed ? beyond.taken_back : others).push_back(std::move(path));
  }
  for (auto* paths : {&beyond.foreign, &beyond.taken_back, &beyond.uncommitted})
    std::sort(paths->begin(), paths->end());
  beyond.untracked = WARREN_TRY(list_untracked(beyond.uncommitted));
  return beyond;
}

// Of files in directories that the agent has renamed back, the names in the commits: a merge removes the old names,
// which the session shows from the base. If the new ones stayed removed in the session, the next apply would remove all
// there is. The old names are not work of others either, unless somebody has changed these files.
Status CommitImport::leave_out_renamed_back(Beyond& beyond) {
  std::unordered_set<std::string> removed;
  for (const std::string& path : beyond.taken_back) {
    if (!WARREN_TRY(find_shown(overlay_.merged, path))) removed.insert(path.substr(1));
  }
  if (removed.empty()) return Ok{};
  Renames renamed = WARREN_TRY(list_renamed(joined_, from_, head_));
  std::unordered_set<std::string> back;
  std::vector<std::string> old_names;
  for (const auto& [from, to] : renamed) {
    if (!removed.contains(to)) continue;
    std::optional<Attributes> shown = WARREN_TRY(find_shown(overlay_.merged, "/" + from));
    std::optional<Attributes> own = WARREN_TRY(find_shown(overlay_.upper.fs(), "/" + from));
    if (!shown || own) continue;
    back.insert("/" + to);
    old_names.push_back(from);
  }
  std::erase_if(beyond.taken_back, [&](const std::string& path) { return back.contains(path); });
  if (old_names.empty() || !WARREN_TRY(has_head(base_))) return Ok{};
  std::unordered_set<std::string> changed = WARREN_TRY(list_uncommitted(old_names));
  std::string committed =
      WARREN_TRY(joined_.ask({"diff-tree", "-r", "-z", "--name-only", "--no-renames", from_, "HEAD"}));
  for (std::string& name : split_at_nul(committed)) changed.insert(std::move(name));
  std::unordered_set<std::string> unchanged;
  for (const std::string& name : old_names) {
    if (!changed.contains(name)) unchanged.insert("/" + name);
  }
  std::erase_if(beyond.foreign, [&](const std::string& path) { return unchanged.contains(path); });
  return Ok{};
}

std::unordered_set<std::string> list_known_applied(const AgentOverlay& overlay) {
  return list_applied_files(overlay).paths;
}

Result<std::unordered_set<std::string>> CommitImport::list_applied() {
  std::unordered_set<std::string> applied = list_known_applied(overlay_);
  auto unit = WARREN_TRY(overlay_.upper.begin(UnitAccess::kRead));
  std::vector<std::string> paths = WARREN_TRY(list_applied_paths(overlay_.upper));
  applied.insert(paths.begin(), paths.end());
  return applied;
}

// Those that the base's index does not have. None before the first commit: then no file is tracked yet.
Result<std::vector<std::string>> CommitImport::list_untracked(const std::vector<std::string>& paths) {
  std::vector<std::string> untracked;
  if (paths.empty() || !WARREN_TRY(has_head(base_))) return untracked;
  std::string listed = WARREN_TRY(base_.ask({"ls-files", "-z"}));
  std::vector<std::string> names = split_at_nul(listed);
  std::unordered_set<std::string> tracked(names.begin(), names.end());
  for (const std::string& path : paths) {
    if (!tracked.contains(path.substr(1))) untracked.push_back(path);
  }
  return untracked;
}

// Whether the base's repository has the content of a file in the agent's HEAD, in any commit.
Result<bool> CommitImport::has_in_base(const std::string& name) {
  std::string id = WARREN_TRY(joined_.ask({"rev-parse", "--verify", "--quiet", head_ + ":" + name}));
  return base_.succeeds({"cat-file", "-e", id});
}

// Whether the base's file is still the one that the session found: the user's own uncommitted work, say, which the
// agent was to commit.
// Unknown without a pinned state: then yes, since a merge brings nothing that the base does not have.
Result<bool> CommitImport::is_as_at_start(const std::string& path) {
  std::optional<PinnedGit> pinned = WARREN_TRY(find_pinned_git(overlay_));
  std::optional<Attributes> node = WARREN_TRY(find_shown(overlay_.base, path));
  return !pinned || (node && is_surely_older(node->ctime, pinned->begun));
}

Result<std::unordered_set<std::string>> CommitImport::list_dirty_candidates(
    const std::unordered_map<std::string, Candidate>& candidates) {
  std::string work = scratch_.path() + "/beyond";
  WARREN_TRY(make_host_dirs(work, 0700));
  auto host = WARREN_TRY(HostTree::open(work));
  for (const auto& [name, one] : candidates) {
    if (!one.shown) continue;
    WARREN_TRY(write_for_git(overlay_, {.path = "/" + name, .node = *one.shown}, *host, name, std::nullopt));
  }
  return list_unlike_head(work);
}

Status keep_removed_after_commit(const AgentOverlay& overlay, const std::vector<std::string>& paths) {
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kWrite));
  for (const std::string& path : paths) {
    bool is_removed = !WARREN_TRY(find_shown(overlay.merged, path))
    &&!WARREN_TRY(overlay.upper.find_removed(path));
    if (is_removed) WARREN_TRY(overlay.upper.add_whiteout(kRootInode, path, {.mode = S_IFREG}, path));
  }
  return unit->commit();
}

}  // namespace warren
