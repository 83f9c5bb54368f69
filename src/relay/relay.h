// The relay, as the commands use it: opens the root and the ledger, waits for the ledger if it is unavailable, and
// runs.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "relay/root/config_file.h"
#include "relay/root/log.h"
#include "relay/root/root.h"
#include "relay/spawn/launcher.h"
#include "relay/upkeep/metrics.h"

namespace warren::relay {

class Rounds;

// One thread.
class Relay {
 public:
  // Locks the root (kBusy if a relay is up), repairs it, opens the ledger and recovers.
  // `ledger` is the address of a PostgreSQL database, and is kept in config.json; "": the one config.json names. If it
  // is unavailable, run() waits for it first; an error that waiting does not cure (a wrong password) fails at once.
  static Result<std::unique_ptr<Relay>> start(const std::string& path, Clock& clock, LauncherOptions launch = {},
                                              const std::string& ledger = "");
  ~Relay();

  // Serves until `stop` becomes readable, and finishes the messages it has accepted.
  Status run(int stop);

  Metrics& metrics() { return metrics_; }       // for any thread
  void set_metrics_address(std::string where);  // they are served there: before run()

 private:
  Relay(std::unique_ptr<Root> root, std::unique_ptr<ConfigFile> config, Clock& clock, LauncherOptions launch);
  Status open();
  Status open_once();
  Result<bool> wait_for_ledger(int stop);  // false: `stop` became readable
  void note_ledger_away(const Error& why);

  std::unique_ptr<Root> root_;
  std::unique_ptr<ConfigFile> config_;
  Clock& clock_;
  Log log_;
  Metrics metrics_;
  LauncherOptions launch_;
  int failures_ = 0;                // to reach the ledger
  std::unique_ptr<Rounds> rounds_;  // null until the ledger is open
};

}  // namespace warren::relay
