#include "relay/delivery/watcher.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/files/dir_reader.h"
#include "os/files/host_files.h"
#include "relay/protocol/names.h"

namespace warren::relay {
namespace {

constexpr std::size_t kPage = 65'536;      // names of one outbox kept from a scan
constexpr std::size_t kReady = 16'384;     // names of one outbox kept from events
constexpr std::size_t kLeft = 65'536;      // names that left inboxes, until take_left()
constexpr std::size_t kTurn = 64;          // files of one agent before the next agent's turn
constexpr std::size_t kRemembered = 4096;  // leftovers and ill-named files
constexpr std::int64_t kLeftoverNs = 30'000'000'000;
constexpr std::int64_t kEmptyNs = 5'000'000'000;
constexpr std::int64_t kTroubleNs = 30'000'000'000;        // between looks at a file that the disk does not return
constexpr std::int64_t kRescanShortageNs = 1'000'000'000;  // how long a shortage of descriptors is waited out

constexpr std::uint32_t kOutboxEvents = IN_MOVED_TO | IN_CREATE | IN_MOVE_SELF;
constexpr std::uint32_t kInboxEvents = IN_DELETE | IN_MOVED_FROM;
constexpr std::uint32_t kRootEvents = IN_CLOSE_WRITE | IN_MOVED_TO | IN_CREATE;
constexpr std::uint32_t kAgentsEvents = IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM;

std::int64_t mtime_ns(const struct stat& info) { return info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec; }

Sighting sighting_of(const struct stat& info) { return {static_cast<std::uint64_t>(info.st_size), mtime_ns(info)}; }

Sighting look_at(int dir, const std::string& name) {
  struct stat info {};
  return ::fstatat(dir, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 ? sighting_of(info) : Sighting{};
}

// The first `count` message files of a directory by name, and whether there are more. Reads the directory once, and
// keeps only that many names.
struct Oldest {
  std::vector<std::string> names;
  bool has_more = false;
  std::vector<std::string> ill_named;
};
Result<Oldest> list_oldest(int dir, std::size_t count) {
  DirReader reader = WARREN_TRY(DirReader::open(dir).within("outbox"));
  Oldest out;
  while (const DirReader::Entry* entry = WARREN_TRY(reader.next().within("outbox"))) {
    std::string_view name = entry->name;
    if (name.starts_with('.')) continue;
    if (!is_message_file(name)) {
      if (out.ill_named.size() < 16) out.ill_named.emplace_back(name);
    } else if (out.names.size() < count) {
      out.names.emplace_back(name);
      if (out.names.size() == count) std::make_heap(out.names.begin(), out.names.end());
    } else {
      out.has_more = true;
      if (name >= out.names.front()) continue;
      std::pop_heap(out.names.begin(), out.names.end());
      out.names.back() = name;
      std::push_heap(out.names.begin(), out.names.end());
    }
  }
  std::sort(out.names.begin(), out.names.end());
  return out;
}

}  // namespace

Result<std::unique_ptr<Watcher>> Watcher::open(Root& root, const Config& config, Clock& clock, Log& log) {
  Fd inotify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify.is_open()) return system_error(errno, "watch directories");
  std::unique_ptr<Watcher> watcher(new Watcher(root, config, clock, log, std::move(inotify)));
  WARREN_TRY(watcher->watch(root.dir(), kRootEvents | IN_ONLYDIR, {What::kRoot, ""}));
  WARREN_TRY(watcher->watch(root.agents(), kAgentsEvents | IN_ONLYDIR, {What::kAgents, ""}));
  WARREN_TRY(watcher->watch_lock());
  watcher->note_rescan();
  return watcher;
}

Status Watcher::watch_lock() {
  Fd lock = WARREN_TRY(open_below(root_.dir(), ".lock", O_RDONLY));
  return watch(lock.get(), IN_ATTRIB, {What::kLock, ""});
}

Status Watcher::watch(int file, std::uint32_t events, Watch what) {
  std::string path = fmt::format("/proc/self/fd/{}", file);
  int id = ::inotify_add_watch(inotify_.get(), path.c_str(), events);
  if (id < 0) {
    return Error(Code::kLimit, fmt::format("{}: watch a directory of {}", std::strerror(errno), quote(what.agent)),
                 "raise fs.inotify.max_user_watches");
  }
  watches_[id] = std::move(what);
  return Ok{};
}

Status Watcher::add_agent(const std::string& name) {
  std::vector<std::string> repaired = WARREN_TRY(root_.make_agent(name));
  if (!repaired.empty()) log_.audit("permissions_repaired", {{"agent", name}, {"directories", repaired}});
  Fd outbox = WARREN_TRY(root_.open_outbox(name));
  Fd inbox = WARREN_TRY(root_.open_inbox(name));
  WARREN_TRY(watch(outbox.get(), kOutboxEvents | IN_ONLYDIR, {What::kOutbox, name}));
  WARREN_TRY(watch(inbox.get(), kInboxEvents | IN_ONLYDIR, {What::kInbox, name}));
  auto [box, is_new] = boxes_.try_emplace(name);
  if (is_new) box->second.tokens = static_cast<double>(config_.rate_per_second);
  box->second.filled_ns = is_new ? clock_.monotonic_ns() : box->second.filled_ns;
  box->second.needs_scan = true;
  busy_.insert(name);
  inboxes_to_check_.insert(name);
  return Ok{};
}

void Watcher::remove_agent(const std::string& name) {
  boxes_.erase(name);
  busy_.erase(name);
  for (auto at = watches_.begin(); at != watches_.end();) {
    if (at->second.agent != name) {
      ++at;
      continue;
    }
    ::inotify_rm_watch(inotify_.get(), at->first);
    at = watches_.erase(at);
  }
}

void Watcher::take_events() {
  alignas(inotify_event) std::array<char, 65'536> buffer;
  for (;;) {
    ssize_t got = ::read(inotify_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
      inotify_event raw{};
      std::memcpy(&raw, buffer.data() + at, sizeof raw);
      // An event about the watched directory itself has no name, and nothing need follow it.
      std::string_view name = raw.len > 0 ? std::string_view(buffer.data() + at + sizeof raw) : std::string_view();
      on_event(raw.wd, raw.mask, name);
      at += sizeof raw + raw.len;
    }
    // The kernel stops before an event that does not fit. If any event would have fitted, none is left.
    if (buffer.size() - static_cast<std::size_t>(got) >= sizeof(inotify_event) + NAME_MAX + 1) return;
  }
}

// A new file has no content yet, and another event follows. Of a directory, a pipe or a link it is the only event.
bool Watcher::is_complete_config(std::uint32_t mask) const {
  if ((mask & IN_CREATE) == 0) return true;
  struct stat info {};
  return ::fstatat(root_.dir(), "config.json", &info, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(info.st_mode);
}

void Watcher::on_event(int id, std::uint32_t mask, std::string_view name) {
  if ((mask & IN_Q_OVERFLOW) != 0) return on_overflow();
  auto found = watches_.find(id);
  if (found == watches_.end()) return;
  const Watch& watch = found->second;
  switch (watch.what) {
    case What::kRoot: config_changed_ = config_changed_ || (name == "config.json" && is_complete_config(mask)); break;
    case What::kAgents: agents_changed_ = true; break;
    case What::kLock: poked_ = true; break;
    case What::kInbox:
      if (is_message_file(name) && left_.size() < kLeft) {
        left_.push_back({watch.agent, std::string(name)});
      } else if (is_message_file(name)) {
        inboxes_to_check_.insert(watch.agent);
      }
      break;
    case What::kOutbox:
      if ((mask & IN_MOVE_SELF) != 0) {
        ::inotify_rm_watch(inotify_.get(), id);  // IN_IGNORED follows
      } else if ((mask & IN_IGNORED) == 0) {
        on_outbox(watch.agent, mask, name);
      }
      break;
  }
  if ((mask & IN_IGNORED) != 0) {
    // The directory may exist again, and the owner then adds the agent again. Not at once: that would recreate
    // directories that are just being removed.
    agents_changed_at_ns_ = std::min(agents_changed_at_ns_, clock_.monotonic_ns() + settle_ns());
    watches_.erase(found);
  }
}

void Watcher::on_outbox(const std::string& agent, std::uint32_t mask, std::string_view name) {
  if (name.starts_with('.') || (mask & IN_ISDIR) != 0) return;
  if (!is_message_file(name)) {
    if (ill_named_.size() < kRemembered && ill_named_.insert(fmt::format("{}/{}", agent, name)).second) {
      log_.note(Severity::kWarning, "ignored_file", {{"agent", agent}, {"file", name}});
    }
    return;
  }
  auto found = boxes_.find(agent);
  if (found == boxes_.end()) return;
  Box& box = found->second;
  std::int64_t now = clock_.monotonic_ns();
  if (box.ready.size() + box.settling.size() >= kReady) {
    box.needs_scan = true;
  } else if ((mask & IN_MOVED_TO) != 0) {
    box.ready.push_back({std::string(name), true, now, {}});
  } else {
    box.settling.try_emplace(std::string(name), Settling{now, now + settle_ns(), {}});
  }
  busy_.insert(agent);
}

void Watcher::on_overflow() {
  ++overflows_;
  log_.note(Severity::kWarning, "events_lost", {{"overflows", overflows_}});
  agents_changed_ = true;
  for (auto& [name, box] : boxes_) {
    box.needs_scan = true;
    busy_.insert(name);
    inboxes_to_check_.insert(name);
  }
}

bool Watcher::rescan_is_due() { return clock_.monotonic_ns() >= rescan_at_ns_; }

void Watcher::note_rescan() {
  rescan_at_ns_ = clock_.monotonic_ns() + std::chrono::nanoseconds(config_.rescan).count();
}

void Watcher::rescan_soon_after(const Error& why) {
  if (why.code() == Code::kLimit) rescan_at_ns_ = std::min(rescan_at_ns_, clock_.monotonic_ns() + kRescanShortageNs);
}

// Files found by a scan may be half-written: they are offered after the settle time, with what was seen now, and
// whoever reads one that has changed since must call look_again().
void Watcher::scan(const std::string& agent, Box& box) {
  box.needs_scan = false;
  Result<Fd> outbox = root_.open_outbox(agent);
  Result<Oldest> found = outbox.ok() ? list_oldest(outbox->get(), kPage) : Result<Oldest>(outbox.error());
  if (!found.ok()) {
    log_.note(Severity::kError, "scan_failed", {{"agent", agent}, {"error", found.error().message()}});
    rescan_soon_after(found.error());
    return;
  }
  for (const std::string& name : found->ill_named) on_outbox(agent, IN_CREATE, name);
  // Files that were renamed here while we watched have an event by now, and need not wait.
  take_events();
  std::map<std::string, Item> known;  // with what is known about them: settled files are not complete
  for (const Item& item : box.ready) known.emplace(item.file, item);
  std::int64_t now = clock_.monotonic_ns();
  std::erase_if(found->names, [&](const std::string& name) { return box.settling.contains(name); });
  bool has_news = std::any_of(found->names.begin(), found->names.end(),
                              [&](const std::string& name) { return !known.contains(name); });
  box.needs_scan |= found->has_more;
  if (!has_news) return;
  // Events were lost, so the order is now that of the names. A file that arrived during the scan may be missing from it
  // although a later one is not; its event adds it.
  std::set<std::string> seen(found->names.begin(), found->names.end());
  for (const auto& [name, item] : known) {
    if (name < *seen.rbegin() && !seen.contains(name)) found->names.push_back(name);
  }
  std::sort(found->names.begin(), found->names.end());
  std::set<std::string_view> listed(found->names.begin(), found->names.end());
  std::erase_if(box.ready, [&](const Item& item) { return listed.contains(item.file); });
  for (std::string& name : found->names) {
    auto item = known.find(name);
    if (item != known.end()) {
      box.page.push_back(std::move(item->second));
    } else {
      Sighting sighting = look_at(outbox->get(), name);
      box.page.push_back({std::move(name), false, now, sighting});
    }
  }
  box.page_at_ns = now + settle_ns();
}

// An empty file is waited for. One that stays empty is not a valid message: it is offered, so that its sender gets an
// error.
bool Watcher::is_growing(const Settling& one, const Sighting& now_seen, std::int64_t now) {
  if (now_seen != one.seen) return true;
  return now_seen.size == 0 && now - one.first_seen_ns < kEmptyNs;
}

void Watcher::settle(const std::string& agent, Box& box) {
  std::int64_t now = clock_.monotonic_ns();
  if (std::none_of(box.settling.begin(), box.settling.end(),
                   [&](const auto& one) { return one.second.look_at_ns <= now; })) {
    return;
  }
  Result<Fd> outbox = root_.open_outbox(agent);
  if (!outbox.ok()) return;
  for (auto at = box.settling.begin(); at != box.settling.end();) {
    Settling& one = at->second;
    struct stat info {};
    if (one.look_at_ns > now) {
      ++at;
    } else if (::fstatat(outbox->get(), at->first.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      at = box.settling.erase(at);
    } else if (S_ISREG(info.st_mode) && is_growing(one, sighting_of(info), now)) {
      one.seen = sighting_of(info);
      one.look_at_ns = now + settle_ns();
      ++at;
    } else {
      box.ready.push_back({at->first, false, one.first_seen_ns, sighting_of(info)});
      at = box.settling.erase(at);
    }
  }
}

void Watcher::refill(Box& box) const {
  std::int64_t now = clock_.monotonic_ns();
  auto rate = static_cast<double>(config_.rate_per_second);
  box.tokens = std::min(rate, box.tokens + rate * static_cast<double>(now - box.filled_ns) / 1e9);
  box.filled_ns = now;
}

std::size_t Watcher::take_from(const std::string& agent, Box& box, std::size_t limit, std::vector<Candidate>& out) {
  if (box.is_paused) return 0;
  settle(agent, box);
  refill(box);
  if (box.page.empty() && box.needs_scan) scan(agent, box);
  std::size_t taken = 0;
  while (taken < limit && (config_.rate_per_second == 0 || box.tokens >= 1)) {
    bool from_page = !box.page.empty();
    if (from_page && box.page_at_ns > clock_.monotonic_ns()) break;
    if (!from_page && box.needs_scan) break;  // the outbox has more files, and they are older
    std::deque<Item>& queue = from_page ? box.page : box.ready;
    if (queue.empty()) break;
    Item& first = queue.front();
    out.push_back({agent, std::move(first.file), first.is_complete, first.first_seen_ns, first.seen});
    queue.pop_front();
    box.tokens -= 1;
    ++taken;
  }
  return taken;
}

bool Watcher::is_idle(const Box& box) const {
  return box.page.empty() && box.ready.empty() && box.settling.empty() && !box.needs_scan;
}

std::vector<Candidate> Watcher::next(std::size_t limit) {
  std::vector<Candidate> out;
  std::vector<std::string> turn(busy_.upper_bound(last_served_), busy_.end());
  turn.insert(turn.end(), busy_.begin(), busy_.upper_bound(last_served_));
  for (const std::string& agent : turn) {
    if (out.size() >= limit) break;
    Box& box = boxes_.at(agent);
    take_from(agent, box, std::min(kTurn, limit - out.size()), out);
    last_served_ = agent;
    if (is_idle(box)) busy_.erase(agent);
  }
  return out;
}

bool Watcher::has_backlog() const {
  return std::any_of(busy_.begin(), busy_.end(), [this](const std::string& agent) {
    const Box& box = boxes_.at(agent);
    return !box.page.empty() || !box.ready.empty() || box.needs_scan;
  });
}

void Watcher::look_again(const Candidate& candidate, Delay delay) {
  auto found = boxes_.find(candidate.agent);
  if (found == boxes_.end()) return;
  std::int64_t now = clock_.monotonic_ns();
  std::int64_t wait_ns = settle_ns();
  if (delay == Delay::kGrowing)
    wait_ns = std::clamp(now - candidate.first_seen_ns, wait_ns, std::max(wait_ns, kTroubleNs));
  std::int64_t look_at_ns = now + wait_ns;
  found->second.settling.insert_or_assign(candidate.file, Settling{candidate.first_seen_ns, look_at_ns, {}});
  busy_.insert(candidate.agent);
}

void Watcher::put_back(const std::vector<Candidate>& all) {
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    auto found = boxes_.find(at->agent);
    if (found == boxes_.end()) continue;
    found->second.page.push_front({at->file, at->is_complete, at->first_seen_ns, at->seen});
    busy_.insert(at->agent);
  }
}

void Watcher::pause(const std::vector<Candidate>& all) {
  put_back(all);
  for (const Candidate& candidate : all) {
    auto found = boxes_.find(candidate.agent);
    if (found != boxes_.end()) found->second.is_paused = true;
  }
}

void Watcher::resume(const std::string& agent) {
  auto found = boxes_.find(agent);
  if (found != boxes_.end()) found->second.is_paused = false;
}

std::size_t Watcher::count_waiting() const {
  std::size_t count = 0;
  for (const std::string& agent : busy_) {
    const Box& box = boxes_.at(agent);
    count += box.page.size() + box.ready.size() + box.settling.size();
  }
  return count;
}

std::vector<LeftInbox> Watcher::take_left() { return std::exchange(left_, {}); }

std::set<std::string> Watcher::take_inboxes_to_check() { return std::exchange(inboxes_to_check_, {}); }

void Watcher::clean_pending(const std::string& agent) {
  Result<Fd> pending = root_.open_agent_dir(agent, "outbox/.pending");
  if (!pending.ok()) return;
  Result<std::vector<HostEntry>> entries = list_host_dir(pending->get());
  if (!entries.ok()) return;
  std::int64_t now = clock_.monotonic_ns();
  std::string prefix = agent + "/";
  std::map<std::string, Leftover> seen;
  for (const HostEntry& entry : *entries) {
    if (S_ISDIR(entry.attributes.st_mode) || seen.size() >= kRemembered) continue;
    std::string key = prefix + entry.name;
    auto known = leftovers_.find(key);
    bool is_same = known != leftovers_.end() && known->second.mtime_ns == mtime_ns(entry.attributes);
    Leftover leftover = is_same ? known->second : Leftover{now, mtime_ns(entry.attributes)};
    if (now - leftover.first_seen_ns < kLeftoverNs) {
      seen.emplace(std::move(key), leftover);
    } else if (::unlinkat(pending->get(), entry.name.c_str(), 0) == 0) {
      log_.note(Severity::kWarning, "leftover_removed", {{"agent", agent}, {"file", entry.name}});
    }
  }
  leftovers_.erase(leftovers_.lower_bound(prefix), leftovers_.lower_bound(agent + "0"));  // '0' follows '/'
  leftovers_.merge(seen);
}

bool Watcher::take_agents_changed() {
  if (clock_.monotonic_ns() >= agents_changed_at_ns_) {
    agents_changed_at_ns_ = INT64_MAX;
    agents_changed_ = true;
  }
  return std::exchange(agents_changed_, false);
}

std::optional<std::int64_t> Watcher::wake_at_ns() const {
  std::int64_t at = std::min(rescan_at_ns_, agents_changed_at_ns_);
  std::int64_t now = clock_.monotonic_ns();
  for (const std::string& agent : busy_) {
    const Box& box = boxes_.at(agent);
    if (box.is_paused) continue;
    bool has_tokens = config_.rate_per_second == 0 || box.tokens >= 1;
    std::int64_t tokens_at =
        has_tokens ? now : now + 1'000'000'000 / std::max<std::int64_t>(1, config_.rate_per_second);
    if (!box.page.empty()) at = std::min(at, std::max(box.page_at_ns, tokens_at));
    if (box.page.empty() && (box.needs_scan || !box.ready.empty())) at = std::min(at, tokens_at);
    for (const auto& [name, one] : box.settling) at = std::min(at, one.look_at_ns);
  }
  return at;
}

}  // namespace warren::relay
