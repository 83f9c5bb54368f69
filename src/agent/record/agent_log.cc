#include "agent/record/agent_log.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "agent/checkpoints/checkpoints.h"
#include "agent/copies/draft_name.h"
#include "agent/record/audit_trail.h"
#include "agent/record/journal_log.h"
#include "base/below.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

struct OpWords {
  std::string_view op;
  std::string_view done;
  std::string_view infinitive;
};
constexpr std::array<OpWords, 36> kOpWords{
    {{"read", "read", "read"},
     {"list", "listed", "list"},
     {"query", "searched", "search"},
     {"create", "created", "create"},
     {"write", "wrote", "write"},
     {"append", "appended to", "append to"},
     {"allocate", "allocated space in", "allocate space in"},
     {"truncate", "truncated", "truncate"},
     {"copy", "copied", "copy"},
     {"delete", "deleted", "delete"},
     {"mkdir", "made the directory", "make the directory"},
     {"symlink", "made the link", "make the link"},
     {"link", "linked", "link"},
     {"rename", "renamed", "rename"},
     {"xattr", "set attributes of", "set attributes of"},
     {"attributes", "changed mode, owner or times of", "change mode, owner or times of"},
     {"kv_get", "read the key", "read the key"},
     {"kv_list", "listed keys", "list keys"},
     {"kv_set", "set the key", "set the key"},
     {"kv_delete", "removed the key", "remove the key"},
     {"kv_expire", "removed the expired key", "remove the expired key"},
     {"expire", "removed at its expiry", "remove at its expiry"},
     {"quota", "set the quota", "set the quota"},
     {"sql", "ran the statement", "run the statement"},
     {"fsck", "repaired", "repair"},
     {"migrate", "migrated", "migrate"},
     {"backup", "backed up", "back up"},
     {"checkpoint_remove", "removed the checkpoint", "remove the checkpoint"},
     {"checkpoint", "took the checkpoint", "take the checkpoint"},
     {"rotate", "changed the audit key", "change the audit key"},
     {"apply", "applied", "apply"},
     {"discard", "discarded", "discard"},
     {"undo", "undid", "undo"},
     {"restore", "restored", "restore"},
     {"fork", "forked", "fork"},
     {"audit", "switched the audit trail", "switch the audit trail"}}};

std::string verb_of(const AuditEvent& event) {
  auto words = std::ranges::find(kOpWords, event.op, &OpWords::op);
  bool is_known = words != kOpWords.end();
  if (event.ok) return is_known ? std::string(words->done) : event.op;
  return fmt::format("could not {}", is_known ? words->infinitive : std::string_view(event.op));
}

bool is_reading(std::string_view op) {
  constexpr std::array<std::string_view, 6> kReading{"read", "list", "query", "kv_get", "kv_list", "diff"};
  return std::ranges::find(kReading, op) != kReading.end();
}

// Tool calls and checkpoints have tables of their own, with more to say about them.
bool is_listed_elsewhere(const AuditEvent& event) {
  return event.op.starts_with("tool_") || (event.op == "checkpoint" && event.ok);
}

LogEvent event_of(const AuditEvent& event) {
  return {.at_us = event.at_us,
          .source = LogSource::kAudit,
          .who = who_text(event.space, event.door),
          .verb = verb_of(event),
          .subject = event.path,
          .to = event.to,
          .detail = event.ok ? "" : event.err,
          .ok = event.ok,
          .size_bytes = event.size_bytes};
}

// What is written from a stream appears under its own name, once: when its draft gets that name. A draft that could not
// be made or written is named by its directory.
std::optional<LogEvent> shown_event(const AuditEvent& event) {
  LogEvent shown = event_of(event);
  if (!is_draft_path(event.path)) return shown;
  bool is_published = event.op == "rename" && event.to;
  if (event.ok && !is_published) return std::nullopt;
  shown.verb = event.ok ? "wrote" : "could not write";
  shown.subject = is_published ? *event.to : std::string(directory_of(event.path));
  shown.to.reset();
  return shown;
}

// Those among the newest `last` rows, or all; holds not many more than are wanted.
Result<std::vector<LogEvent>> read_trail_events(Agent& agent, const LogFilter& filter,
                                                std::optional<std::size_t> last) {
  AuditFilter wanted;
  wanted.since_us = filter.since_us;
  wanted.path = filter.path;
  std::vector<LogEvent> found;
  WARREN_TRY(read_trail(agent, wanted, last, [&](const AuditRow& row) -> Status {
    const AuditEvent& event = row.event;
    bool is_left_out = is_listed_elsewhere(event) || (event.ok && is_reading(event.op) && !filter.has_reads);
    std::optional<LogEvent> shown = is_left_out ? std::nullopt : shown_event(event);
    if (!shown) return Ok{};
    found.push_back(*std::move(shown));
    bool is_much = filter.limit && found.size() > 2 * *filter.limit + 1000;
    if (is_much) found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(*filter.limit));
    return Ok{};
  }));
  return found;
}

// A name that a file had, and when.
struct FormerName {
  std::string path;
  std::int64_t from_us = std::numeric_limits<std::int64_t>::min();
  std::int64_t until_us = 0;
};

// Newest first.
Result<std::vector<FormerName>> find_former_names(Agent& agent, const std::string& path) {
  AuditFilter renames;
  renames.ops = {"rename"};
  std::vector<AuditEvent> found;
  WARREN_TRY(read_trail(agent, renames, std::nullopt, [&](const AuditRow& row) -> Status {
    bool is_rename = row.event.ok && row.event.to && !is_draft_path(row.event.path);
    if (is_rename) found.push_back(row.event);
    return Ok{};
  }));
  std::vector<FormerName> names;
  std::string now = path;
  for (auto event = found.rbegin(); event != found.rend(); ++event) {
    if (!is_at_or_below(now, *event->to)) continue;
    if (!names.empty()) names.back().from_us = event->at_us;
    now = event->path + now.substr(event->to->size());
    names.push_back({.path = now, .until_us = event->at_us});
  }
  return names;
}

// What happened under each former name while the file had it. Every name is looked for once, at most so many of them.
Status add_former_events(Agent& agent, const LogFilter& filter, std::vector<LogEvent>& found) {
  constexpr std::size_t kFormerNames = 100;
  std::map<std::string, std::vector<FormerName>> by_path;
  for (FormerName& former : WARREN_TRY(find_former_names(agent, *filter.path))) {
    bool has_room = by_path.size() < kFormerNames || by_path.contains(former.path);
    if (former.path != *filter.path && has_room) by_path[former.path].push_back(former);
  }
  using Key = std::tuple<std::int64_t, std::string, std::string>;  // a rename is found by both of its names
  auto key_of = [](const LogEvent& one) { return Key(one.at_us, one.verb, one.subject); };
  std::set<Key> known;
  for (const LogEvent& one : found) known.insert(key_of(one));
  for (const auto& [path, times] : by_path) {
    LogFilter wanted = filter;
    wanted.path = path;
    for (LogEvent& one : WARREN_TRY(read_trail_events(agent, wanted, std::nullopt))) {
      bool is_of_file = std::ranges::any_of(
          times, [&](const FormerName& had) { return had.from_us <= one.at_us && one.at_us <= had.until_us; });
      if (is_of_file && known.insert(key_of(one)).second) found.push_back(std::move(one));
    }
  }
  std::ranges::stable_sort(found, {}, &LogEvent::at_us);
  return Ok{};
}

// The end of a long trail is usually enough.
Status add_trail(Agent& agent, const LogFilter& filter, std::vector<LogEvent>& events) {
  constexpr std::size_t kTailRows = 10'000;
  std::vector<LogEvent> found;
  bool has_all = !filter.limit || filter.path || filter.since_us;
  if (!has_all) found = WARREN_TRY(read_trail_events(agent, filter, kTailRows + *filter.limit));
  if (has_all || found.size() < *filter.limit) found = WARREN_TRY(read_trail_events(agent, filter, std::nullopt));
  if (filter.path) WARREN_TRY(add_former_events(agent, filter, found));
  std::ranges::move(found, std::back_inserter(events));
  return Ok{};
}

// Of a table that other programs write to as well.
std::int64_t microseconds_of(std::int64_t seconds) {
  constexpr std::int64_t kFarthest = std::numeric_limits<std::int64_t>::max() / 1'000'000;
  return std::clamp(seconds, -kFarthest, kFarthest) * 1'000'000;
}

Status add_calls(Agent& agent, const LogFilter& filter, std::vector<LogEvent>& events) {
  CallFilter wanted;
  wanted.limit = filter.limit.value_or(SIZE_MAX >> 1);
  if (filter.since_us) wanted.since = *filter.since_us / 1'000'000 - 1;
  for (const ToolCall& call : WARREN_TRY(agent.tools().list(wanted))) {
    std::string detail(name_of(call.status));
    if (call.duration_ms) detail += fmt::format(", {} ms", *call.duration_ms);
    events.push_back({.at_us = microseconds_of(call.started_at),
                      .source = LogSource::kToolCall,
                      .who = "agent",
                      .verb = "called",
                      .subject = call.name,
                      .to = {},
                      .detail = std::move(detail),
                      .ok = call.status != CallStatus::kError});
  }
  return Ok{};
}

Status add_checkpoints(Agent& agent, std::vector<LogEvent>& events) {
  for (const Checkpoint& one : WARREN_TRY(list_checkpoints(agent))) {
    events.push_back({.at_us = one.at_us,
                      .source = LogSource::kCheckpoint,
                      .who = "",
                      .verb = "took the checkpoint",
                      .subject = label_of(one),
                      .to = {},
                      .detail = one.cause,
                      .checkpoint = one});
  }
  return Ok{};
}

// What a path was at some time; nullopt: it did not exist.
Result<std::optional<Attributes>> state_of(FileSystem& fs, const std::string& path) {
  Result<Attributes> found = lstat(fs, path);
  if (found.ok()) return std::optional(*found);
  Code code = found.error().code();
  if (code == Code::kNotFound || code == Code::kNotDirectory) return std::optional<Attributes>();
  return std::move(found).take_error();
}

LogEvent state_event(const std::optional<Attributes>& before, const std::optional<Attributes>& after,
                     std::optional<Checkpoint> checkpoint, std::int64_t at_us) {
  std::string_view change = !before ? "appeared" : !after ? "was gone" : "was changed";
  std::string subject = checkpoint ? label_of(*checkpoint) : "";
  return {.at_us = at_us,
          .source = LogSource::kCheckpoint,
          .who = "",
          .verb = checkpoint ? fmt::format("{} in the checkpoint", change) : fmt::format("{} since then", change),
          .subject = std::move(subject),
          .to = {},
          .detail = "",
          .size_bytes = after ? std::optional(after->size) : std::nullopt,
          .checkpoint = std::move(checkpoint),
          .node = after};
}

Status add_states(Agent& agent, const std::string& path, Clock& clock, std::vector<LogEvent>& events) {
  std::vector<Checkpoint> all = WARREN_TRY(list_checkpoints(agent));
  std::optional<Attributes> last;
  for (const Checkpoint& one : all) {
    auto past = WARREN_TRY(open_checkpoint(agent, one.id, clock));
    std::optional<Attributes> state = WARREN_TRY(state_of(past->fs(), path));
    if (!(state == last)) events.push_back(state_event(last, state, one, one.at_us));
    last = std::move(state);
  }
  if (all.empty()) return Ok{};
  std::optional<Attributes> now = WARREN_TRY(state_of(agent.fs(), path));
  if (!(now == last)) events.push_back(state_event(last, now, std::nullopt, clock.now_us()));
  return Ok{};
}

}  // namespace

std::string_view name_of(LogSource source) {
  switch (source) {
    case LogSource::kJournal: return "journal";
    case LogSource::kAudit: return "audit";
    case LogSource::kToolCall: return "tool call";
    case LogSource::kCheckpoint: return "checkpoint";
  }
  return "";
}

std::string who_text(std::string_view space, std::string_view door) {
  std::string_view who = space == "user" ? "agent" : "operator";
  return door.empty() ? std::string(who) : fmt::format("{} ({})", who, door);
}

Result<std::vector<LogEvent>> read_log(Agent& agent, const LogFilter& wanted, Clock& clock) {
  constexpr std::size_t kEventsMax = 100'000'000;
  LogFilter filter = wanted;
  if (filter.limit) filter.limit = std::min(*filter.limit, kEventsMax);
  std::vector<LogEvent> events;
  WARREN_TRY(add_journal(agent, filter, events));
  WARREN_TRY(add_trail(agent, filter, events));
  if (filter.path) {
    WARREN_TRY(add_states(agent, *filter.path, clock, events));
  } else {
    WARREN_TRY(add_calls(agent, filter, events));
    WARREN_TRY(add_checkpoints(agent, events));
  }
  if (filter.since_us) std::erase_if(events, [&](const LogEvent& one) { return one.at_us < *filter.since_us; });
  std::ranges::reverse(events);  // of several at the same time, the one found last comes first
  std::ranges::stable_sort(events, std::ranges::greater(), &LogEvent::at_us);
  if (filter.limit && events.size() > *filter.limit) events.resize(*filter.limit);
  return events;
}

}  // namespace warren
