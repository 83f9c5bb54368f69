#include "cli/run/run_settings.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "agent/relay_root.h"
#include "agent/sessions.h"
#include "base/path.h"
#include "cli/syntax/values.h"
#include "cli/vfs/view.h"
#include "os/files/host_files.h"
#include "session/run_preferences.h"

namespace warren::cli {
namespace {

constexpr std::size_t kEnvironmentFileBytes = std::size_t{1} << 20;

std::vector<std::string> words_of(const Arguments& args, std::string_view name) {
  return args.has(name) ? args.all(name) : std::vector<std::string>();
}

// A variable given by itself counts more than one of a file.
Result<std::vector<AskedVariable>> asked_variables(const Arguments& args) {
  std::vector<AskedVariable> all;
  for (const std::string& path : words_of(args, "env-file")) {
    std::string text = WARREN_TRY(read_host_file(path, kEnvironmentFileBytes).within("--env-file"));
    std::vector<AskedVariable> some = WARREN_TRY(parse_environment_file(text, path).within("--env-file"));
    all.insert(all.end(), some.begin(), some.end());
  }
  for (const std::string& word : words_of(args, "env")) {
    AskedVariable one = WARREN_TRY(parse_variable(word).within("--env"));
    all.push_back(std::move(one));
  }
  return all;
}

Result<NetworkChoice> asked_network(const Arguments& args) {
  std::vector<std::string> words = words_of(args, "net");
  if (args.has("no-network")) {
    if (!words.empty()) return Error(Code::kInvalid, "--no-network and --net cannot be used together");
    words = {"none"};
  }
  if (words.empty()) return NetworkChoice{};
  return parse_network(words).within("--net");
}

Error too_small(std::string_view word) { return {Code::kInvalid, fmt::format("{} is too small", quote(word))}; }

Result<std::uint64_t> size_limit(const std::string& word) {
  std::uint64_t bytes = WARREN_TRY(parse_size(word));
  if (bytes == 0) return too_small(word);
  return bytes;
}

Result<std::uint64_t> count_limit(const std::string& word) {
  std::int64_t count = WARREN_TRY(parse_count(word));
  if (count == 0) return too_small(word);
  return static_cast<std::uint64_t>(count);
}

Result<std::uint64_t> time_limit(const std::string& word) {
  std::chrono::milliseconds time = WARREN_TRY(parse_duration(word));
  if (time < std::chrono::seconds(1)) return too_small(word);
  return static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::seconds>(time).count());
}

using Parser = Result<std::uint64_t> (*)(const std::string&);

Status set_limit(std::optional<std::uint64_t>& limit, const std::optional<std::string>& word, Parser parse,
                 std::string_view name) {
  if (!word || limit) return Ok{};
  limit = WARREN_TRY(parse(*word).within(name));
  return Ok{};
}

std::optional<std::string> given_word(const Arguments& args, std::string_view name) {
  return args.has(name) ? args.find(name) : std::nullopt;
}

Status take_limits(const Arguments& args, RunLimits& limits) {
  WARREN_TRY(set_limit(limits.memory_bytes, given_word(args, "memory"), size_limit, "--memory"));
  WARREN_TRY(set_limit(limits.processes, given_word(args, "processes"), count_limit, "--processes"));
  WARREN_TRY(set_limit(limits.cpu_seconds, given_word(args, "cpu-time"), time_limit, "--cpu-time"));
  return set_limit(limits.disk_bytes, given_word(args, "disk"), size_limit, "--disk");
}

// The words are checked: by the command's table, or when the preferences were read.
void choose_home(const std::optional<std::string>& view, const std::optional<std::string>& layer, RunOptions& options) {
  if (view && !options.home_view) options.home_view = *view == "all" ? HomeView::kAll : HomeView::kTools;
  if (layer && !options.home_layer) {
    options.home_layer = *layer == "project" ? HomeLayerScope::kProject : HomeLayerScope::kShared;
  }
}

// A listed variable that is not set is no mistake.
void add_variables(const RunPreferences& preferences, RunOptions& options) {
  std::vector<AskedVariable> listed;
  for (const std::string& name : preferences.env) {
    if (std::getenv(name.c_str()) != nullptr) listed.push_back({name, std::nullopt});
  }
  options.variables.insert(options.variables.begin(), listed.begin(), listed.end());
}

// The relay whose folders are shown at /ipc. Never without a name that the user gave: it is somebody's mail.
Status take_relay(const Arguments& args, const RunPreferences& preferences, RunOptions& options) {
  auto given = [&](std::string_view name) { return args.has(name) ? args.find(name) : std::nullopt; };
  std::optional<std::string> name = given("relay-as");
  if (given("relay") && !name && !preferences.relay_as) return Error(Code::kInvalid, "--relay needs --relay-as NAME");
  if (name && args.has("no-namespace")) {
    return Error(Code::kInvalid, "--relay-as shows messages in the namespace, which this run does not have");
  }
  if (name) options.has_namespace = true;  // whatever the settings say
  if (name || given("relay")) options.has_asked_for_namespace = true;
  if (!name && options.has_namespace) name = preferences.relay_as;
  if (!name) return Ok{};
  std::optional<std::string> root = given("relay");
  if (!root) root = preferences.relay;
  const char* usual = std::getenv("WARREN_RELAY_ROOT");
  std::string place =
      WARREN_TRY(find_relay_root(root, usual != nullptr ? std::optional<std::string>(usual) : std::nullopt));
  Result<std::string> whole = canonical_host_path(place);
  if (!whole.ok())
    return Error(Code::kNotFound, fmt::format("there is no relay at {}", quote(place)),
                 "`warren relay up` starts one, and --relay DIR says where it is");
  options.relay = RelayMailbox{.root = *whole, .name = *name};
  return Ok{};
}

Status take_mounts(const Arguments& args, const RunPreferences& preferences, RunOptions& options) {
  options.mounts.arguments = words_of(args, "mount");
  options.mounts.file = given_word(args, "mounts");
  bool is_asked_for = !options.mounts.arguments.empty() || options.mounts.file;
  if (is_asked_for && !options.has_namespace) {
    return Error(Code::kInvalid, "--mount and --mounts concern the namespace, which this run does not have");
  }
  if (is_asked_for) options.has_asked_for_namespace = true;
  options.mounts.preferred = preferences.mount;
  options.mounts.preferred_file = preferences.mounts;
  return Ok{};
}

Status take_preferences(const Arguments& args, RunOptions& options) {
  std::error_code failed;
  std::string here = options.repository.value_or(std::filesystem::current_path(failed).string());
  Result<std::string> base = canonical_host_path(options.base.value_or(here));
  if (!base.ok()) return Ok{};  // the run reports it
  RunPreferences preferences = WARREN_TRY(load_preferences(*base));
  add_variables(preferences, options);
  if (preferences.has_namespace && !options.has_asked_for_namespace) options.has_namespace = *preferences.has_namespace;
  WARREN_TRY(take_relay(args, preferences, options));
  WARREN_TRY(take_mounts(args, preferences, options));
  std::optional<std::string> anchor = given_word(args, "anchor");
  options.has_asked_for_anchor = anchor.has_value();
  std::optional<std::string> every = given_word(args, "anchor-every");
  if (!anchor) anchor = preferences.anchor;
  if (!every && anchor) every = preferences.anchor_every;
  options.anchor = WARREN_TRY(asked_anchor(anchor, every));
  choose_home(preferences.home, preferences.home_layer, options);
  std::string file = quote(WARREN_TRY(preferences_file()));
  if (preferences.net && !options.has_asked_for_network) {
    options.network = WARREN_TRY(parse_network(*preferences.net).within(file + ": net"));
  }
  WARREN_TRY(set_limit(options.limits.memory_bytes, preferences.memory, size_limit, file + ": memory"));
  WARREN_TRY(set_limit(options.limits.processes, preferences.processes, count_limit, file + ": processes"));
  WARREN_TRY(set_limit(options.limits.cpu_seconds, preferences.cpu_time, time_limit, file + ": cpu-time"));
  return set_limit(options.limits.disk_bytes, preferences.disk, size_limit, file + ": disk");
}

}  // namespace

Status take_settings(const Arguments& args, RunOptions& options) {
  WARREN_TRY(check_outside_of_runs());
  options.variables = WARREN_TRY(asked_variables(args));
  options.network = WARREN_TRY(asked_network(args));
  options.has_asked_for_network = args.has("net") || args.has("no-network");
  choose_home(given_word(args, "home"), given_word(args, "home-layer"), options);
  options.has_asked_for_view = options.home_view.has_value();
  options.has_asked_for_home = options.home_view || options.home_layer;
  WARREN_TRY(take_limits(args, options.limits));
  options.has_asked_for_limits = options.limits != RunLimits{};
  return take_preferences(args, options);
}

std::vector<Option> environment_options() {
  return {{.name = "env",
           .value = "NAME[=VALUE]",
           .help = "pass this variable of your environment, or set it",
           .is_list = true},
          {.name = "env-file",
           .value = "FILE",
           .help = "pass or set the variables in FILE, one NAME[=VALUE] per line",
           .suggest = Suggest::kHostFiles,
           .is_list = true}};
}

std::vector<Option> network_options() {
  return {
      {.name = "net",
       .value = "HOST",
       .help = "let the command reach only HOST, *.HOST, HOST:PORT, an address, or a set of hosts (agents, npm, pypi, "
               "crates, github, debian); or all, or none; later runs of the session too",
       .is_list = true},
      {.name = "no-network", .help = "the same as --net none: no network except a private loopback"}};
}

std::vector<Option> namespace_options() {
  std::vector<Option> options = {
      {.name = "no-namespace", .help = "do not mount the session's namespace (memory, messages) at /agent/ID"},
      {.name = "relay-as",
       .value = "NAME",
       .help = "show the inbox and outbox of this agent of a relay at /ipc of the namespace"},
      {.name = "relay",
       .value = "DIR",
       .help = "the relay's directory [default: WARREN_RELAY_ROOT, or ~/.agent-relay]",
       .suggest = Suggest::kHostDirs}};
  for (Option& one : mount_options()) options.push_back(std::move(one));
  for (Option& one : anchor_options()) options.push_back(std::move(one));
  return options;
}

std::vector<Option> limit_options() {
  return {{.name = "memory", .value = "SIZE", .help = "the memory that the command may use", .kind = ValueKind::kSize},
          {.name = "processes",
           .value = "N",
           .help = "how many processes and threads it may have [default: 32768]",
           .kind = ValueKind::kCount},
          {.name = "cpu-time",
           .value = "TIME",
           .help = "the processor time that each process may use",
           .kind = ValueKind::kDuration},
          {.name = "disk", .value = "SIZE", .help = "how much it may store", .kind = ValueKind::kSize}};
}

}  // namespace warren::cli
