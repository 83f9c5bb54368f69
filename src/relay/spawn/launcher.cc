#include "relay/spawn/launcher.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "os/user.h"

namespace warren::relay {
namespace {

constexpr std::size_t kArgumentBytes = 131'071;  // the kernel's limit with pages of 4 KiB
constexpr std::size_t kArgumentsBytes = std::size_t{1} << 20;
constexpr off_t kLogBytes = off_t{16} << 20;  // a longer log is rotated when the agent starts again
constexpr std::array<std::string_view, 10> kAlwaysPassed = {"PATH", "HOME", "USER", "LOGNAME", "SHELL",
                                                            "LANG", "LC_*", "TZ",   "TERM",    "TMPDIR"};

std::string_view name_part(std::string_view variable) { return variable.substr(0, variable.find('=')); }

// "/a/b" relative to "/a" is "b", relative to itself "."; nullopt if it is not below.
std::optional<std::string> relative_to(std::string_view root, std::string_view path) {
  while (root.size() > 1 && root.ends_with('/')) root.remove_suffix(1);
  if (root != "/" && path != root && !(path.starts_with(root) && path[root.size()] == '/')) return std::nullopt;
  path.remove_prefix(root == "/" ? 0 : root.size());
  while (path.starts_with('/')) path.remove_prefix(1);
  return path.empty() ? "." : std::string(path);
}

// Variables that describe the user; they are not passed on to another one.
bool is_of_user(std::string_view variable) {
  return variable == "HOME" || variable == "USER" || variable == "LOGNAME" || variable == "SHELL" ||
         variable == "TMPDIR";
}

std::vector<std::string> variables_of(const HostUser& user) {
  std::vector<std::string> out = {"HOME=" + (user.home.empty() ? "/" : user.home)};
  if (!user.name.empty()) out.insert(out.end(), {"USER=" + user.name, "LOGNAME=" + user.name});
  if (!user.shell.empty()) out.push_back("SHELL=" + user.shell);
  return out;
}

// `warren run` passes on few variables by itself. These were chosen by the configuration. By name only: values of other
// processes' arguments can be read by everybody.
void pass_through_run(ChildSpec& spec) {
  std::vector<std::string> words;
  for (const std::string& one : spec.env) words.insert(words.end(), {"--env", std::string(name_part(one))});
  constexpr std::ptrdiff_t kAfterRun = 2;
  spec.argv.insert(spec.argv.begin() + kAfterRun, words.begin(), words.end());
}

bool has_dot_dot(std::string_view path) {
  std::string padded = fmt::format("/{}/", path);
  return padded.find("/../") != padded.npos;
}

Result<std::string> path_of(int fd) {
  std::array<char, 4097> buffer{};
  ssize_t got = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), buffer.data(), buffer.size() - 1);
  if (got <= 0) return system_error(errno, "find the working directory");
  return std::string(buffer.data(), static_cast<std::size_t>(got));
}

// Opens a directory below the root without following links, since agents may have put some there.
Result<Fd> open_beneath(const std::string& root, const std::string& relative, const std::string& shown) {
  Fd opened = WARREN_TRY(open_host_dir(root).within(fmt::format("config.json: root {}", quote(root))));
  Result<Fd> dir = open_below(opened.get(), relative + "/.",
                              O_RDONLY | O_DIRECTORY);  // so that a link as the last component is detected
  if (dir.ok()) return dir;
  bool is_link = dir.error().code() == Code::kLoop || dir.error().code() == Code::kCrossDevice;
  if (!is_link) return std::move(dir).within("WORKING_DIR");
  return Error(Code::kDenied,
               fmt::format("WORKING_DIR {} leads through a symbolic link or out of its root", quote(shown)));
}

}  // namespace

std::string Launcher::own(std::string_view variable) const {
  for (const std::string& one : options_.environment) {
    if (name_part(one) == variable) return one.substr(std::min(one.size(), variable.size() + 1));
  }
  return "";
}

Result<const CliTemplate*> Launcher::find_template(const SpawnRequest& request) const {
  if (config_.clis.empty()) {
    return Error(Code::kUnsupported, R"(spawning is not configured: config.json needs "spawn": {"clis": {")" +
                                         std::string("NAME") + R"(": {"argv": ["program", "{prompt}"]}}})");
  }
  auto found = config_.clis.find(request.cli);
  if (found == config_.clis.end()) {
    return Error(Code::kDenied, fmt::format("CLI {} is not in config.json's \"spawn\": \"clis\"", quote(request.cli)));
  }
  return &found->second;
}

Status Launcher::check_env(const SpawnRequest& request) const {
  for (const auto& [name, value] : request.env) {
    if (is_unsafe_variable(name)) return Error(Code::kDenied, fmt::format("ENV: {} must not be set", quote(name)));
    if (!is_allowed_variable(config_.env, name)) {
      return Error(Code::kDenied, fmt::format("ENV: {} is not in config.json's \"spawn\": \"env\"", quote(name)));
    }
  }
  return Ok{};
}

Result<Fd> Launcher::open_dir(const SpawnRequest& request) const {
  const std::string& dir = request.working_dir;
  if (dir.empty() && config_.roots.empty()) {  // the agent's own directory
    Result<Fd> home = open_below(root_.agents(), request.name, O_RDONLY | O_DIRECTORY);
    return home.ok() || home.error().code() != Code::kNotFound ? std::move(home) : open_host_dir(root_.path());
  }
  if (config_.roots.empty()) {
    return Error(Code::kDenied,
                 "no WORKING_DIR is allowed: config.json's \"spawn\" needs \"roots\": [\"/a/directory\"]");
  }
  if (has_dot_dot(dir)) return Error(Code::kDenied, fmt::format("WORKING_DIR {} contains '..'", quote(dir)));
  if (!dir.starts_with('/')) return open_beneath(config_.roots[0], dir.empty() ? "." : dir, dir);
  for (const std::string& root : config_.roots) {
    std::optional<std::string> relative = relative_to(root, dir);
    if (relative) return open_beneath(root, *relative, dir);
  }
  return Error(Code::kDenied,
               fmt::format("WORKING_DIR {} is not below {}", quote(dir), fmt::join(config_.roots, ", ")));
}

// Agents may have put anything there, so only a regular file of the agent's own is accepted.
Result<Fd> Launcher::open_log(std::string_view agent) const {
  Fd home = WARREN_TRY(open_below(root_.agents(), std::string(agent), O_RDONLY | O_DIRECTORY));
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK;
  std::optional<Owner> owner = root_.find_owner(agent);
  auto make = [&]() -> Result<Fd> {
    Fd made = WARREN_TRY(open_below(home.get(), "agent.log", kFlags | O_EXCL));
    if (!owner || ::fchown(made.get(), owner->uid, owner->gid) == 0) return made;
    return system_error(errno, "hand 'agent.log' to the agent's user");
  };
  Result<Fd> made = make();
  if (made.ok() || made.error().code() != Code::kExists) return made;
  Fd log = WARREN_TRY(open_below(home.get(), "agent.log", kFlags & ~O_CREAT));
  struct stat info {};
  if (::fstat(log.get(), &info) != 0) return system_error(errno, "stat 'agent.log'");
  if (!S_ISREG(info.st_mode)) return Error(Code::kInvalid, "'agent.log' is not a regular file");
  bool is_own = !owner || (info.st_uid == owner->uid && info.st_nlink == 1);
  if (!is_own) return Error(Code::kDenied, "'agent.log' is not a file of the agent's user alone");
  bool is_long = info.st_size > kLogBytes && ::renameat(home.get(), "agent.log", home.get(), "agent.log.1") == 0;
  return is_long ? make() : Result<Fd>(std::move(log));
}

Status Launcher::make_home(Root& root, const SpawnRequest& request) const {
  const CliTemplate* cli = WARREN_TRY(find_template(request));
  if (cli->user.empty() && !cli->is_sandboxed) return Ok{};
  std::optional<Owner> owner;
  if (!cli->user.empty()) {
    HostUser user = WARREN_TRY(find_host_user(cli->user).within(fmt::format("CLI {}", quote(request.cli))));
    owner = Owner{user.uid, user.gid};
  }
  WARREN_TRY(root.make_agent(request.name, owner));
  return root.make_attachment_dirs(request.name);
}

Result<std::vector<std::string>> Launcher::make_argv(const CliTemplate& cli, const SpawnRequest& request,
                                                     const std::string& dir) const {
  std::string home = fmt::format("{}/agents/{}", root_.path(), request.name);
  auto value_of = [&](std::string_view word) -> std::string {
    if (word == "prompt") return request.prompt;
    if (word == "name") return request.name;
    if (word == "dir") return dir;
    if (word == "inbox") return home + "/inbox";
    if (word == "outbox") return home + "/outbox";
    return root_.path();
  };
  std::vector<std::string> argv;
  if (cli.is_sandboxed) {
    // In the relay's root it sees only its own inbox and outbox.
    argv = {options_.program, "run", "--hide", root_.path(), "--allow", home + "/inbox", "--allow", home + "/outbox"};
  }
  for (const std::string& word : cli.argv) argv.push_back(fill_placeholders(word, value_of));
  std::size_t total = 0;
  for (const std::string& word : argv) {
    total += word.size() + 1;
    if (word.size() > kArgumentBytes || total > kArgumentsBytes) {
      return Error(Code::kTooLarge,
                   fmt::format("PROMPT has {} bytes, which is too long for an argument", request.prompt.size()));
    }
  }
  return argv;
}

std::vector<std::string> Launcher::make_env(const SpawnRequest& request, std::string_view token,
                                            const Prepared& prepared, std::int64_t state_version) const {
  std::vector<std::string> passed(kAlwaysPassed.begin(), kAlwaysPassed.end());
  passed.insert(passed.end(), config_.env.begin(), config_.env.end());
  std::vector<std::string> env;
  for (const std::string& one : options_.environment) {
    std::string_view name = name_part(one);
    bool is_given =
        std::any_of(request.env.begin(), request.env.end(), [&](const auto& own) { return own.first == name; });
    is_given = is_given || (prepared.spec.user && is_of_user(name));
    if (name.size() == one.size() || is_given) continue;  // no value, or overridden by the request
    if (is_variable_name(name) && is_allowed_variable(passed, name)) env.push_back(one);
  }
  for (const auto& [name, value] : request.env) env.push_back(fmt::format("{}={}", name, value));
  std::string home = fmt::format("{}/agents/{}", root_.path(), request.name);
  if (prepared.spec.user) {
    for (std::string& one : variables_of(*prepared.spec.user)) env.push_back(std::move(one));
  }
  env.push_back("PWD=" + prepared.dir);
  env.push_back("AGENT_RELAY_NAME=" + request.name);
  env.push_back(fmt::format("AGENT_RELAY_TOKEN={}", token));
  env.push_back("AGENT_RELAY_ROOT=" + root_.path());
  env.push_back("AGENT_RELAY_INBOX=" + home + "/inbox");
  env.push_back("AGENT_RELAY_OUTBOX=" + home + "/outbox");
  env.push_back("WARREN_RELAY_ROOT=" + root_.path());  // so that `warren relay` finds it
  if (state_version > 0) env.push_back(fmt::format("AGENT_RELAY_CONTINUITY={}", state_version));
  return env;
}

Status Launcher::check(const SpawnRequest& request) const {
  const CliTemplate* cli = WARREN_TRY(find_template(request));
  WARREN_TRY(check_env(request));
  WARREN_TRY(find_program(cli->argv[0], own("PATH")));
  WARREN_TRY(make_argv(*cli, request, request.working_dir));
  WARREN_TRY(open_dir(request));
  if (cli->user.empty()) return Ok{};
  HostUser user = WARREN_TRY(find_host_user(cli->user).within(fmt::format("CLI {}", quote(request.cli))));
  if (::geteuid() == 0 || ::geteuid() == user.uid) return Ok{};
  return Error(Code::kDenied, fmt::format("CLI {} runs as user {}, for which the relay must be root",
                                          quote(request.cli), quote(cli->user)));
}

Result<Prepared> Launcher::prepare(const SpawnRequest& request, std::string_view token,
                                   std::int64_t state_version) const {
  const CliTemplate* cli = WARREN_TRY(find_template(request));
  WARREN_TRY(check_env(request));
  Prepared out;
  out.spec.dir = WARREN_TRY(open_dir(request));
  out.dir = WARREN_TRY(path_of(out.spec.dir.get()));
  out.spec.program = WARREN_TRY(find_program(cli->argv[0], own("PATH")));
  out.spec.argv = WARREN_TRY(make_argv(*cli, request, out.dir));
  if (cli->is_sandboxed) {
    if (options_.program.empty()) return Error(Code::kUnsupported, "this relay does not know its own program");
    out.spec.program = options_.program;
  }
  if (std::optional<Owner> owner = root_.find_owner(request.name)) {
    std::string user = cli->user.empty() ? fmt::format("{}:{}", owner->uid, owner->gid) : cli->user;
    out.spec.user = WARREN_TRY(find_host_user(user));
  }
  out.spec.env = make_env(request, token, out, state_version);
  if (cli->is_sandboxed) pass_through_run(out.spec);
  out.spec.log = WARREN_TRY(open_log(request.name));
  return out;
}

}  // namespace warren::relay
