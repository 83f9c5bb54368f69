// warren relay top: a live view of a relay.
#include <array>
#include <csignal>

#include <poll.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/relay/relay_commands.h"
#include "cli/relay/relay_frame.h"
#include "cli/show/screen.h"
#include "os/processes/signals.h"
#include "os/terminal.h"

namespace warren::cli {
namespace {

constexpr std::int64_t kIntervalNs = 1'000'000'000;
constexpr std::int64_t kStillNs = 3 * kIntervalNs;  // a relay that writes nothing for so long is idle
constexpr std::size_t kAll = 100'000;               // lines and columns, if unlimited

RelayReading read_now(Context& context, const relay::Root& root) {
  RelayReading reading{.is_up = root.is_locked_by_other(),
                       .root = root.path(),
                       .at_seconds = static_cast<double>(context.clock.now_us()) / 1e6,
                       .stats = Json::object()};
  Result<Json> stats = read_relay_stats(root);
  if (stats.ok()) reading.stats = std::move(stats).take_value();
  return reading;
}

// Whether q or ^C was pressed, or the input has ended.
bool is_quit_requested(int input) {
  std::array<char, 64> keys{};
  pollfd ready{input, POLLIN, 0};
  while (::poll(&ready, 1, 0) > 0) {
    ssize_t got = ::read(input, keys.data(), keys.size());
    if (got <= 0) return true;
    for (ssize_t i = 0; i < got; ++i) {
      char key = keys.at(static_cast<std::size_t>(i));
      if (key == 'q' || key == 'Q' || key == '\x03') return true;
    }
  }
  return false;
}

Status follow(Context& context, const relay::Root& root) {
  Signals signals = WARREN_TRY(Signals::take({SIGINT, SIGTERM, SIGHUP, SIGWINCH}));
  bool has_keys = is_terminal(context.input);
  std::optional<RawTerminal> raw;
  if (has_keys) raw.emplace(WARREN_TRY(RawTerminal::enter(context.input)));
  Screen screen(context.out);
  RelayReading before;
  RelayReading now = read_now(context, root);
  std::int64_t changed_ns = context.clock.monotonic_ns();
  for (std::int64_t next_ns = changed_ns + kIntervalNs;;) {
    screen.show(relay_frame(before, now, static_cast<std::size_t>(terminal_columns(STDOUT_FILENO)),
                            static_cast<std::size_t>(terminal_rows(STDOUT_FILENO))));
    if (!context.out.status().ok()) return context.out.status();
    std::int64_t left_ns = next_ns - context.clock.monotonic_ns();
    if (left_ns <= 0) {
      std::int64_t now_ns = context.clock.monotonic_ns();
      next_ns = now_ns + kIntervalNs;
      RelayReading read = read_now(context, root);
      bool is_changed = read.stats != now.stats || read.is_up != now.is_up;
      if (is_changed) changed_ns = now_ns;
      if (is_changed || now_ns - changed_ns > kStillNs) before = now;
      now = std::move(read);
      continue;
    }
    auto wait = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(left_ns));
    int signal = WARREN_TRY(signals.wait(has_keys ? context.input : -1, wait));
    if ((signal != 0 && signal != SIGWINCH) || (has_keys && is_quit_requested(context.input))) return Ok{};
  }
}

Result<Exit> run_top(Context& context, const Arguments& args) {
  auto root = WARREN_TRY(open_relay_root(args));
  if (!args.has("once") && !args.has("json") && context.out.is_terminal()) {
    WARREN_TRY(follow(context, *root));
    return Exit::kOk;
  }
  if (args.has("json")) {
    RelayReading reading = read_now(context, *root);
    Json json = {{"root", reading.root}, {"up", reading.is_up}};
    json.update(reading.stats);
    context.out.json(json);
    return Exit::kOk;
  }
  for (const std::string& line : relay_frame({}, read_now(context, *root), kAll, kAll)) context.out.line(line);
  return Exit::kOk;
}

}  // namespace

Command make_relay_top() {
  return {.name = "top",
          .summary = "Watch the relay live: queue, rates, latencies, unread messages",
          .details = "Updates once a second until q or ^C. If the output is not a terminal, prints once.",
          .options = {{.name = "once", .help = "print once and exit"},
                      {.name = "json", .help = "print the numbers once, as JSON"}},
          .handler = run_top};
}

}  // namespace warren::cli
