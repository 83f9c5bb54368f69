#include "relay/ledger/open_ledger.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/json.h"
#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "pg/connection.h"

namespace warren::relay {
namespace {

constexpr std::uint64_t kConfigFileBytes = 1U << 20;
constexpr std::uint64_t kHomeBytes = 64;
// A relay creates its ledger within milliseconds, unless the machine is very busy.
constexpr int kMakingWaitMs = 10'000;
constexpr int kMakingStepMs = 20;

// Atomic and durable.
Status replace_file(const Root& root, std::string_view name, std::string_view content) {
  std::string draft = fmt::format("{}.new", name);
  ::unlinkat(root.dir(), draft.c_str(), 0);
  Fd file = WARREN_TRY(open_below(root.dir(), draft, O_WRONLY | O_CREAT | O_EXCL));
  WARREN_TRY(write_all(file.get(), as_bytes(content)).within(quote(draft)));
  if (::fsync(file.get()) != 0) return system_error(errno, fmt::format("sync {}", quote(draft)));
  if (::renameat(root.dir(), draft.c_str(), root.dir(), std::string(name).c_str()) != 0) {
    return system_error(errno, fmt::format("rename {}", quote(draft)));
  }
  return sync_host_dir(root.path());
}

Result<std::string> get_home(const Root& root, LedgerUse use) {
  Result<ReadFile> file = read_below(root.dir(), ".home", kHomeBytes);
  if (!file.ok() && file.error().code() == Code::kNotFound && use == LedgerUse::kServe) {
    std::uint64_t random[2] = {};
    if (::getrandom(random, sizeof random, 0) != sizeof random) return system_error(errno, "get random bytes");
    std::string id = fmt::format("{:016x}{:016x}", random[0], random[1]);
    WARREN_TRY(replace_file(root, ".home", fmt::format("{}\n", id)));
    return id;
  }
  if (!file.ok() && file.error().code() == Code::kNotFound) {
    return Error(Code::kNotFound, "no relay has run in this root yet", "start one with `warren relay up`");
  }
  if (!file.ok()) return std::move(file).take_error().within("'.home'");
  std::string id = file->content.substr(0, file->content.find('\n'));
  bool is_right = !id.empty() && id.find_first_not_of("0123456789abcdef") == id.npos;
  if (!is_right) return Error(Code::kCorrupt, "'.home' does not contain a valid relay id");
  return id;
}

}  // namespace

Result<std::unique_ptr<Ledger>> open_ledger(const Root& root, const Config& config, LedgerUse use, Clock& clock) {
  if (config.ledger.empty()) return Ledger::open(root.ledger_path(), use, clock);
  Home home;
  home.id = WARREN_TRY(get_home(root, use));
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  home.label = fmt::format("{}:{}", host, root.path());
  return Ledger::open(config.ledger, use, clock, std::move(home));
}

namespace {

// A running relay does not use a bad config.json, which must not keep commands from its ledger either.
Result<Config> read_config_for_ledger(const Root& root, bool is_running) {
  Result<Config> config = root.read_config();
  if (config.ok() || !is_running) return config;
  Config found;
  Result<std::string> text = root.read_config_text();
  Result<Json> json = text.ok() ? parse_json(*text) : Result<Json>(text.error());
  if (json.ok() && json->is_object()) found.ledger = text_in(*json, "ledger");
  if (!found.ledger.empty()) return pg::check_postgres_url(found.ledger).ok() ? Result<Config>(found) : config;
  bool has_file = WARREN_TRY(find_host_link(root.ledger_path()))
  .has_value();
  return has_file ? Result<Config>(found) : config;
}

}  // namespace

Result<std::unique_ptr<Ledger>> open_ledger_of_relay(const Root& root, LedgerUse use, Clock& clock) {
  for (int waited = 0;; waited += kMakingStepMs) {
    bool may_be_making = root.is_locked_by_other();  // checked first: it may finish while we open
    Config config = WARREN_TRY(read_config_for_ledger(root, may_be_making));  // a starting relay may change it
    Result<std::unique_ptr<Ledger>> ledger = open_ledger(root, config, use, clock);
    bool is_made = ledger.ok() || ledger.error().code() != Code::kNotFound;
    if (is_made || !may_be_making) return ledger;
    if (waited >= kMakingWaitMs) return Error(Code::kBusy, "the relay is still starting", "try again");
    ::poll(nullptr, 0, kMakingStepMs);
  }
}

Status set_ledger(const Root& root, const std::string& url) {
  WARREN_TRY(pg::check_postgres_url(url));
  Config config = WARREN_TRY(root.read_config());
  if (config.ledger == url) return Ok{};
  bool has_file = WARREN_TRY(find_host_link(root.ledger_path()))
  .has_value();
  if (!config.ledger.empty() || has_file) {
    return Error(Code::kConflict, fmt::format("the relay at {} already uses another ledger", quote(root.path())),
                 "use a new root, or change 'ledger' in config.json to abandon the old ledger");
  }
  ReadFile file = WARREN_TRY(read_below(root.dir(), "config.json", kConfigFileBytes));
  Json json = WARREN_TRY(parse_json(file.content));
  json["ledger"] = url;
  return replace_file(root, "config.json", json.dump(2) + "\n");
}

}  // namespace warren::relay
