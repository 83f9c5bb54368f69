#include "cli/relay/relay_frame.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/format_size.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"

namespace warren::cli {
namespace {

// stats.json may be from another version, or damaged: missing values count as 0.
double number(const Json& json, std::string_view key) {
  if (!json.is_object()) return 0;
  auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

const Json& part(const Json& json, std::string_view key) {
  static const Json kNothing;
  auto found = json.find(key);  // end() if it is not an object
  return found != json.end() ? *found : kNothing;
}

std::vector<double> numbers(const Json& json) {
  std::vector<double> out;
  if (!json.is_array()) return out;
  for (const Json& one : json) out.push_back(one.is_number() ? one.get<double>() : 0);
  return out;
}

std::string format_latency(double seconds) {
  if (seconds < 0) return "-";
  if (seconds < 0.001) return fmt::format("{:.2f} ms", seconds * 1e3);
  return seconds < 1 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.1f} s", seconds);
}

std::string format_age(double seconds) {
  auto whole = static_cast<std::int64_t>(std::max(0.0, seconds));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  if (whole < 86'400) return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}d {:02}h", whole / 86'400, whole / 3600 % 24);
}

class Frame {
 public:
  Frame(const RelayReading& before, const RelayReading& now) : now_(now.stats) {
    bool is_same_run = before.is_up && number(before.stats, "started_at") == number(now.stats, "started_at");
    if (is_same_run) before_ = before.stats;
    seconds_ = number(now_, "uptime") - number(before_, "uptime");
  }

  bool is_since_start() const { return before_.is_null(); }
  double count(std::string_view key) const { return number(now_, key); }
  double rate(std::string_view key) const {
    double change = number(now_, key) - number(before_, key);
    return seconds_ > 0 ? change / seconds_ : 0;
  }

  std::string latency_line() const {
    std::vector<double> bounds = numbers(part(part(now_, "latency"), "bounds"));
    std::vector<double> buckets = numbers(part(part(now_, "latency"), "buckets"));
    std::vector<double> earlier = numbers(part(part(before_, "latency"), "buckets"));
    for (std::size_t i = 0; i < buckets.size() && i < earlier.size(); ++i) buckets[i] -= earlier[i];
    return fmt::format("latency     p50 {}   p99 {}   {}", format_latency(quantile(bounds, buckets, 0.5)),
                       format_latency(quantile(bounds, buckets, 0.99)),
                       is_since_start() ? "(since it started)" : "(since the last update)");
  }

  std::string counts_line(std::string_view title, std::string_view key) const {
    std::string line = pad_right(std::string(title), 12);
    for (const auto& [name, value] : part(now_, key).items()) {
      if (value.is_number()) line += fmt::format("{} {}   ", printable(name), value.get<std::int64_t>());
    }
    return line;
  }

 private:
  Json now_;
  Json before_;
  double seconds_ = 0;
};

void add_waiting(const Json& stats, std::vector<std::string>& lines) {
  std::vector<std::pair<std::int64_t, std::string>> agents;
  for (const auto& [name, value] : part(stats, "waiting").items()) {
    if (value.is_number()) agents.emplace_back(value.get<std::int64_t>(), name);
  }
  if (agents.empty()) return;
  std::sort(agents.begin(), agents.end(),
            [](const auto& a, const auto& b) { return std::pair(-a.first, a.second) < std::pair(-b.first, b.second); });
  lines.insert(lines.end(), {"", "   waiting  agent"});
  for (const auto& [count, name] : agents) lines.push_back(fmt::format("{:>10}  {}", count, printable(name)));
}

}  // namespace

double quantile(const std::vector<double>& bounds, const std::vector<double>& buckets, double share) {
  double total = 0;
  for (double one : buckets) total += one;
  if (total <= 0 || bounds.empty()) return -1;
  double wanted = share * total;
  double sum = 0;
  for (std::size_t i = 0; i < buckets.size() && i < bounds.size(); ++i) {
    if (buckets[i] > 0 && sum + buckets[i] >= wanted) {
      double low = i == 0 ? 0 : bounds[i - 1];
      return low + (bounds[i] - low) * (wanted - sum) / buckets[i];
    }
    sum += buckets[i];
  }
  return bounds.back();  // at least
}

std::vector<std::string> relay_frame(const RelayReading& before, const RelayReading& now, std::size_t columns,
                                     std::size_t rows) {
  Frame frame(before, now);
  std::string metrics = part(now.stats, "metrics").is_string() ? now.stats["metrics"].get<std::string>() : "";
  std::vector<std::string> lines;
  lines.push_back(fmt::format("relay {}   {}{}", printable(now.root),
                              now.is_up ? "up " + format_age(now.at_seconds - frame.count("started_at")) : "down",
                              now.is_up && !metrics.empty() ? "   metrics " + printable(metrics) : ""));
  lines.push_back(fmt::format("queue       {:.0f}   in outboxes {:.0f}   dead letters {:.0f}",
                              frame.count("queue_depth"), frame.count("outbox_files"),
                              frame.count("open_dead_letters")));
  lines.push_back(frame.counts_line("deliveries", "deliveries"));
  lines.push_back(fmt::format("per second  accepted {:.1f}   delivered {:.1f}   read {:.1f}   bytes {}",
                              frame.rate("accepted"), frame.rate("delivered"), frame.rate("read"),
                              format_size(static_cast<std::uint64_t>(std::max(0.0, frame.rate("accepted_bytes"))))));
  lines.push_back(frame.latency_line());
  lines.push_back(fmt::format("since start refused {:.0f}   retries {:.0f}   failed rounds {:.0f}   overflows {:.0f}",
                              frame.count("refused"), frame.count("retries"), frame.count("rounds_failed"),
                              frame.count("inotify_overflows")));
  lines.push_back(frame.counts_line("agents", "agents"));
  lines.push_back(fmt::format("disk        {:.0f} % used", frame.count("disk_used") * 100));
  for (const Json& problem : part(now.stats, "problems")) {
    if (problem.is_string()) lines.push_back("PROBLEM     " + printable(problem.get<std::string>()));
  }
  add_waiting(now.stats, lines);
  if (lines.size() > rows) lines.resize(rows);
  for (std::string& line : lines) {
    while (!line.empty() && line.back() == ' ') line.pop_back();
    line = shorten(line, columns);
  }
  return lines;
}

}  // namespace warren::cli
