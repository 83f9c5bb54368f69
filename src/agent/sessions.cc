#include "agent/sessions.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <thread>

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/base_note.h"
#include "agent/copies/create.h"
#include "agent/locate.h"
#include "base/json.h"
#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr const char* kFile = "delta.db";
constexpr const char* kBase = "base_path";
constexpr const char* kLock = "lock";
constexpr const char* kSocket = "socket";
constexpr const char* kNetwork = "network.jsonl";  // written by session/run_network
constexpr const char* kWalls = "walls";            // written by session/session_walls
constexpr const char* kKept = "kept";              // empty: by an apply or a discard with --keep
constexpr const char* kProcesses = "procs";
constexpr std::size_t kProcessBytes = 1 << 20;
constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
constexpr std::chrono::milliseconds kServingStep{5};
constexpr int kServingTries = 2000;  // ten seconds, for a server that is still storing changes

struct flock whole_file(short type) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  return range;
}

// RFC 3339 in UTC, as AgentFS writes it.
std::string format_instant(std::int64_t seconds) {
  auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  char text[32];
  std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, size};
}

std::int64_t parse_instant(const std::string& text) {
  std::tm parts{};
  if (::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return 0;
  return ::timegm(&parts);
}

Result<SessionProcess> parse_process(std::string_view text) {
  Json json = WARREN_TRY(parse_json(text));
  bool is_valid = json.is_object() && json.contains("pid") && json["pid"].is_number_integer();
  if (!is_valid) return Error(Code::kCorrupt, "not a valid process entry");
  auto string = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : std::string();
  };
  return SessionProcess{.pid = json["pid"].get<std::int64_t>(),
                        .is_owner = json.contains("owner") && json["owner"].is_boolean() && json["owner"].get<bool>(),
                        .command = string("command"),
                        .started_at = parse_instant(string("started_at")),
                        .cwd = string("cwd")};
}

bool is_alive(std::int64_t pid) { return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM; }

// Removes the entries of killed processes.
Result<std::vector<SessionProcess>> list_processes(const std::string& session) {
  std::vector<SessionProcess> all;
  std::string folder = fmt::format("{}/{}", session, kProcesses);
  if (!WARREN_TRY(find_host_file(folder))) return all;
  Fd dir = WARREN_TRY(open_host_dir(folder));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(dir.get()));
  for (const HostEntry& entry : entries) {
    if (!entry.name.ends_with(".json")) continue;
    std::string path = fmt::format("{}/{}", folder, entry.name);
    Result<std::string> text = read_host_file(path, kProcessBytes);
    if (!text.ok()) continue;  // the process has just ended
    Result<SessionProcess> process = parse_process(*text);
    if (process.ok() && is_alive(process->pid)) {
      all.push_back(*std::move(process));
    } else {
      remove_host_file(path).ignore("the next listing tries again");
    }
  }
  std::sort(all.begin(), all.end(), [](const SessionProcess& a, const SessionProcess& b) {
    return a.is_owner != b.is_owner ? a.is_owner : a.started_at < b.started_at;
  });
  return all;
}

std::int64_t nanoseconds_of(const timespec& time) { return time.tv_sec * kNanosecondsPerSecond + time.tv_nsec; }

Result<SessionInfo> describe(const std::string& id, const std::string& path, const struct stat& file) {
  SessionInfo info;
  info.id = id;
  info.used_at_ns = nanoseconds_of(file.st_mtim);
  info.size_bytes = static_cast<std::uint64_t>(file.st_size);
  std::optional<struct stat> wal = WARREN_TRY(find_host_file(session_file(path) + "-wal"));
  if (wal) {
    info.size_bytes += static_cast<std::uint64_t>(wal->st_size);
    info.used_at_ns = std::max(info.used_at_ns, nanoseconds_of(wal->st_mtim));
  }
  info.used_at = info.used_at_ns / kNanosecondsPerSecond;
  SessionDir dir = WARREN_TRY(SessionDir::open_existing(id));
  Result<std::string> base = dir.base();
  if (base.ok()) info.base = *base;
  info.is_running = WARREN_TRY(dir.is_running());
  info.processes = WARREN_TRY(list_processes(path));
  return info;
}

Error no_session(const std::string& id) {
  return {Code::kNotFound, fmt::format("no session {}", quote(id)), "`warren sessions` lists them"};
}

Error is_busy(const std::string& id) {
  return {Code::kBusy, fmt::format("session {} is running", quote(id)),
          "end its commands first; `warren ps` lists them"};
}

}  // namespace

Result<std::string> home_directory() {
  auto without_last_slash = [](std::string path) {
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    return path;
  };
  const char* given = std::getenv("HOME");
  if (given != nullptr && *given == '/') return without_last_slash(given);
  const passwd* user = ::getpwuid(::geteuid());
  if (user != nullptr && user->pw_dir != nullptr && *user->pw_dir == '/') return without_last_slash(user->pw_dir);
  return Error(Code::kNotFound, "cannot determine your home directory", "set HOME");
}

Result<std::string> config_file(std::string_view name) {
  const char* given = std::getenv("XDG_CONFIG_HOME");
  std::string folder;
  if (given != nullptr && *given == '/') {
    folder = given;
  } else {
    std::string home = WARREN_TRY(home_directory());
    folder = join_path(home, ".config");
  }
  return join_path(join_path(folder, "warren"), name);
}

Result<std::string> agents_home() {
  std::string home = WARREN_TRY(home_directory());
  return join_path(home, kAgentsDir);
}

Result<std::string> path_of_session(std::string_view id) {
  WARREN_TRY(check_agent_id(id));
  std::string home = WARREN_TRY(agents_home());
  return fmt::format("{}/run/{}", home, id);
}

std::string session_file(const std::string& dir) { return fmt::format("{}/{}", dir, kFile); }

Result<std::optional<std::string>> find_session_file(std::string_view id) {
  if (!is_agent_id(id)) return std::optional<std::string>();
  Result<std::string> path = path_of_session(id);
  if (!path.ok()) return std::optional<std::string>();  // without a home there are no sessions
  std::string file = session_file(*path);
  Result<std::optional<struct stat>> there = find_host_file(file);
  bool is_there = there.ok() && *there && S_ISREG((*there)->st_mode);
  return is_there ? std::optional(std::move(file)) : std::optional<std::string>();
}

Result<std::vector<SessionInfo>> list_sessions() {
  std::vector<SessionInfo> all;
  std::string home = WARREN_TRY(agents_home());
  std::string folder = home + "/run";
  if (!WARREN_TRY(find_host_file(folder))) return all;
  Fd dir = WARREN_TRY(open_host_dir(folder));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(dir.get()));
  for (const HostEntry& entry : entries) {
    if (!is_agent_id(entry.name)) continue;
    std::string path = fmt::format("{}/{}", folder, entry.name);
    std::optional<struct stat> file = WARREN_TRY(find_host_file(session_file(path)));
    if (!file) continue;
    Result<SessionInfo> info = describe(entry.name, path, *file);
    if (info.ok()) all.push_back(*std::move(info));
  }
  return all;
}

Result<std::vector<std::string>> list_session_ids() {
  std::vector<std::string> ids;
  std::string home = WARREN_TRY(agents_home());
  std::string folder = home + "/run";
  if (!WARREN_TRY(find_host_file(folder))) return ids;
  Fd dir = WARREN_TRY(open_host_dir(folder));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(dir.get()));
  for (const HostEntry& entry : entries) {
    if (WARREN_TRY(find_session_file(entry.name))) ids.push_back(entry.name);
  }
  return ids;
}

SessionDir::SessionDir(std::string id, std::string path, Fd dir)
    : id_(std::move(id)), path_(std::move(path)), dir_(std::move(dir)) {}

Result<SessionDir> SessionDir::open(const std::string& id) {
  std::string path = WARREN_TRY(path_of_session(id));
  if (!WARREN_TRY(find_host_file(path))) WARREN_TRY(check_new_agent_id(id));
  WARREN_TRY(make_host_dirs(path, 0700).within("create the session's folder"));
  return open_existing(id);
}

Result<SessionDir> SessionDir::open_existing(const std::string& id) {
  std::string path = WARREN_TRY(path_of_session(id));
  Result<Fd> dir = open_host_dir(path);
  if (!dir.ok() && dir.error().code() == Code::kNotFound) return no_session(id);
  Fd fd = WARREN_TRY(std::move(dir));
  return SessionDir(id, std::move(path), std::move(fd));
}

Result<bool> SessionDir::is_new() const {
  std::optional<struct stat> there = WARREN_TRY(find_host_file(file()));
  return !there;
}

Result<Fd> SessionDir::lock() const {
  Fd fd(::openat(dir_.get(), kLock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open()) return system_error(errno, fmt::format("lock session {}", quote(id_)));
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return system_error(errno, fmt::format("lock session {}", quote(id_)));
  }
  // The session may have been renamed or deleted while we waited.
  struct stat held {};
  struct stat named {};
  bool is_same = ::fstat(dir_.get(), &held) == 0 && ::stat(path_.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
                 held.st_dev == named.st_dev;
  if (!is_same)
    return Error(Code::kStale, fmt::format("session {} was just renamed or deleted", quote(id_)), "try again");
  return fd;
}

Result<Fd> SessionDir::lock_serving() const {
  Fd fd(::openat(dir_.get(), kLock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open()) return system_error(errno, fmt::format("lock session {}", quote(id_)));
  for (int tries = 0; tries < kServingTries; ++tries) {
    struct flock wanted = whole_file(F_WRLCK);
    if (::fcntl(fd.get(), F_OFD_SETLK, &wanted) == 0) return fd;
    std::this_thread::sleep_for(kServingStep);
  }
  return Error(Code::kBusy, fmt::format("session {} is still ending", quote(id_)), "try again");
}

Result<bool> SessionDir::is_running() const {
  Fd fd(::openat(dir_.get(), kLock, O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.is_open()) return false;
  struct flock wanted = whole_file(F_WRLCK);
  if (::fcntl(fd.get(), F_OFD_GETLK, &wanted) != 0) return system_error(errno, "query the session's lock");
  return wanted.l_type != F_UNLCK;
}

Result<std::string> SessionDir::base() const {
  std::string text = WARREN_TRY(read_host_file(fmt::format("{}/{}", path_, kBase), 2 * 4096));
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

Status SessionDir::set_base(const std::string& base) const {
  return replace_host_file(fmt::format("{}/{}", path_, kBase), base, 0600);
}

Status SessionDir::keep() const { return replace_host_file(fmt::format("{}/{}", path_, kKept), "", 0600); }

Result<bool> SessionDir::is_kept() const {
  std::optional<struct stat> there = WARREN_TRY(find_host_file(fmt::format("{}/{}", path_, kKept)));
  return there.has_value();
}

Status SessionDir::add_process(const SessionProcess& process) const {
  std::string folder = fmt::format("{}/{}", path_, kProcesses);
  WARREN_TRY(make_host_dirs(folder, 0700));
  Json json{{"pid", process.pid},
            {"owner", process.is_owner},
            {"command", process.command},
            {"started_at", format_instant(process.started_at)},
            {"cwd", process.cwd}};
  std::string text = dump_json_pretty(json);
  Fd fd(::open(fmt::format("{}/{}.json", folder, process.pid).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd.is_open()) return system_error(errno, "record the process in the session");
  return write_all(fd.get(), as_bytes(text));  // not durable: it is worthless after a reboot
}

void SessionDir::remove_process(std::int64_t pid) const {
  std::string folder = fmt::format("{}/{}", path_, kProcesses);
  ::unlink(fmt::format("{}/{}.json", folder, pid).c_str());
  ::rmdir(folder.c_str());  // succeeds only for the last process
}

Status SessionDir::remove() const {
  if (WARREN_TRY(is_running())) return is_busy(id_);
  std::string folder = fmt::format("{}/{}", path_, kProcesses);
  WARREN_TRY(list_processes(path_));  // removes entries of dead processes
  ::rmdir(folder.c_str());
  WARREN_TRY(remove_working_memory(file()));  // first: it may be in use, and then all stays
  WARREN_TRY(remove_base_note(file()));
  remove_drafts(file());
  std::string stem = path_ + "/delta";
  for (const char* suffix : {".db", ".db-wal", ".db-shm", ".index.db", ".db.new-wal", ".db.new-shm", ".db.new"}) {
    WARREN_TRY(remove_host_file(stem + suffix));
  }
  for (const char* name : {kBase, kSocket, kNetwork, kWalls, kKept, kLock})
    WARREN_TRY(remove_host_file(fmt::format("{}/{}", path_, name)));
  ::rmdir((path_ + "/mnt").c_str());  // created by AgentFS
  if (::rmdir(path_.c_str()) == 0 || errno == ENOENT) return Ok{};
  return std::move(system_error(errno, fmt::format("remove {}", quote(path_))))
      .with_hint("it contains files that are not part of the session");
}

std::string SessionDir::socket_path() const { return fmt::format("/proc/self/fd/{}/{}", dir_.get(), kSocket); }

namespace {

// A mount or a server would go on with a path that is not there any more.
Status refuse_open(const SessionDir& session) {
  if (!WARREN_TRY(is_open_somewhere(session.file()))) return Ok{};
  return Error(Code::kBusy, fmt::format("session {} is open in another process, such as a mount", quote(session.id())),
               "stop that process, then try again: `warren ps` shows mounts and runs");
}

}  // namespace

Status rename_session(const std::string& from, const std::string& to) {
  SessionDir session = WARREN_TRY(SessionDir::open_existing(from));
  WARREN_TRY(check_new_agent_id(to));
  std::string target = WARREN_TRY(path_of_session(to));
  Fd held = WARREN_TRY(session.lock());
  if (WARREN_TRY(session.is_running())) return is_busy(from);
  WARREN_TRY(refuse_open(session));
  if (::renameat2(AT_FDCWD, session.path().c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0) return Ok{};
  if (errno == EEXIST) return Error(Code::kExists, fmt::format("session {} already exists", quote(to)));
  return system_error(errno, fmt::format("rename session {}", quote(from)));
}

Status delete_session(const std::string& id) {
  SessionDir session = WARREN_TRY(SessionDir::open_existing(id));
  Fd held = WARREN_TRY(session.lock());
  WARREN_TRY(refuse_open(session));
  return session.remove();
}

Result<bool> delete_session_unless_kept(const std::string& id) {
  SessionDir session = WARREN_TRY(SessionDir::open_existing(id));
  Fd held = WARREN_TRY(session.lock());
  WARREN_TRY(refuse_open(session));
  if (WARREN_TRY(session.is_kept())) return false;  // not before: it is set while the agent is open
  WARREN_TRY(session.remove());
  return true;
}

Status delete_unfinished_session(const std::string& id) {
  SessionDir session = WARREN_TRY(SessionDir::open_existing(id));
  Fd held = WARREN_TRY(session.lock());
  if (!WARREN_TRY(session.is_new())) return no_session(id);  // made while we waited, by one that was not killed
  return session.remove();
}

}  // namespace warren
