#include "agent/audit_trail.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/agent_namespace.h"
#include "agent/audit_key.h"
#include "agent/audit_note.h"
#include "agent/locate.h"
#include "backends/open_backend.h"
#include "base/json.h"
#include "base/path.h"
#include "fs/path_ops.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/host_files.h"

namespace warren {
namespace {

constexpr std::size_t kTrailPage = 512;
constexpr std::size_t kAnchorBytesMax = std::size_t{64} << 20;
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
  Fd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open()) return system_error(errno, fmt::format("open {}", quote(path)));
  WARREN_TRY(write_all(fd.get(), as_bytes(text)).within(fmt::format("write {}", quote(path))));
  if (::fsync(fd.get()) != 0) return system_error(errno, fmt::format("sync {}", quote(path)));
  return Ok{};
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

Result<std::string> read_anchor(const std::string& agent, const std::string& address, Clock& clock) {
  if (address.starts_with("agent:")) {
    OtherAgent other = WARREN_TRY(open_other(address, clock));
    return read_file(*other.view, kAnchorFile);
  }
  if (is_host_path(address)) return read_host_file(host_path_of(address), kAnchorBytesMax);
  std::unique_ptr<BlobStore> store = WARREN_TRY(open_blob_store(address, {.clock = clock}));
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

// The points in an anchor that are about this agent.
Result<std::vector<AuditPoint>> parse_anchor(std::string_view text, const std::string& agent,
                                             const std::string& address) {
  std::vector<AuditPoint> points;
  int number = 0;
  while (!text.empty()) {
    ++number;
    std::size_t end = std::min(text.find('\n'), text.size());
    Result<Json> line = parse_json(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    auto bad = [&] {
      return Error(Code::kCorrupt, fmt::format("line {} of the anchor {} is not an anchor", number, quote(address)));
    };
    if (!line.ok() || !line->is_object() || !line->contains("agent") || !line->contains("seq")) return bad();
    if ((*line)["agent"] != agent) continue;
    std::optional<AuditHash> hash = line->contains("hash") ? parse_hash((*line)["hash"]) : std::nullopt;
    if (!hash || !(*line)["seq"].is_number_integer()) return bad();
    std::string when = line->contains("ts") && (*line)["ts"].is_string() ? (*line)["ts"].get<std::string>() : "";
    points.push_back({.seq = (*line)["seq"].get<std::int64_t>(),
                      .hash = *hash,
                      .where = fmt::format("the anchor {} of {}", quote(address), when)});
  }
  return points;
}

}  // namespace

bool matches(const AuditEvent& event, const AuditFilter& filter) {
  if (filter.since_us && event.at_us < *filter.since_us) return false;
  if (filter.until_us && event.at_us >= *filter.until_us) return false;
  if (filter.ok && event.ok != *filter.ok) return false;
  if (filter.door && event.door != *filter.door) return false;
  if (!filter.ops.empty() && std::find(filter.ops.begin(), filter.ops.end(), event.op) == filter.ops.end())
    return false;
  if (!filter.path) return true;
  auto is_at_or_below = [&](std::string_view path) {
    return path == *filter.path || *filter.path == "/" ||
           (path.starts_with(*filter.path) && path.substr(filter.path->size()).starts_with('/'));
  };
  return is_at_or_below(event.path) || (event.to && is_at_or_below(*event.to));
}

Status read_trail(Agent& agent, const AuditFilter& filter, std::optional<std::size_t> last, const TrailReader& reader) {
  AuditLog& log = agent.store().audit();
  AuditHead head = WARREN_TRY(log.head());
  if (!last) return read_rows(log, INT64_MIN, head.seq, filter, reader);
  // Backwards would need the rows in reverse; a window of the newest matches is enough, and bounded.
  std::vector<AuditRow> window;
  std::size_t next = 0;
  WARREN_TRY(read_rows(log, INT64_MIN, head.seq, filter, [&](const AuditRow& row) -> Status {
    if (*last == 0) return Ok{};
    if (window.size() < *last) window.push_back(row);
    else window[next++ % *last] = row;
    return Ok{};
  }));
  std::size_t begin = window.size() == *last && *last > 0 ? next % *last : 0;
  for (std::size_t i = 0; i < window.size(); ++i) WARREN_TRY(reader(window[(begin + i) % window.size()]));
  return Ok{};
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
  WARREN_TRY(store.audit().enable([] { return load_audit_keys(); }));
  return store.audit().set_level(level, operators_event(agent, "audit", name_of(level), door, clock));
}

Status switch_audit(Agent& agent, AuditLevel level, std::string_view door, Clock& clock) {
  return switch_audit(agent.store(), agent.id(), level, door, clock);
}

Status record_new_key(Agent& agent, std::string_view door, Clock& clock) {
  AuditLog& log = agent.store().audit();
  WARREN_TRY(log.enable([] { return load_audit_keys(); }));
  return log.append({operators_event(agent.id(), "rotate", "", door, clock)});
}

Result<TrailVerdict> verify_audit(Agent& agent, const std::vector<std::string>& anchors, Clock& clock) {
  AuditLog& log = agent.store().audit();
  TrailVerdict found;
  std::vector<AuditPoint> points;
  if (agent.path() != kMemoryAgent) points = WARREN_TRY(find_audit_notes(log, agent.path()));
  found.has_note = !points.empty();
  for (const std::string& address : anchors) {
    std::string text = WARREN_TRY(read_anchor(agent.id(), address, clock).within("read the anchor " + quote(address)));
    std::vector<AuditPoint> more = WARREN_TRY(parse_anchor(text, agent.id(), address));
    found.anchors += more.size();
    points.insert(points.end(), more.begin(), more.end());
  }
  AuditLevel level = WARREN_TRY(log.level());
  AuditHead head = WARREN_TRY(log.head());
  Result<AuditKeys> keys = load_audit_keys(MissingKey::kReport);
  if (!keys.ok() && head.seq > 0) return std::move(keys).take_error();
  found.verdict = WARREN_TRY(check_audit(log, keys.ok() ? *keys : AuditKeys(), points, level));
  return found;
}

Status accept_audit(Agent& agent) { return accept_audit_head(agent.store().audit(), agent.path()); }

Result<bool> put_anchor(Agent& agent, const std::string& address, Clock& clock) {
  AuditHead head = WARREN_TRY(agent.store().audit().head());
  if (head.seq == 0) return false;
  if (agent.path() != kMemoryAgent) WARREN_TRY(sync_log_of(agent.path()));
  std::string text = anchor_line(agent.id(), head, clock);
  auto put = [&]() -> Status {
    if (address.starts_with("agent:")) {
      OtherAgent other = WARREN_TRY(open_other(address, clock));
      if (other.agent->path() == agent.path()) {
        return Error(Code::kInvalid, "an agent cannot be the anchor of its own trail");
      }
      return append_file(*other.view, kAnchorFile, as_bytes(text));
    }
    if (is_host_path(address)) return append_to_host_file(host_path_of(address), text);
    std::unique_ptr<BlobStore> store = WARREN_TRY(open_blob_store(address, {.clock = clock}));
    return append_to_blob(*store, anchor_key(agent.id()), text);
  };
  WARREN_TRY(put().within("anchor " + quote(address)));
  return true;
}

}  // namespace warren
