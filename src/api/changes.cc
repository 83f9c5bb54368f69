#include <warren/v1/changes.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "agent/record/audit_trail.h"
#include "agent/sessions.h"
#include "base/clock.h"
#include "base/path.h"
#include "changes/apply/apply.h"
#include "changes/apply/apply_record.h"
#include "changes/apply/permission.h"
#include "changes/apply/resolve.h"
#include "changes/filter.h"
#include "changes/git/git_folder.h"
#include "changes/needs.h"
#include "changes/pinned/git_under_way.h"
#include "changes/review/patch.h"
#include "changes/review/remarks.h"
#include "changes/selection.h"
#include "changes/undo/discard.h"
#include "changes/upper/open_overlay.h"
#include "os/files/host_files.h"

namespace warren::v1 {
namespace {

constexpr std::size_t kPatchBytes = std::size_t{256} << 20;
constexpr std::size_t kNamedFiles = 5;  // in an error

ChangeKind public_of(TreeChangeKind kind) {
  switch (kind) {
    case TreeChangeKind::kDeleted: return ChangeKind::kDeleted;
    case TreeChangeKind::kRenamed: return ChangeKind::kRenamed;
    case TreeChangeKind::kAdded: return ChangeKind::kAdded;
    case TreeChangeKind::kModified: break;
  }
  return ChangeKind::kModified;
}

NodeType type_of(const warren::Attributes& node) {
  if (node.is_file()) return NodeType::kFile;
  if (node.is_directory()) return NodeType::kDirectory;
  return node.is_symlink() ? NodeType::kLink : NodeType::kOther;
}

Change public_of(const TreeChange& change) {
  Change out{.kind = public_of(change.kind), .type = type_of(change.node()), .path = change.path};
  if (change.kind == TreeChangeKind::kRenamed) out.from = change.base_path;
  if (change.after && change.after->is_file()) out.size_bytes = change.after->size;
  out.is_content_changed = change.is_content_changed;
  out.is_metadata_changed = change.is_metadata_changed;
  return out;
}

std::vector<Change> public_of(const std::vector<TreeChange>& changes) {
  std::vector<Change> out;
  for (const TreeChange& change : changes) out.push_back(public_of(change));
  return out;
}

// Changes as users of the API see them, and the patterns that select among them.
struct Chosen {
  std::vector<std::string> patterns;
  ChangeFilter filter;
  std::vector<TreeChange> all;     // not yet filtered
  std::vector<TreeChange> in_git;  // left out of them
};

Result<Chosen> choose(const AgentOverlay& overlay, const std::vector<std::string>& paths,
                      const std::vector<std::string>& excluded) {
  Chosen out;
  out.patterns = WARREN_TRY(resolve_patterns(paths, overlay.base_path, overlay.base_path));
  out.all = WARREN_TRY(list_changes(overlay));
  out.filter = filter_of(with_exact_names(out.patterns, out.all), excluded);
  leave_out_agent_folders(out.all, out.patterns);
  out.in_git = WARREN_TRY(leave_out_git(overlay, out.all, out.patterns));
  return out;
}

Result<std::vector<TreeChange>> list_chosen(const AgentOverlay& overlay, const ChangesFilter& filter) {
  Chosen chosen = WARREN_TRY(choose(overlay, filter.paths, filter.excluded));
  WARREN_TRY(check_paths(overlay, chosen.patterns, chosen.all));
  Selection selection(chosen.all);
  selection.take_if(chosen.filter);
  return selection.list();
}

// Whether somebody has agreed that the agent may change its base.
Status check_base(const AgentOverlay& overlay, const ApplyOptions& options) {
  std::optional<std::string> doubt = WARREN_TRY(find_doubt(overlay));
  if (!doubt) return Ok{};
  if (options.trusted_base.empty()) {
    return Error(Code::kDenied, fmt::format("nothing was written to {}: {}", quote(overlay.base_path), *doubt),
                 "if the changes belong there, set ApplyOptions::trusted_base");
  }
  std::string trusted = WARREN_TRY(canonical_host_path(options.trusted_base));
  std::string base = WARREN_TRY(canonical_host_path(overlay.base_path));
  if (trusted != base) {
    return Error(Code::kDenied, fmt::format("the base of this agent is {}, not {}", quote(base), quote(trusted)));
  }
  return options.rehearse == Rehearse::kYes ? Status(Ok{}) : agree_to_base(overlay);
}

Status check_self_running(const AgentOverlay& overlay, const std::vector<TreeChange>& changes) {
  const char* hint = "look at the changes; then set ApplyOptions::self_running, or name the other changes";
  if (is_home_directory(overlay.base_path)) {
    return Error(Code::kDenied,
                 "nothing was written: in the home directory, shells and other programs run much of what they find",
                 hint);
  }
  std::vector<SelfRunningFile> files = WARREN_TRY(list_self_running(overlay, changes));
  if (files.empty()) return Ok{};
  std::vector<std::string> named;
  for (std::size_t i = 0; i < files.size() && i < kNamedFiles; ++i) named.push_back(quote(files[i].path));
  return Error(Code::kDenied,
               fmt::format("nothing was written: {}{} may run the next time somebody works in the base",
                           fmt::join(named, ", "), files.size() > named.size() ? " and others" : ""),
               hint);
}

ConflictPolicy policy_of(OnConflict how) {
  if (how == OnConflict::kMerge) return ConflictPolicy::kMerge;
  return how == OnConflict::kMark ? ConflictPolicy::kMark : ConflictPolicy::kKeep;
}

Result<OverlayAgent> open_for_apply(const std::string& id, const ApplyOptions& options, Clock& clock) {
  if (options.rehearse == Rehearse::kYes) {
    OverlayAgent opened = WARREN_TRY(open_overlay(id, OpenMode::kReadOnly, clock));
    WARREN_TRY(refuse_interrupted(*opened.agent, id));
    return opened;
  }
  RecoveredAgent recovered = WARREN_TRY(open_and_recover(id, clock));
  return std::move(recovered.opened);
}

// Files with conflict markers that the session's git has left in them.
Status add_unmerged(const AgentOverlay& overlay, const std::vector<TreeChange>& in_git,
                    const std::vector<TreeChange>& changes, ApplyResult& result) {
  std::optional<GitUnderWay> git = WARREN_TRY(find_git_under_way(overlay, in_git));
  if (!git) return Ok{};
  for (const TreeChange& change : changes) {
    bool is_unmerged = std::find(git->unmerged.begin(), git->unmerged.end(), change.path) != git->unmerged.end();
    if (is_unmerged) result.conflicts.push_back({change.path, "it has unresolved merge conflicts in the session"});
  }
  return Ok{};
}

// The changes that are wanted, with what they need in the base.
Result<std::vector<TreeChange>> list_applied(const AgentOverlay& overlay, const ApplyOptions& options,
                                             ApplyResult& result) {
  Chosen chosen = WARREN_TRY(choose(overlay, options.paths, options.excluded));
  WARREN_TRY(check_patterns(chosen.patterns, chosen.all));
  Selection selection(chosen.all);
  selection.take_if(chosen.filter);
  std::vector<std::string> left;
  if (!options.excluded.empty()) {
    for (const Needs::Dependent& one : leave_with_excluded(chosen.all, filter_of({}, options.excluded), selection)) {
      std::string why = one.change == one.because ? "one of its two names is excluded"
                                                  : fmt::format("it is not possible without {}, which is excluded",
                                                                quote(chosen.all[one.because].path));
      left.push_back(fmt::format("{} is left: {}", quote(chosen.all[one.change].path), why));
    }
  }
  selection.complete_for_apply();
  std::vector<TreeChange> changes = selection.list();
  WARREN_TRY(check_git_files(overlay, changes));
  result.notes = leave_out_devices(changes, {});
  result.notes.insert(result.notes.end(), left.begin(), left.end());
  if (options.on_conflict != OnConflict::kTakeAgent) WARREN_TRY(add_unmerged(overlay, chosen.in_git, changes, result));
  return changes;
}

// Decides about conflicts. False: there are some left, and nothing is to be written.
Result<bool> settle_conflicts(const AgentOverlay& overlay, const std::vector<TreeChange>& changes, OnConflict how,
                              MergedContents& contents, ApplyResult& result) {
  if (how == OnConflict::kTakeAgent) return true;
  ResolvedConflicts resolved = WARREN_TRY(resolve_conflicts(overlay, changes, policy_of(how), contents));
  for (ApplyConflict& one : resolved.left) result.conflicts.push_back({std::move(one.path), std::move(one.why)});
  if (!result.conflicts.empty()) return false;
  result.merged = std::move(resolved.merged);
  result.marked = std::move(resolved.marked);
  return true;
}

}  // namespace

Result<std::vector<Session>> list_sessions() {
  std::vector<SessionInfo> all = WARREN_TRY(warren::list_sessions());
  std::stable_sort(all.begin(), all.end(), was_used_later);
  std::vector<Session> out;
  for (SessionInfo& one : all) {
    std::string dir = WARREN_TRY(path_of_session(one.id));
    out.push_back({.id = std::move(one.id),
                   .file = session_file(dir),
                   .base = std::move(one.base),
                   .used_at = one.used_at,
                   .size_bytes = one.size_bytes,
                   .is_running = one.is_running});
  }
  return out;
}

Status rename_session(const std::string& from, const std::string& to) { return warren::rename_session(from, to); }

Status delete_session(const std::string& id) {
  if (std::optional<std::string> file = WARREN_TRY(find_session_file(id))) WARREN_TRY(check_none_unfinished(*file, id));
  return warren::delete_session(id);
}

namespace {

// With the reading on the record, if the agent has an audit trail.
Result<OverlayAgent> open_to_read(const std::string& id, const std::vector<std::string>& paths, Clock& clock) {
  warren::AgentOptions options{.id_or_path = id, .mode = OpenMode::kReadOnly};
  options.caller = {.agent = {}, .space = warren::Space::kKernel, .door = "library", .session = {}};
  options.may_record = true;
  OverlayAgent opened = WARREN_TRY(open_overlay(options, clock));
  WARREN_TRY(record_reading(*opened.agent, "diff", paths));
  return opened;
}

}  // namespace

struct Changes::State {
  SystemClock clock;
  std::string id;
  std::string base;
};

Changes::Changes(std::unique_ptr<State> state) : state_(std::move(state)) {}

Changes::~Changes() = default;

Result<std::unique_ptr<Changes>> Changes::open(const ChangesOptions& options) {
  auto state = std::make_unique<State>();
  state->id = options.id;
  OverlayAgent opened = WARREN_TRY(open_overlay(state->id, OpenMode::kReadOnly, state->clock));
  state->base = opened.overlay.base_path;
  return std::unique_ptr<Changes>(new Changes(std::move(state)));
}

const std::string& Changes::base() const { return state_->base; }

Result<std::vector<Change>> Changes::list(const ChangesFilter& filter) {
  OverlayAgent opened = WARREN_TRY(open_to_read(state_->id, filter.paths, state_->clock));
  std::vector<TreeChange> changes = WARREN_TRY(list_chosen(opened.overlay, filter));
  std::vector<Change> out = public_of(changes);
  auto view = WARREN_TRY(opened.overlay.upper.begin(UnitAccess::kRead));
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Remarks remarks = WARREN_TRY(remarks_of(opened.overlay, changes[i]));
    out[i].remarks = remarks.list();
  }
  return out;
}

Result<std::string> Changes::patch(const ChangesFilter& filter) {
  OverlayAgent opened = WARREN_TRY(open_to_read(state_->id, filter.paths, state_->clock));
  auto view = WARREN_TRY(opened.overlay.upper.begin(UnitAccess::kRead));  // what is listed is still there for the patch
  std::vector<TreeChange> changes = WARREN_TRY(list_chosen(opened.overlay, filter));
  std::string whole;
  WARREN_TRY(write_patch(opened.overlay, changes, [&](std::string_view text) -> Status {
    if (whole.size() + text.size() > kPatchBytes) {
      return Error(Code::kTooLarge, fmt::format("the patch is larger than {} bytes", kPatchBytes),
                   "select fewer changes");
    }
    whole += text;
    return Ok{};
  }));
  return whole;
}

Result<ApplyResult> Changes::apply(const ApplyOptions& options) {
  OverlayAgent opened = WARREN_TRY(open_for_apply(state_->id, options, state_->clock));
  const AgentOverlay& overlay = opened.overlay;
  ApplyResult result;
  std::vector<TreeChange> changes = WARREN_TRY(list_applied(overlay, options, result));
  if (changes.empty()) return result;
  WARREN_TRY(check_base(overlay, options));
  warren::ApplyOptions how{.named = names_in(options.paths), .label = state_->id};
  how.may_have_conflicts = options.on_conflict == OnConflict::kTakeAgent;
  if (!WARREN_TRY(settle_conflicts(overlay, changes, options.on_conflict, how.contents, result))) return result;
  if (options.self_running == SelfRunning::kRefuse) WARREN_TRY(check_self_running(overlay, changes));
  if (options.rehearse == Rehearse::kYes) {
    WARREN_TRY(rehearse_apply(overlay, changes, how));
  } else {
    ApplyReport report = WARREN_TRY(apply_changes(*opened.agent, changes, how));
    result.notes.insert(result.notes.end(), report.notes.begin(), report.notes.end());
    for (const std::string& path : report.changed_since) {
      result.notes.push_back(fmt::format("the agent changed {} again during the apply", quote(path)));
    }
    for (const std::string& path : report.left_out) {
      result.notes.push_back(fmt::format("the agent removed or replaced {} meanwhile: it is left out", quote(path)));
    }
    result.can_be_undone = report.can_be_undone;
  }
  result.applied = public_of(changes);
  return result;
}

Result<std::vector<Change>> Changes::discard(const ChangesFilter& filter) {
  RecoveredAgent recovered = WARREN_TRY(open_and_recover(state_->id, state_->clock));
  const AgentOverlay& overlay = recovered.opened.overlay;
  std::vector<std::string> patterns = WARREN_TRY(resolve_patterns(filter.paths, overlay.base_path, overlay.base_path));
  std::vector<TreeChange> all = WARREN_TRY(list_changes(overlay));
  WARREN_TRY(check_patterns(patterns, all));
  patterns = with_exact_names(std::move(patterns), all);
  std::vector<TreeChange> dropped =
      WARREN_TRY(discard_changes(overlay, filter_of(patterns, filter.excluded), recovered.opened.agent.get()));
  return public_of(dropped);
}

}  // namespace warren::v1
