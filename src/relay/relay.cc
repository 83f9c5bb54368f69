#include "relay/relay.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <poll.h>
#include <sys/stat.h>

#include "os/processes/process.h"
#include "relay/ledger/open_ledger.h"
#include "relay/rounds.h"

namespace warren::relay {
namespace {

constexpr int kOpenTries = 20;
constexpr std::int64_t kAwayMs = 100;  // between tries to reach an unavailable ledger, doubled each time
constexpr std::int64_t kAwayMaxMs = 5000;
constexpr int kAwaySteps = 6;

}  // namespace

Relay::Relay(std::unique_ptr<Root> root, std::unique_ptr<ConfigFile> config, Clock& clock, LauncherOptions launch)
    : root_(std::move(root)),
      config_(std::move(config)),
      clock_(clock),
      log_(root_->dir(), config_->now().log_bytes_max, clock, {config_->now().log_level, config_->now().log_files}),
      metrics_(clock),
      launch_(std::move(launch)) {}

Relay::~Relay() = default;

Result<std::unique_ptr<Relay>> Relay::start(const std::string& path, Clock& clock, LauncherOptions launch,
                                            const std::string& ledger) {
  ::umask(077);  // the ledger's files are made by SQLite
  auto root = WARREN_TRY(Root::open(path, MakeRoot::kYes));
  WARREN_TRY(root->lock());
  if (!ledger.empty()) WARREN_TRY(set_ledger(*root, ledger));
  auto config = WARREN_TRY(ConfigFile::open(*root));
  std::unique_ptr<Relay> relay(new Relay(std::move(root), std::move(config), clock, std::move(launch)));
  relay->root_->note_holder(current_process()).ignore("a full disk, say: then only `down` does not find us");
  Status opened = relay->open();
  bool may_wait = !relay->config_->now().ledger.empty() && !opened.ok() && opened.error().code() == Code::kUnavailable;
  if (may_wait) relay->note_ledger_away(opened.error());
  else WARREN_TRY(std::move(opened));
  return relay;
}

// Another relay that starts at the same time creates tables, too: then one of both gets kBusy and tries again.
Status Relay::open() {
  Status opened = open_once();
  for (int tries = 1; tries < kOpenTries && !opened.ok() && opened.error().code() == Code::kBusy; ++tries) {
    opened = open_once();
  }
  return opened;
}

Status Relay::open_once() {
  rounds_ = WARREN_TRY(Rounds::open({*root_, config_->now(), clock_, log_, metrics_}, *config_, launch_));
  return Ok{};
}

void Relay::note_ledger_away(const Error& why) {
  ++failures_;
  metrics_.set_failure(failures_, why.message());
  log_.note(Severity::kWarning, "ledger_is_away", {{"error", why.message()}});
}

Result<bool> Relay::wait_for_ledger(int stop) {
  pollfd stopping{stop, POLLIN, 0};
  while (rounds_ == nullptr) {
    auto wait_ms = static_cast<int>(std::min(kAwayMaxMs, kAwayMs << std::min(failures_, kAwaySteps)));
    if (::poll(&stopping, 1, wait_ms) > 0) return false;
    Status opened = open();
    if (!opened.ok() && opened.error().code() != Code::kUnavailable) return std::move(opened).take_error();
    if (!opened.ok()) note_ledger_away(opened.error());
    else log_.note(Severity::kInfo, "ledger_is_back");
  }
  failures_ = 0;
  metrics_.set_failure(0, "");
  return true;
}

void Relay::set_metrics_address(std::string where) {
  log_.note(Severity::kInfo, "metrics", {{"address", where}});
  metrics_.set_address(std::move(where));
  if (rounds_ != nullptr) rounds_->note_metrics_change();
}

Status Relay::run(int stop) {
  if (!WARREN_TRY(wait_for_ledger(stop))) return Ok{};
  return rounds_->run(stop);
}

}  // namespace warren::relay
