#include "session/run_network.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/json.h"
#include "net/proxy.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "sandbox/message.h"
#include "sandbox/view/network_view.h"

namespace warren {
namespace {

using Outcome = net::ProxyEvent::Outcome;

constexpr std::size_t kRecordBytes = std::size_t{4} << 20;
constexpr std::size_t kHostsInSummary = 1000;

const char* word_of_outcome(Outcome outcome) {
  switch (outcome) {
    case Outcome::kReached: return "reached";
    case Outcome::kRefused: return "refused";
    case Outcome::kFailed: return "failed";
  }
  return "";
}

// Appends whole lines, from several threads; stops at a limit, because what is inside decides how many there are.
class NetworkRecorder {
 public:
  explicit NetworkRecorder(const std::string& path)
      : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600)) {
    struct stat info {};
    if (file_.is_open() && ::fstat(file_.get(), &info) == 0) size_ = static_cast<std::size_t>(info.st_size);
  }

  void add(const net::ProxyEvent& event) {
    Json line{{"time", static_cast<std::int64_t>(::time(nullptr))},
              {"outcome", word_of_outcome(event.outcome)},
              {"host", event.host},
              {"port", event.port}};
    if (!event.reason.empty()) line["reason"] = event.reason;
    if (!event.allow.empty()) line["allow"] = event.allow;
    std::string text = dump_json(line) + "\n";
    std::size_t before = size_.fetch_add(text.size());
    bool is_full = before + text.size() > kRecordBytes;
    if (is_full) text = before <= kRecordBytes ? "{\"outcome\":\"cut\"}\n" : "";
    if (!text.empty()) write_all(file_.get(), as_bytes(text)).ignore("the connection matters more than its record");
  }

 private:
  Fd file_;
  std::atomic<std::size_t> size_ = 0;
};

// The child's life: waits for the listening socket, then serves until its parent is gone.
[[noreturn]] void live_as_proxy(const NetworkChoice& network, const std::string& record, int control) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // if the parent died just before this, its end of `control` is closed
  ::prctl(PR_SET_NAME, "warren-proxy");
  ::signal(SIGPIPE, SIG_IGN);
  auto keep = static_cast<unsigned>(control);
  ::close_range(3, keep - 1, 0);
  ::close_range(keep + 1, ~0U, 0);
  Fd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (int standard : {0, 1, 2}) ::dup2(nothing.get(), standard);
  nothing = Fd();
  Result<Message> message = receive_message(control);
  if (!message.ok() || message->fds.size() != 1) ::_exit(0);
  NetworkRecorder recorder(record);
  net::Proxy proxy(network.hosts, network.upstreams, [&](const net::ProxyEvent& event) { recorder.add(event); });
  proxy.serve(message->fds.front(), control);
  ::_exit(0);
}

void count_in(std::vector<HostCount>& list, const Json& line, bool& is_cut) {
  HostCount one{.host = line.value("host", ""),
                .port = line.value("port", std::uint16_t{0}),
                .count = 1,
                .reason = line.value("reason", ""),
                .allow = line.value("allow", "")};
  auto same = std::find_if(list.begin(), list.end(), [&](const HostCount& other) {
    return other.host == one.host && other.port == one.port && other.reason == one.reason;
  });
  if (same != list.end()) ++same->count;
  else if (list.size() < kHostsInSummary) list.push_back(std::move(one));
  else is_cut = true;
}

}  // namespace

Result<NetworkChoice> parse_network(std::span<const std::string> words) {
  auto is_word = [](const std::string& word) { return word == "all" || word == "none"; };
  if (std::any_of(words.begin(), words.end(), is_word)) {
    if (words.size() > 1) {
      return Error(Code::kInvalid, "'all' and 'none' cannot be combined with anything else");
    }
    NetworkAccess access = words.front() == "all" ? NetworkAccess::kAll : NetworkAccess::kNone;
    return NetworkChoice{.access = access, .hosts = {}, .words = {words.front()}, .upstreams = {}};
  }
  NetworkChoice choice{.access = NetworkAccess::kByName, .hosts = {}, .words = {}, .upstreams = {}};
  choice.words.assign(words.begin(), words.end());
  choice.hosts = WARREN_TRY(net::HostRules::parse(words));
  return choice;
}

std::string_view word_of(NetworkAccess access) {
  switch (access) {
    case NetworkAccess::kAll: return "all";
    case NetworkAccess::kNone: return "none";
    case NetworkAccess::kByName: return "by-name";
  }
  return "";
}

std::optional<NetworkAccess> find_network_access(std::string_view word) {
  for (NetworkAccess access : {NetworkAccess::kAll, NetworkAccess::kNone, NetworkAccess::kByName}) {
    if (word_of(access) == word) return access;
  }
  return std::nullopt;
}

std::vector<std::string> proxy_variables() {
  std::string address = fmt::format("http://127.0.0.1:{}", kProxyPort);
  std::vector<std::string> all;
  // The last ones are for programs that prefer their own settings to the usual variables. Not socks5h:// in ALL_PROXY:
  // Python's httpx fails at once where its SOCKS support is not installed.
  for (const char* name : {"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy",
                           "FTP_PROXY", "ftp_proxy", "npm_config_proxy", "npm_config_https_proxy", "YARN_HTTP_PROXY",
                           "YARN_HTTPS_PROXY", "PIP_PROXY", "CARGO_HTTP_PROXY"}) {
    all.push_back(fmt::format("{}={}", name, address));
  }
  for (const char* name : {"NO_PROXY", "no_proxy", "npm_config_noproxy"}) {
    all.push_back(fmt::format("{}=localhost,127.0.0.1,::1", name));
  }
  all.push_back(fmt::format("RSYNC_PROXY=127.0.0.1:{}", kProxyPort));
  all.emplace_back("NODE_USE_ENV_PROXY=1");
  for (const char* setting : {"COUNT=1", "KEY_0=http.proxy"}) all.push_back(fmt::format("GIT_CONFIG_{}", setting));
  all.push_back("GIT_CONFIG_VALUE_0=" + address);
  return all;
}

std::string network_record(const std::string& session_dir) { return session_dir + "/network.jsonl"; }

NetworkSummary read_network_record(const std::string& path, std::uint64_t from) {
  NetworkSummary summary;
  Result<std::string> text = read_host_file(path, kRecordBytes * 2);
  if (!text.ok()) return summary;
  std::string_view rest = std::string_view(*text).substr(std::min<std::uint64_t>(from, text->size()));
  while (!rest.empty()) {
    std::size_t end = std::min(rest.find('\n'), rest.size());
    Result<Json> line = parse_json(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!line.ok() || !line->is_object()) continue;
    std::string outcome = line->value("outcome", "");
    if (outcome == "cut") summary.is_cut = true;
    else if (outcome == "reached") count_in(summary.reached, *line, summary.is_cut);
    else if (outcome == "refused") count_in(summary.refused, *line, summary.is_cut);
    else if (outcome == "failed") count_in(summary.failed, *line, summary.is_cut);
  }
  return summary;
}

Result<std::unique_ptr<ProxyProcess>> ProxyProcess::start(const NetworkChoice& network, const std::string& record) {
  auto [ours, theirs] = WARREN_TRY(open_message_pair());
  pid_t pid = ::fork();
  if (pid < 0) return system_error(errno, "start the proxy");
  if (pid == 0) live_as_proxy(network, record, theirs.get());
  return std::unique_ptr<ProxyProcess>(new ProxyProcess(pid, std::move(ours)));
}

ProxyProcess::~ProxyProcess() {
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

Status ProxyProcess::serve(const Fd& listener) {
  std::array<std::string, 1> word{"serve"};
  std::array<int, 1> fds{listener.get()};
  return send_message(control_.get(), word, fds).within("start the proxy");
}

}  // namespace warren
