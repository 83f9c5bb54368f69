#include "changes/undo/keep_parts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <sys/stat.h>

#include "agent/sessions.h"
#include "base/limits.h"
#include "base/path.h"
#include "changes/undo/undone_changes.h"
#include "changes/upper/open_overlay.h"
#include "fs/overlay/base_moves.h"
#include "fs/overlay/recorded.h"
#include "fs/overlay/upper_layer.h"

namespace warren {
namespace {

constexpr std::uint64_t kPartsAtOnce = std::uint64_t{4} << 20;  // in one transaction: the agent's programs wait for it

// The files of the base that the steps take away.
class LeavingFiles {
 public:
  explicit LeavingFiles(const Intent& intent) {
    std::unordered_set<std::uint64_t> returning;  // slots
    for (const Step& step : intent.steps) {
      if (step.kind == StepKind::kPutIn) returning.insert(step.slot);
    }
    for (const Step& step : intent.steps) {
      bool is_replaced = step.kind == StepKind::kReplace || step.kind == StepKind::kOverwrite;
      bool is_removed = step.kind == StepKind::kTakeOut && !returning.contains(step.slot);
      if (is_replaced) nodes_.insert(step.old_node.inode);
      if (is_replaced || is_removed) add(step);
    }
  }

  // If not, no agent has to be opened.
  bool may_have_large() const { return may_have_large_; }

  bool has(const Origin& origin) const {
    if (nodes_.contains(origin.seen->inode.value & ~kBaseBit))
      return true;  // under an older name, or under another one
    for (std::string_view at = origin.base_path; at.size() > 1; at = split_parent(at).parent) {
      if (paths_.contains(std::string(at))) return true;
    }
    return false;
  }

 private:
  void add(const Step& step) {
    paths_.insert(step.path);
    may_have_large_ |= S_ISDIR(step.old_node.type) || step.old_node.size > limits::kCopyWholeBytes;
  }

  std::unordered_set<std::uint64_t> nodes_;
  std::unordered_set<std::string> paths_;
  bool may_have_large_ = false;
};

Result<std::vector<Origin>> list_large(UpperLayer& upper) {
  auto unit = WARREN_TRY(upper.begin(UnitAccess::kRead));
  std::vector<Origin> rows = WARREN_TRY(upper.list_origins());
  std::erase_if(rows, [](const Origin& row) {
    bool may_have_parts = row.seen && row.seen->is_file() && row.seen->size > limits::kCopyWholeBytes;
    return row.base_path.empty() || !may_have_parts || is_frozen_number(row.seen->inode);
  });
  return rows;
}

Status copy_part(const AgentOverlay& overlay, Inode from, ByteRange range, Inode to) {
  std::string part;
  for (std::uint64_t at = range.begin; at < range.end; at += part.size()) {
    part.resize(std::min<std::uint64_t>(limits::kCopyBytes, range.end - at));
    part.resize(WARREN_TRY(overlay.base.read(from, at, as_mutable_bytes(part))));
    if (part.empty()) return Error(Code::kConflict, "the file has just become shorter in the base");
    bool is_hole = part.find_first_not_of('\0') == part.npos;
    if (!is_hole) WARREN_TRY(overlay.upper.fs().write(to, at, as_bytes(part)));
  }
  return Ok{};
}

// Returns whether more is left. What the base no longer has as the agent saw it is not ours to lose.
Result<bool> keep_some(const AgentOverlay& overlay, const Origin& origin) {
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kWrite));
  Result<Attributes> own = overlay.upper.fs().get_attributes(origin.upper);
  if (!own.ok() || is_as_recorded(*own, *origin.seen)) return false;  // an untouched copy follows the base
  std::vector<ByteRange> ranges = WARREN_TRY(overlay.upper.list_base_ranges(origin.upper));
  if (ranges.empty()) return false;
  std::optional<Attributes> now = WARREN_TRY(find_in_tree(overlay.base, origin.base_path));
  const Attributes& seen = *origin.seen;
  bool is_there = now && now->inode == seen.inode && now->size == seen.size && now->mtime == seen.mtime;
  if (!is_there) return false;
  ByteRange part{ranges.front().begin, std::min(ranges.front().end, ranges.front().begin + kPartsAtOnce)};
  WARREN_TRY(overlay.upper.reserve(part.end - part.begin));
  WARREN_TRY(copy_part(overlay, now->inode, part, origin.upper));
  ranges.front().begin = part.end;
  if (ranges.front().begin == ranges.front().end) ranges.erase(ranges.begin());
  WARREN_TRY(overlay.upper.restore(origin.upper, *own));
  WARREN_TRY(overlay.upper.set_base_ranges(origin.upper, ranges));
  WARREN_TRY(unit->commit());
  return !ranges.empty();
}

Status keep_parts_of(OverlayAgent& opened, const ApplyRecord& record, const LeavingFiles& leaving) {
  if (opened.overlay.base_path != record.base) return Ok{};
  std::vector<Origin> large = WARREN_TRY(list_large(opened.overlay.upper));
  for (const Origin& origin : large) {
    if (!leaving.has(origin)) continue;
    Result<bool> is_left = true;
    while (is_left.ok() && *is_left) is_left = keep_some(opened.overlay, origin);
    if (is_left.ok()) continue;
    return std::move(is_left)
        .take_error()
        .within("copy to the session what it reads from " + quote(origin.base_path))
        .with_hint("`warren discard` drops the session's changes to that file");
  }
  return opened.agent->close();
}

// One that cannot be opened stops nothing: it belongs to another agent, and may be damaged.
Status keep_parts_of_session(const SessionInfo& session, const ApplyRecord& record, const LeavingFiles& leaving,
                             Clock& clock) {
  std::optional<std::string> file = WARREN_TRY(find_session_file(session.id));
  if (!file || *file == record.agent) return Ok{};
  Result<OverlayAgent> opened = open_overlay(*file, OpenMode::kReadWrite, clock);
  if (!opened.ok()) return Ok{};
  return keep_parts_of(*opened, record, leaving).within("session " + quote(session.id));
}

}  // namespace

Status keep_parts(const ApplyRecord& undo, Clock& clock) {
  if (WARREN_TRY(has_its_agent(undo, clock))) {
    OverlayAgent opened = WARREN_TRY(open_overlay(undo.agent, OpenMode::kReadWrite, clock));
    WARREN_TRY(keep_parts_of(opened, undo, LeavingFiles(*undo.intent)));
  }
  return keep_parts_of_others(undo, clock);
}

Status keep_parts_of_others(const ApplyRecord& apply, Clock& clock) {
  LeavingFiles leaving(*apply.intent);
  if (!leaving.may_have_large()) return Ok{};
  std::vector<SessionInfo> sessions = WARREN_TRY(list_sessions());
  for (const SessionInfo& session : sessions) {
    if (session.base == apply.base) WARREN_TRY(keep_parts_of_session(session, apply, leaving, clock));
  }
  return Ok{};
}

}  // namespace warren
