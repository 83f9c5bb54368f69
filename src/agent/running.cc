#include "agent/running.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/json.h"
#include "base/path.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::size_t kEntryBytes = 1 << 20;           // ten paths of the greatest length fit, escaped twice
constexpr std::size_t kCommandBytes = 4096;            // an argument list may have megabytes
constexpr std::string_view kFailedSuffix = ".failed";  // after the name of the entry

// Candidate directories for the private folder, best first. The last one always exists.
std::vector<std::string> places() {
  std::vector<std::string> all;
  const char* given = std::getenv("XDG_RUNTIME_DIR");
  if (given != nullptr && *given == '/') all.emplace_back(given);
  if (::geteuid() == 0) all.emplace_back("/run");
  all.emplace_back("/tmp");
  return all;
}

Json to_json(const Running& running) {
  return {{"kind", running.kind},
          {"agent", running.agent},
          {"dir", running.dir},
          {"command", running.command},
          {"started_at", running.started_at},
          {"boot", running.process.boot},
          {"pid_namespace", running.process.pid_namespace},
          {"pid", running.process.pid},
          {"started", running.process.started},
          {"lost", running.lost}};
}

Result<Running> parse_running(std::string_view text) {
  Json json = WARREN_TRY(parse_json(text));
  if (!json.is_object()) return Error(Code::kCorrupt, "not a valid entry");
  auto string = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : std::string();
  };
  auto number = [&](const char* key) {
    return json.contains(key) && json[key].is_number_integer() ? json[key].get<std::int64_t>() : std::int64_t{0};
  };
  return Running{.kind = string("kind"),
                 .agent = string("agent"),
                 .dir = string("dir"),
                 .command = string("command"),
                 .started_at = number("started_at"),
                 .process = {.boot = string("boot"),
                             .pid_namespace = number("pid_namespace"),
                             .pid = number("pid"),
                             .started = number("started")},
                 .lost = string("lost")};
}

}  // namespace

// Accepts only a folder that belongs to the user: in /tmp another user could have made it, to read or to plant files.
Result<std::string> runtime_folder() {
  std::string folder;
  bool is_there = false;
  for (const std::string& base : places()) {
    folder = fmt::format("{}/warren-{}", base, ::geteuid());
    is_there = ::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST;
    if (is_there) break;
  }
  if (!is_there) return system_error(errno, fmt::format("make {}", quote(folder)));
  struct stat info {};
  if (::lstat(folder.c_str(), &info) != 0) return system_error(errno, fmt::format("stat {}", quote(folder)));
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()) {
    return Error(Code::kDenied, fmt::format("{} is not a directory owned by you", quote(folder)),
                 "set XDG_RUNTIME_DIR to a directory of your own");
  }
  return folder;
}

Result<std::unique_ptr<RunningEntry>> RunningEntry::add(Running running) {
  std::string folder = WARREN_TRY(runtime_folder());
  running.process = current_process();
  if (running.command.size() > kCommandBytes) running.command = running.command.substr(0, kCommandBytes) + "...";
  std::string file = fmt::format("{}/{}.json", folder, running.process.pid);
  WARREN_TRY(replace_host_file(file, dump_json_pretty(to_json(running)), 0600));
  return std::unique_ptr<RunningEntry>(new RunningEntry(std::move(file), std::move(running)));
}

void RunningEntry::set_lost(std::string lost) {
  running_.lost = std::move(lost);
  replace_host_file(file_, dump_json_pretty(to_json(running_)), 0600).ignore("it is reported at the end, too");
}

void RunningEntry::leave_failure(const Error& error) const {
  Json json = to_json(running_);
  json["failure"] = error.message();
  json["hint"] = error.hint();
  replace_host_file(file_ + std::string(kFailedSuffix), dump_json_pretty(json), 0600)
      .ignore("the process's own exit status says that there was one");
}

Result<std::vector<EndedBadly>> take_failures(const ProcessIdentity* process) {
  std::string folder = WARREN_TRY(runtime_folder());
  Fd dir = WARREN_TRY(open_host_dir(folder));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(dir.get()));
  std::vector<EndedBadly> all;
  for (const HostEntry& entry : entries) {
    if (!entry.name.ends_with(kFailedSuffix)) continue;
    std::string file = folder + "/" + entry.name;
    Result<std::string> text = read_host_file(file, kEntryBytes);
    if (!text.ok()) continue;  // taken by another process
    Result<Running> running = parse_running(*text);
    Result<Json> json = parse_json(*text);
    bool is_valid = running.ok() && json.ok() && json->value("failure", Json()).is_string();
    if (is_valid && process != nullptr && running->process != *process) continue;
    if (is_valid && liveness_of(running->process) == Liveness::kAlive) continue;
    remove_host_file(file).ignore("it is reported twice then");
    if (!is_valid) continue;
    std::string hint = json->value("hint", Json()).is_string() ? (*json)["hint"].get<std::string>() : "";
    all.push_back({*std::move(running), (*json)["failure"].get<std::string>(), std::move(hint)});
  }
  return all;
}

RunningEntry::~RunningEntry() { remove_host_file(file_).ignore("list_running removes leftovers"); }

Result<std::vector<Running>> list_running() {
  std::string folder = WARREN_TRY(runtime_folder());
  Fd dir = WARREN_TRY(open_host_dir(folder));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(dir.get()));
  std::vector<Running> all;
  for (const HostEntry& entry : entries) {
    if (!entry.name.ends_with(".json")) continue;
    std::string file = folder + "/" + entry.name;
    Result<std::string> text = read_host_file(file, kEntryBytes);
    if (!text.ok()) continue;  // the process has just ended
    Result<Running> running = parse_running(*text);
    if (running.ok() && liveness_of(running->process) != Liveness::kDead) {
      all.push_back(*std::move(running));
    } else {
      remove_host_file(file).ignore("the next listing tries again");
    }
  }
  std::sort(all.begin(), all.end(), [](const Running& a, const Running& b) { return a.started_at < b.started_at; });
  return all;
}

}  // namespace warren
