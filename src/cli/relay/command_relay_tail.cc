// `warren relay tail`: the end of the relay's log, for people or as it is.
#include <algorithm>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/relay/relay_commands.h"
#include "cli/relay/relay_waiting.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "os/files/host_files.h"

namespace warren::cli {
namespace {

constexpr std::size_t kWholeSeconds = std::string_view("2026-11-17T09:30:00").size();
constexpr std::size_t kLineBytes = std::size_t{1} << 20;  // a longer one is printed in pieces

Ink ink_of(std::string_view level) {
  if (level == "error") return Ink::kRed;
  if (level == "warning") return Ink::kYellow;
  return Ink::kPlain;
}

std::string log_value(const Context& context, const Json& value) {
  if (!value.is_string()) return context.out.name(dump_json(value));
  const std::string& text = value.get_ref<const std::string&>();
  bool is_word = !text.empty() && text.find_first_of(" \t\r\n\"=") == text.npos;
  return context.out.name(is_word ? text : dump_json(value));
}

// "2026-11-17 09:30:00 warning refused message=a/1 error="there is no agent 'x'"". What is not a line of the log is
// printed as it is.
void print_log_line(Context& context, std::string_view line) {
  Result<Json> parsed = parse_json(line);
  bool is_event = parsed.ok() && parsed->is_object() && parsed->contains("event") && (*parsed)["event"].is_string();
  if (!is_event) {
    context.out.line(context.out.name(line));
    return;
  }
  Json& event = *parsed;
  std::string when = event.value("ts", Json()).is_string() ? event["ts"].get<std::string>() : "";
  Result<std::int64_t> seconds = parse_time(when.substr(0, kWholeSeconds) + "Z");
  std::string level = event.value("level", Json()).is_string() ? event["level"].get<std::string>() : "";
  std::string name = event["event"].get<std::string>();
  std::replace(name.begin(), name.end(), '_', ' ');
  context.out.print("{} {} {}", seconds.ok() ? context.out.time(*seconds) : context.out.name(when),
                    context.out.paint(ink_of(level), context.out.name(level)), context.out.name(name));
  for (const auto& [key, value] : event.items()) {
    if (key == "ts" || key == "level" || key == "event") continue;
    context.out.print(" {}={}", context.out.name(key), log_value(context, value));
  }
  context.out.print("\n");
}

// Collects what is read into lines.
class LogLines {
 public:
  LogLines(Context& context, bool is_raw) : context_(context), is_raw_(is_raw) {}

  void add(std::string_view text) {
    if (is_raw_) return context_.out.text(text);
    rest_ += text;
    std::size_t done = 0;
    for (std::size_t end = rest_.find('\n'); end != rest_.npos; end = rest_.find('\n', done)) {
      print_log_line(context_, std::string_view(rest_).substr(done, end - done));
      done = end + 1;
    }
    rest_.erase(0, done);
    if (rest_.size() > kLineBytes) finish();
  }
  void finish() {  // with a line that has no end
    if (!rest_.empty()) print_log_line(context_, rest_);
    rest_.clear();
  }

 private:
  Context& context_;
  bool is_raw_;
  std::string rest_;
};

bool is_renamed(const relay::Root& root, const Fd& log) {
  struct stat mine {};
  struct stat named {};
  return ::fstat(log.get(), &mine) == 0 && ::fstatat(root.dir(), "relay.log", &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         named.st_ino != mine.st_ino;
}

// Prints the log's last lines. With --follow, continues with the new log after a rotation.
Result<Exit> run_tail(Context& context, const Arguments& args) {
  constexpr off_t kLast = 4096;
  auto root = WARREN_TRY(open_relay_root(args));
  Fd log = WARREN_TRY(relay::open_below(root->dir(), "relay.log", O_RDONLY));
  std::optional<RelayWaiting> waiting;
  if (args.has("follow")) waiting = WARREN_TRY(RelayWaiting::open(root->dir()));
  off_t size = ::lseek(log.get(), 0, SEEK_END);
  std::string buffer(65'536, '\0');
  ::lseek(log.get(), std::max<off_t>(0, size - kLast), SEEK_SET);
  bool skip_line = size > kLast;
  LogLines lines(context, args.has("json"));
  for (;;) {
    bool is_rotated = is_renamed(*root, log);  // checked first, so that the read below gets everything
    std::size_t got = WARREN_TRY(read_some(log.get(), as_mutable_bytes(buffer)));
    std::string_view text = std::string_view(buffer).substr(0, got);
    if (skip_line) text.remove_prefix(std::min(text.size(), text.find('\n') + 1));
    skip_line = false;
    lines.add(text);
    if (got > 0) continue;
    if (!waiting) break;
    WARREN_TRY(context.out.finish());
    Result<Fd> next = is_rotated ? relay::open_below(root->dir(), "relay.log", O_RDONLY) : Result<Fd>(Fd());
    if (is_rotated && next.ok()) log = std::move(next).take_value();
    else if (WARREN_TRY(waiting->wait()) == RelayWaiting::Woken::kEnd) break;
  }
  lines.finish();
  return Exit::kOk;
}

}  // namespace

Command make_relay_tail() {
  return {.name = "tail",
          .summary = "Show the end of the relay's log",
          .details = "",
          .options = {{.name = "follow", .letter = 'f', .help = "continue as lines are added"},
                      {.name = "json", .help = "print the lines as they are: JSON"}},
          .handler = run_tail};
}

}  // namespace warren::cli
