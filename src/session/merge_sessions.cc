#include "session/merge_sessions.h"

#include <fmt/format.h>

#include "agent/agent_state.h"
#include "agent/copies/create.h"
#include "agent/locate.h"
#include "agent/record/audit_trail.h"
#include "agent/sessions.h"
#include "base/path.h"
#include "changes/pinned/pinned_git.h"
#include "changes/review/session_diff.h"
#include "changes/upper/open_overlay.h"
#include "changes/upper/upper_edit.h"
#include "session/session_walls.h"

namespace warren {
namespace {

Result<OverlayAgent> open_side(const std::string& id, Clock& clock) {
  AgentOptions how{.id_or_path = id, .mode = OpenMode::kReadOnly};
  how.caller = {.agent = {}, .space = Space::kKernel, .door = "merge", .session = {}};
  how.may_record = true;
  OverlayAgent opened = WARREN_TRY(open_overlay(how, clock));
  WARREN_TRY(refuse_interrupted(*opened.agent, id));
  return opened;
}

Result<SessionDir> make_dir_for(const MergeSessions& request, const std::string& id) {
  const char* hint = request.into ? "choose another name" : "--into NAME chooses another name";
  WARREN_TRY(check_agent_id(id));
  SessionDir session = WARREN_TRY(SessionDir::open(id));
  if (WARREN_TRY(session.is_new())) return session;
  return Error(Code::kExists, fmt::format("session {} exists already", quote(id)), hint);
}

// The new session is encrypted as the first one is.
Status check_keys(Agent& first, Agent& second) {
  bool is_lost = second.store().database().key() && !first.store().database().key();
  if (!is_lost) return Ok{};
  return Error(Code::kDenied,
               fmt::format("{} is encrypted, and what is merged into a copy of {} would not be", quote(second.id()),
                           quote(first.id())),
               "name the encrypted one first, or encrypt both");
}

// What an apply left for the programs of a running session goes: they do not use the copy. What was frozen for them
// does, too; the next run freezes again, and leaves out what is hidden from it.
Status drop_untouched_in(const std::string& draft, Clock& clock) {
  auto agent = WARREN_TRY(Agent::open({.id_or_path = draft}, clock));
  drop_untouched(*agent).ignore("what is left hides the base, but loses nothing");
  return agent->close();
}

Result<bool> have_same_start(const AgentOverlay& first, const AgentOverlay& second) {
  std::optional<PinnedGit> one = WARREN_TRY(find_pinned_git(first));
  std::optional<PinnedGit> other = WARREN_TRY(find_pinned_git(second));
  return one && other && one->head == other->head;
}

// The base may have another commit checked out than the one that both sessions have started from, and still stand on.
Status freeze_draft(const std::string& draft, Clock& clock) {
  ToServe opened = WARREN_TRY(open_to_serve({.id_or_path = draft}, clock));
  WARREN_TRY(opened.agent->close());
  if (opened.warning.empty()) return Ok{};
  return Error(Code::kConflict, opened.warning, "check out the commit that the sessions have started from");
}

Status merge_copy(const std::string& draft, const OverlayAgent& first, const OverlayAgent& second,
                  const SessionMergeOptions& options, SessionMerge& report, Clock& clock) {
  WARREN_TRY(drop_untouched_in(draft, clock));
  if (WARREN_TRY(have_same_start(first.overlay, second.overlay))) WARREN_TRY(freeze_draft(draft, clock));
  OverlayAgent copy = WARREN_TRY(open_overlay({.id_or_path = draft, .commits = Commits::kGrouped}, clock));
  report = WARREN_TRY(merge_into(copy.overlay, second.overlay, options));
  if (options.on_conflict == OnMergeConflict::kReport && !report.conflicts.empty())
    return Error(Code::kConflict, "both have changed the same files");
  WARREN_TRY(empty_log_of(*copy.agent));  // the log has the draft's name
  WARREN_TRY(copy.agent->close());
  copy.agent.reset();
  return drop_untouched_in(draft, clock);
}

// What either of them was not to reach. Agents that are not sessions have none.
Status keep_walls(const OverlayAgent& first, const OverlayAgent& second, const SessionDir& session) {
  SessionWalls one = WARREN_TRY(load_walls(std::string(split_parent(first.agent->path()).parent)));
  SessionWalls other = WARREN_TRY(load_walls(std::string(split_parent(second.agent->path()).parent)));
  SessionWalls both = join_walls(one, other);
  return both == SessionWalls{} ? Status(Ok{}) : store_walls(session.path(), both);
}

}  // namespace

Result<MergedSessions> merge_sessions(const MergeSessions& request, Clock& clock) {
  OverlayAgent first = WARREN_TRY(open_side(request.first, clock));
  OverlayAgent second = WARREN_TRY(open_side(request.second, clock));
  if (first.agent->path() == second.agent->path())
    return Error(Code::kInvalid, fmt::format("{} cannot be merged with itself", quote(first.agent->id())));
  WARREN_TRY(check_keys(*first.agent, *second.agent));
  WARREN_TRY(check_same_base(first.overlay, second.overlay));
  MergedSessions merged{.id = {}, .first = first.agent->id(), .second = second.agent->id(), .report = {}};
  merged.id = request.into.value_or(merged.first + "-" + merged.second);
  SessionDir session = WARREN_TRY(make_dir_for(request, merged.id));
  Fd held = WARREN_TRY(session.lock());
  if (!WARREN_TRY(session.is_new()))
    return Error(Code::kExists, fmt::format("session {} exists already", quote(merged.id)));
  remove_drafts(session.file());  // of a merge that was killed: the lock is ours
  SessionMergeOptions options{.first = merged.first, .second = merged.second, .on_conflict = request.on_conflict};
  Status done = session.set_base(first.overlay.base_path);
  if (done.ok()) done = keep_walls(first, second, session);
  if (done.ok()) done = record_reading(*first.agent, "merge", {}, session.file());
  if (done.ok()) done = record_reading(*second.agent, "merge", {}, session.file());
  if (done.ok()) {
    done = copy_agent(
        *first.agent, session.file(),
        [&](const std::string& draft) { return merge_copy(draft, first, second, options, merged.report, clock); },
        clock);
  }
  if (!done.ok()) {
    session.remove().ignore("the first error is the one to report");
    bool is_reported = request.on_conflict == OnMergeConflict::kReport && !merged.report.conflicts.empty();
    if (is_reported && done.error().code() == Code::kConflict) return merged;
    return std::move(done).take_error();
  }
  merged.is_made = true;
  WARREN_TRY(record_afterwards(session.file(), "merge", std::nullopt, clock)
                 .within(fmt::format("the session {} is made, but", quote(merged.id))));
  return merged;
}

}  // namespace warren
