#include "agent/record/audit_trail.h"

#include <algorithm>
#include <cerrno>
#include <deque>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/agent_namespace.h"
#include "agent/copies/store_address.h"
#include "agent/keys/audit_key.h"
#include "agent/locate.h"
#include "agent/record/audit_note.h"
#include "base/below.h"
#include "base/json.h"
#include "base/path.h"
#include "base/printable.h"
#include "fs/path_ops.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::size_t kTrailPage = 512;
constexpr std::size_t kAnchorBytesMax = std::size_t{1} << 20;  // that are read of one, from its end
constexpr std::string_view kAnchorFile = "/audit/anchors.jsonl";
constexpr int kAnchorAttempts = 5;

// Rows after `seq`, up to `end`, a page at a time.
Status read_rows(AuditLog& log, std::int64_t seq, std::int64_t end, const AuditFilter& filter,
                 const TrailReader& reader) {
  while (seq < end) {
    std::vector<StoredAuditRow> page = WARREN_TRY(log.read_after(seq, kTrailPage));
    if (page.empty()) return Ok{};
    for (const StoredAuditRow& stored : page) {
      if (stored.row.seq > end) return Ok{};
      if (matches(stored.row.event, filter)) WARREN_TRY(reader(stored.row));
    }
    seq = page.back().row.seq;
  }
  return Ok{};
}

AuditEvent operators_event(const std::string& agent, std::string_view op, std::string_view what, std::string_view door,
                           Clock& clock) {
  AuditEvent event;
  event.at_us = clock.now_us();
  event.agent = agent;
  event.op = op;
  event.path = what;
  event.door = door;
  event.space = "kernel";
  return event;
}

// Anchors.

std::string anchor_line(const std::string& agent, const AuditHead& head, Clock& clock) {
  Json line{
      {"agent", agent}, {"seq", head.seq}, {"hash", hex_of(head.hash)}, {"ts", format_audit_time(clock.now_us())}};
  return dump_json(line) + "\n";
}

bool is_host_path(std::string_view address) {
  return address.starts_with("file:") || address.starts_with('/') || address.starts_with('.') ||
         address.find(':') == address.npos;
}

std::string host_path_of(std::string_view address) {
  if (address.starts_with("file:")) address.remove_prefix(5);
  return std::string(address);
}

Status append_to_host_file(const std::string& path, std::string_view text) {
  Fd fd(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open()) return system_error(errno, fmt::format("open {}", quote(path)));
  // A line that an interrupted call left half written must not take this one with it.
  struct stat there {};
  if (::fstat(fd.get(), &there) != 0) return system_error(errno, fmt::format("stat {}", quote(path)));
  char last = '\n';
  if (there.st_size > 0 && ::pread(fd.get(), &last, 1, there.st_size - 1) != 1) last = '\0';
  std::string whole = last == '\n' ? std::string(text) : fmt::format("\n{}", text);
  WARREN_TRY(write_all(fd.get(), as_bytes(whole)).within(fmt::format("write {}", quote(path))));
  if (::fsync(fd.get()) != 0) return system_error(errno, fmt::format("sync {}", quote(path)));
  if (there.st_size > 0) return Ok{};
  std::string dir(directory_of(path));
  return sync_host_dir(dir.empty() ? "." : dir);
}

// The newest lines are enough: each of them has seen all rows before.
Result<std::string> read_end_of_host_file(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) return system_error(errno, fmt::format("open {}", quote(path)));
  struct stat there {};
  if (::fstat(fd.get(), &there) != 0) return system_error(errno, fmt::format("stat {}", quote(path)));
  if (!S_ISREG(there.st_mode)) return Error(Code::kInvalid, fmt::format("{} is not a regular file", quote(path)));
  auto size = static_cast<std::size_t>(there.st_size);
  std::size_t skipped = size > kAnchorBytesMax ? size - kAnchorBytesMax : 0;
  std::string text(size - skipped, '\0');
  ssize_t count = ::pread(fd.get(), text.data(), text.size(), static_cast<off_t>(skipped));
  if (count < 0) return system_error(errno, fmt::format("read {}", quote(path)));
  text.resize(static_cast<std::size_t>(count));
  return skipped > 0 ? text.substr(std::min(text.find('\n'), text.size())) : text;
}

// What an anchor has seen must not be lost in a power cut: a mount syncs its log up to seconds later.
Status sync_log_of(const std::string& agent_path) {
  std::string log = agent_path + "-wal";
  Fd fd(::open(log.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open() && errno == ENOENT) return Ok{};
  if (!fd.is_open() || ::fdatasync(fd.get()) != 0) return system_error(errno, fmt::format("sync {}", quote(log)));
  return Ok{};
}

std::string anchor_key(const std::string& agent) { return agent + ".audit.jsonl"; }

Status append_to_blob(BlobStore& store, const std::string& key, std::string_view text) {
  for (int attempt = 1;; ++attempt) {
    std::optional<Blob> known = WARREN_TRY(store.get(key));
    std::string content = known ? known->content : std::string();
    if (content.size() > kAnchorBytesMax / 2)
      content.erase(0, content.find('\n', content.size() - kAnchorBytesMax / 4) + 1);
    if (!content.empty() && content.back() != '\n') content += '\n';
    content += text;
    PutOptions options;
    if (store.abilities().conditional_puts) {
      if (known) options.if_match = known->info.version;
      else options.if_absent = true;
    }
    auto put = store.put(key, as_bytes(content), options);
    if (put.ok()) return Ok{};
    bool was_changed = put.error().code() == Code::kConflict || put.error().code() == Code::kExists;
    if (!was_changed || attempt == kAnchorAttempts) return std::move(put).take_error();
  }
}

// The namespace of another agent, as its operator uses it.
struct OtherAgent {
  std::unique_ptr<Agent> agent;
  std::unique_ptr<AgentNamespace> names;
  std::unique_ptr<NamespaceView> view;
};
Result<OtherAgent> open_other(std::string_view address, Clock& clock) {
  address.remove_prefix(std::string_view("agent:").size());
  OtherAgent other;
  other.agent = WARREN_TRY(Agent::open({.id_or_path = std::string(address), .layers = Layers::kOwn}, clock));
  other.names = WARREN_TRY(AgentNamespace::open(*other.agent, {}, clock));
  other.view =
      (*other.names)->view({.agent = other.agent->id(), .space = Space::kKernel, .door = "audit", .session = {}});
  return other;
}

Status check_not_itself(Agent& agent, Agent& other) {
  Result<std::string> one = canonical_host_path(agent.path());
  Result<std::string> two = canonical_host_path(other.path());
  if (!one.ok() || !two.ok() || *one != *two) return Ok{};
  return Error(Code::kInvalid, "an agent cannot be the anchor of its own trail");
}

Result<std::string> read_anchor(const std::string& agent, const std::string& address, Clock& clock) {
  if (address.starts_with("agent:")) {
    OtherAgent other = WARREN_TRY(open_other(address, clock));
    return read_file(*other.view, kAnchorFile);
  }
  if (is_host_path(address)) return read_end_of_host_file(host_path_of(address));
  std::unique_ptr<BlobStore> store = WARREN_TRY(open_store_at(address, clock));
  std::optional<Blob> found = WARREN_TRY(store->get(anchor_key(agent)));
  if (!found) return Error(Code::kNotFound, fmt::format("{} has no anchor of this agent", store->name()));
  return std::move(found->content);
}

std::optional<AuditHash> parse_hash(const Json& text) {
  if (!text.is_string() || text.get_ref<const std::string&>().size() != 64) return std::nullopt;
  const auto& digits = text.get_ref<const std::string&>();
  if (digits.find_first_not_of("0123456789abcdef") != digits.npos) return std::nullopt;
  AuditHash hash{};
  for (std::size_t i = 0; i < hash.size(); ++i) {
    hash[i] = static_cast<std::byte>(std::stoul(digits.substr(i * 2, 2), nullptr, 16));
  }
  return hash;
}

// nullopt for an anchor of another agent. kCorrupt for a line that is no anchor, as one that was written half.
Result<std::optional<AuditPoint>> parse_point(std::string_view text, const std::string& agent,
                                              const std::string& address) {
  Error damaged(Code::kCorrupt, "it is not an anchor");
  Result<Json> line = parse_json(text);
  if (!line.ok() || !line->is_object()) return damaged;
  for (const char* name : {"agent", "seq", "hash"}) {
    if (!line->contains(name)) return damaged;
  }
  std::optional<AuditHash> hash = parse_hash((*line)["hash"]);
  bool is_valid = (*line)["agent"].is_string() && (*line)["seq"].is_number_integer() && hash;
  if (!is_valid || (*line)["seq"].get<std::int64_t>() < 1) return damaged;
  if ((*line)["agent"] != agent) return std::optional<AuditPoint>();
  std::string when = line->contains("ts") && (*line)["ts"].is_string() ? (*line)["ts"].get<std::string>() : "";
  return std::optional(AuditPoint{.seq = (*line)["seq"].get<std::int64_t>(),
                                  .hash = *hash,
                                  .where = fmt::format("the anchor {} of {}", quote(address), printable(when))});
}

// The points in an anchor that are about this agent. kNotFound without any: nothing would be compared.
Result<std::vector<AuditPoint>> parse_anchor(std::string_view text, const std::string& agent,
                                             const std::string& address, std::vector<std::string>& damaged) {
  std::vector<AuditPoint> points;
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) {
      Result<std::optional<AuditPoint>> point = parse_point(text.substr(0, end), agent, address);
      if (!point.ok()) damaged.push_back(fmt::format("line {} of {}", number, quote(address)));
      else if (*point) points.push_back(**std::move(point));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!points.empty()) return points;
  return Error(Code::kNotFound, fmt::format("the anchor {} says nothing about agent {}", quote(address), quote(agent)),
               "an anchor knows an agent by its id");
}

}  // namespace

bool is_everything(const AuditFilter& filter) {
  return !filter.since_us && !filter.until_us && filter.ops.empty() && !filter.path && !filter.ok && !filter.door;
}

bool matches(const AuditEvent& event, const AuditFilter& filter) {
  if (filter.since_us && event.at_us < *filter.since_us) return false;
  if (filter.until_us && event.at_us >= *filter.until_us) return false;
  if (filter.ok && event.ok != *filter.ok) return false;
  if (filter.door && event.door != *filter.door) return false;
  if (!filter.ops.empty() && std::find(filter.ops.begin(), filter.ops.end(), event.op) == filter.ops.end())
    return false;
  if (!filter.path) return true;
  return is_at_or_below(event.path, *filter.path) || (event.to && is_at_or_below(*event.to, *filter.path));
}

Result<std::int64_t> read_trail(Agent& agent, const AuditFilter& filter, std::optional<std::size_t> last,
                                const TrailReader& reader) {
  AuditLog& log = agent.store().audit();
  AuditHead head = WARREN_TRY(log.head());
  if (!last || is_everything(filter)) {
    std::int64_t count = last ? static_cast<std::int64_t>(std::min<std::size_t>(*last, INT32_MAX)) : 0;
    std::int64_t after = last ? std::max<std::int64_t>(head.seq - count, 0) : INT64_MIN;
    WARREN_TRY(read_rows(log, after, head.seq, filter, reader));
    return head.seq;
  }
  // Backwards would need the rows in reverse; a window of the newest matches is enough, and bounded.
  std::deque<AuditRow> window;
  WARREN_TRY(read_rows(log, INT64_MIN, head.seq, filter, [&](const AuditRow& row) -> Status {
    window.push_back(row);
    if (window.size() > *last) window.pop_front();
    return Ok{};
  }));
  for (const AuditRow& row : window) WARREN_TRY(reader(row));
  return head.seq;
}

Result<std::int64_t> last_audit_row(Agent& agent) {
  AuditHead head = WARREN_TRY(agent.store().audit().head());
  return head.seq;
}

Result<std::int64_t> read_trail_after(Agent& agent, std::int64_t seq, const AuditFilter& filter,
                                      const TrailReader& reader) {
  std::int64_t end = WARREN_TRY(last_audit_row(agent));
  WARREN_TRY(read_rows(agent.store().audit(), seq, end, filter, reader));
  return end;
}

Status switch_audit(Store& store, const std::string& agent, AuditLevel level, std::string_view door, Clock& clock) {
  WARREN_TRY(enable_audit(store.audit(), agent));
  return store.audit().set_level(level, operators_event(agent, "audit", name_of(level), door, clock));
}

Status switch_audit(Agent& agent, AuditLevel level, std::string_view door, Clock& clock) {
  return switch_audit(agent.store(), agent.id(), level, door, clock);
}

std::vector<AuditEvent> operators_events(Agent& agent, std::string_view op, const std::vector<std::string>& paths) {
  std::vector<AuditEvent> events;
  for (const std::string& path : paths) {
    events.push_back(operators_event(agent.id(), op, path, op, agent.store().clock()));
  }
  return events;
}

Status record_afterwards(const std::string& agent_path, std::string_view op, const std::optional<std::string>& to,
                         Clock& clock, const std::vector<std::string>& paths) {
  auto record = [&]() -> Status {
    {
      auto agent = WARREN_TRY(
          Agent::open({.id_or_path = agent_path, .mode = OpenMode::kReadOnly, .layers = Layers::kOwn}, clock));
      AuditHead head = WARREN_TRY(agent->store().audit().head());
      if (head.seq == 0) return Ok{};  // also a file of an older schema, which could not be written
    }
    auto agent = WARREN_TRY(Agent::open({.id_or_path = agent_path, .layers = Layers::kOwn}, clock));
    AuditLog* log = WARREN_TRY(agent->operators_audit());
    if (log == nullptr) return Ok{};
    std::vector<AuditEvent> events = operators_events(*agent, op, paths);
    for (AuditEvent& event : events) event.to = to;
    return log->append(std::move(events));
  };
  return record().within("it was done, but is not in the agent's audit trail");
}

Status record_reading(Agent& agent, std::string_view op, const std::vector<std::string>& paths,
                      std::optional<std::string> to) {
  if (!agent.records_reads()) return Ok{};
  std::vector<AuditEvent> events = operators_events(agent, op, paths.empty() ? std::vector<std::string>{"/"} : paths);
  for (AuditEvent& event : events) event.to = to;
  return agent.store().audit().append(std::move(events));
}

Status record_new_key(Agent& agent, std::string_view door, Clock& clock) {
  AuditLog& log = agent.store().audit();
  WARREN_TRY(enable_audit(log, agent.id()));
  return log.append({operators_event(agent.id(), "rotate", "", door, clock)});
}

Result<TrailVerdict> verify_audit(Agent& agent, const VerifyOptions& options, Clock& clock) {
  AuditLog& log = agent.store().audit();
  TrailVerdict found;
  std::vector<AuditPoint> points;
  if (agent.path() != kMemoryAgent) points = WARREN_TRY(find_audit_notes(agent.path()));
  found.has_note = !points.empty();
  for (const std::string& address : options.anchors) {
    std::string text = WARREN_TRY(read_anchor(agent.id(), address, clock).within("read the anchor " + quote(address)));
    std::vector<AuditPoint> more = WARREN_TRY(parse_anchor(text, agent.id(), address, found.damaged_anchors));
    found.anchors += more.size();
    points.insert(points.end(), more.begin(), more.end());
  }
  AuditHead head = WARREN_TRY(log.head());
  Result<AuditKeys> keys = load_audit_keys(MissingKey::kReport);
  if (!keys.ok() && head.seq > 0) return std::move(keys).take_error();
  found.verdict = WARREN_TRY(check_audit(log, keys.ok() ? *keys : AuditKeys(), points, options.from));
  AuditVerdict& verdict = found.verdict;
  if (!verdict.agent.empty() && verdict.agent != agent.id() && !verdict.fault) {
    verdict.successions.push_back({.seq = verdict.head.seq + 1, .before = verdict.agent, .after = agent.id()});
  }
  Status table = log.check_table();
  if (!table.ok() && !found.verdict.fault) {
    found.verdict.fault = AuditFault{.seq = found.verdict.head.seq, .why = table.error().message()};
  }
  return found;
}

Status accept_audit(Agent& agent) { return accept_audit_head(agent.store().audit(), agent.path()); }

std::optional<std::string> host_path_of_anchor(const std::string& address) {
  if (address.starts_with("agent:") || !is_host_path(address)) return std::nullopt;
  return host_path_of(address);
}

Status check_anchor(Agent& agent, const std::string& address, Clock& clock) {
  auto check = [&]() -> Status {
    if (address.starts_with("agent:")) {
      OtherAgent other = WARREN_TRY(open_other(address, clock));
      return check_not_itself(agent, *other.agent);
    }
    if (std::optional<std::string> path = host_path_of_anchor(address)) {
      Fd fd(::open(path->c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
      return fd.is_open() ? Status(Ok{}) : system_error(errno, fmt::format("open {}", quote(*path)));
    }
    WARREN_TRY(open_store_at(address, clock));
    return Ok{};
  };
  return check().within("anchor " + quote(address));
}

Result<bool> put_anchor(Agent& agent, const std::string& address, Clock& clock) {
  AuditHead head = WARREN_TRY(agent.store().audit().head());
  if (head.seq == 0) return false;
  if (agent.path() != kMemoryAgent) WARREN_TRY(sync_log_of(agent.path()));
  std::string text = anchor_line(agent.id(), head, clock);
  auto put = [&]() -> Status {
    if (address.starts_with("agent:")) {
      OtherAgent other = WARREN_TRY(open_other(address, clock));
      WARREN_TRY(check_not_itself(agent, *other.agent));
      return append_file(*other.view, kAnchorFile, as_bytes(text));
    }
    if (is_host_path(address)) return append_to_host_file(host_path_of(address), text);
    std::unique_ptr<BlobStore> store = WARREN_TRY(open_store_at(address, clock));
    return append_to_blob(*store, anchor_key(agent.id()), text);
  };
  WARREN_TRY(put().within("anchor " + quote(address)));
  return true;
}

}  // namespace warren
