#include "relay/upkeep/metrics.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace warren::relay {
namespace {

constexpr double kStallSeconds = 30;      // one iteration of the relay's loop normally takes milliseconds
constexpr double kForgottenSeconds = 60;  // a file in an outbox may wait for its settle time or its sender's rate limit

struct Described {
  std::string_view name;
  std::string_view help;
};
constexpr std::array<Described, kTallies> kDescribed = {{
    {"accepted", "Messages taken from outboxes and recorded"},
    {"accepted_bytes", "Bytes of those messages"},
    {"delivered", "Deliveries made durable in an inbox"},
    {"read", "Deliveries that left their inbox"},
    {"acked", "Deliveries acknowledged"},
    {"nacked", "Deliveries refused by their recipient"},
    {"refused", "Messages answered with a nack instead of being sent"},
    {"retries", "Deliveries to be retried because they, or one before them, failed"},
    {"dead_letters", "Messages that became dead letters"},
    {"operations_failed", "Requests of operators and agents that could not be carried out"},
    {"rounds", "Successful rounds"},
    {"rounds_failed", "Rounds that failed and were retried"},
    {"inotify_overflows", "Times the kernel dropped events"},
    {"archive_files_removed", "Archived messages removed because of their age or for space"},
    {"ledger_messages_removed", "Messages removed from the ledger because of their age"},
    {"done_files_removed", "Files in inbox/.done removed because of their age"},
}};

class Page {
 public:
  void head(std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(text_), "# HELP warren_relay_{} {}\n# TYPE warren_relay_{} {}\n", name, help,
                   name, type);
  }
  template <class Value>
  void sample(std::string_view name, std::string_view label, Value value) {
    fmt::format_to(std::back_inserter(text_), "warren_relay_{}{} {}\n", name, label, value);
  }
  template <class Value>
  void gauge(std::string_view name, std::string_view help, Value value) {
    head(name, "gauge", help);
    sample(name, "", value);
  }
  // Labels are our own words, so nothing needs escaping.
  void gauges(std::string_view name, std::string_view help, std::string_view label,
              const std::map<std::string, std::int64_t>& values) {
    head(name, "gauge", help);
    for (const auto& [key, value] : values) sample(name, fmt::format("{{{}=\"{}\"}}", label, key), value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void render_latencies(Page& page, const Snapshot& snapshot) {
  constexpr std::string_view kName = "delivery_latency_seconds";
  page.head(kName, "histogram", "From noticing a message in an outbox until it is durable in an inbox");
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kLatencyBounds.size(); ++i) {
    sum += snapshot.latencies.at(i);
    page.sample(fmt::format("{}_bucket", kName), fmt::format("{{le=\"{}\"}}", kLatencyBounds.at(i)), sum);
  }
  sum += snapshot.latencies.back();
  page.sample(fmt::format("{}_bucket", kName), "{le=\"+Inf\"}", sum);
  page.sample(fmt::format("{}_sum", kName), "", snapshot.latency_seconds);
  page.sample(fmt::format("{}_count", kName), "", sum);
}

// Includes states without deliveries, so that every series exists from the start.
std::map<std::string, std::int64_t> all_states(const std::map<std::string, std::int64_t>& counted) {
  std::map<std::string, std::int64_t> all = counted;
  for (int state = 0; state <= static_cast<int>(DeliveryState::kDead); ++state) {
    all.try_emplace(std::string(name_of(static_cast<DeliveryState>(state))), 0);
  }
  return all;
}

std::map<std::string, std::int64_t> with(std::map<std::string, std::int64_t> counted,
                                         std::initializer_list<const char*> words) {
  for (const char* word : words) counted.try_emplace(word, 0);
  return counted;
}

std::int64_t count_in(const std::map<std::string, std::int64_t>& counted, const char* key) {
  auto found = counted.find(key);
  return found == counted.end() ? 0 : found->second;
}

}  // namespace

std::int64_t Snapshot::queue_depth() const {
  return outbox_files + count_in(ledger.deliveries, "pending") + count_in(ledger.deliveries, "stored") +
         count_in(ledger.deliveries, "held");
}

Metrics::Metrics(Clock& clock)
    : clock_(clock),
      started_ns_(clock.monotonic_ns()),
      started_at_us_(clock.now_us()),
      round_at_ns_(clock.monotonic_ns()) {}

void Metrics::note_round() {
  add(Tally::kRounds);
  round_at_ns_.store(clock_.monotonic_ns(), std::memory_order_relaxed);
}

void Metrics::note_latency(std::int64_t nanoseconds) {
  nanoseconds = std::max<std::int64_t>(0, nanoseconds);
  double seconds = static_cast<double>(nanoseconds) / 1e9;
  auto bucket = std::lower_bound(kLatencyBounds.begin(), kLatencyBounds.end(), seconds) - kLatencyBounds.begin();
  latencies_.at(static_cast<std::size_t>(bucket)).fetch_add(1, std::memory_order_relaxed);
  latency_ns_.fetch_add(static_cast<std::uint64_t>(nanoseconds), std::memory_order_relaxed);
}

void Metrics::set_agents(std::map<std::string, std::int64_t> by_status) {
  std::lock_guard lock(mutex_);
  slow_.agents = std::move(by_status);
}

void Metrics::set_failure(int in_a_row, std::string why) {
  std::lock_guard lock(mutex_);
  slow_.failures = in_a_row;
  slow_.failure = std::move(why);
}

void Metrics::set_disk(double used, bool is_low) {
  std::lock_guard lock(mutex_);
  slow_.disk_used = used;
  slow_.disk_is_low = is_low;
}

void Metrics::set_ledger(Counts counts, std::map<std::string, std::int64_t> waiting) {
  std::lock_guard lock(mutex_);
  slow_.ledger = std::move(counts);
  slow_.waiting = std::move(waiting);
}

void Metrics::set_address(std::string address) {
  std::lock_guard lock(mutex_);
  slow_.address = std::move(address);
}

void Metrics::set_config_remark(std::string remark) {
  std::lock_guard lock(mutex_);
  slow_.config_remark = std::move(remark);
}

Snapshot Metrics::take() const {
  Snapshot out;
  {
    std::lock_guard lock(mutex_);
    out = slow_;
  }
  for (std::size_t i = 0; i < kTallies; ++i) out.tallies.at(i) = tallies_.at(i).load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < latencies_.size(); ++i) {
    out.latencies.at(i) = latencies_.at(i).load(std::memory_order_relaxed);
  }
  out.latency_seconds = static_cast<double>(latency_ns_.load(std::memory_order_relaxed)) / 1e9;
  out.outbox_files = outbox_files_.load(std::memory_order_relaxed);
  std::int64_t now = clock_.monotonic_ns();
  std::int64_t busy_since = busy_since_ns_.load(std::memory_order_relaxed);
  out.busy_seconds = busy_since == 0 ? 0 : static_cast<double>(now - busy_since) / 1e9;
  out.since_round_seconds = static_cast<double>(now - round_at_ns_.load(std::memory_order_relaxed)) / 1e9;
  out.uptime_seconds = static_cast<double>(now - started_ns_) / 1e9;
  out.started_at_seconds = static_cast<double>(started_at_us_) / 1e6;
  return out;
}

std::string render_metrics(const Snapshot& snapshot) {
  Page page;
  for (std::size_t i = 0; i < kTallies; ++i) {
    std::string name = fmt::format("{}_total", kDescribed.at(i).name);
    page.head(name, "counter", kDescribed.at(i).help);
    page.sample(name, "", snapshot.tallies.at(i));
  }
  render_latencies(page, snapshot);
  page.gauges("messages", "Messages in the ledger by status, as last counted", "status",
              with(snapshot.ledger.messages, {"processing", "completed", "failed"}));
  page.gauges("deliveries", "Deliveries in the ledger by state, as last counted", "state",
              all_states(snapshot.ledger.deliveries));
  page.gauges("agents", "Agents by status", "status", with(snapshot.agents, {"active", "inactive", "terminated"}));
  page.gauge("dead_letters", "Dead letters neither retried nor dismissed yet", snapshot.ledger.dead_letters);
  page.gauge("outbox_files", "Files noticed in outboxes and not processed yet", snapshot.outbox_files);
  page.gauge("queue_depth", "Files in outboxes, and deliveries that are pending, stored or held",
             snapshot.queue_depth());
  page.gauge("disk_used_ratio", "Used share of the filesystem with the relay's root", snapshot.disk_used);
  page.gauge("failing_rounds", "Consecutive failed rounds", snapshot.failures);
  page.gauge("start_time_seconds", "Start time of the relay, in seconds since 1970", snapshot.started_at_seconds);
  page.gauge("uptime_seconds", "Uptime of the relay", snapshot.uptime_seconds);
  return page.take();
}

Json stats_json(const Snapshot& snapshot) {
  Json json = {{"started_at", snapshot.started_at_seconds}, {"uptime", snapshot.uptime_seconds}};
  for (std::size_t i = 0; i < kTallies; ++i) json[std::string(kDescribed.at(i).name)] = snapshot.tallies.at(i);
  json["latency"] = {{"bounds", kLatencyBounds}, {"buckets", snapshot.latencies}, {"sum", snapshot.latency_seconds}};
  json["messages"] = snapshot.ledger.messages;
  json["deliveries"] = snapshot.ledger.deliveries;
  json["open_dead_letters"] = snapshot.ledger.dead_letters;
  json["agents"] = snapshot.agents;
  json["waiting"] = snapshot.waiting;
  json["outbox_files"] = snapshot.outbox_files;
  json["queue_depth"] = snapshot.queue_depth();
  json["disk_used"] = snapshot.disk_used;
  if (!snapshot.address.empty()) json["metrics"] = snapshot.address;
  if (!snapshot.config_remark.empty()) json["config"] = snapshot.config_remark;
  json["problems"] = problems_of(snapshot);
  return json;
}

std::vector<std::string> problems_of(const Snapshot& snapshot) {
  std::vector<std::string> problems;
  if (snapshot.failures > 0) {
    problems.push_back(fmt::format("rounds are failing ({} in a row): {}", snapshot.failures, snapshot.failure));
  }
  if (snapshot.disk_is_low) {
    problems.push_back(fmt::format("the disk is nearly full: {:.1f} % used", snapshot.disk_used * 100));
  }
  if (snapshot.busy_seconds > kStallSeconds) {
    problems.push_back(fmt::format("the relay has been busy for {:.0f} seconds", snapshot.busy_seconds));
  }
  if (snapshot.outbox_files > 0 && snapshot.since_round_seconds > kForgottenSeconds) {
    problems.push_back(fmt::format("{} files wait in outboxes, but no round has succeeded for {:.0f} seconds",
                                   snapshot.outbox_files, snapshot.since_round_seconds));
  }
  return problems;
}

}  // namespace warren::relay
