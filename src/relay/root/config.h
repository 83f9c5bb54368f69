// A relay's configuration: config.json in its root. Unknown keys are refused, since a misspelt limit would not limit
// anything.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "relay/root/severity.h"
#include "relay/spawn/spawn_config.h"

namespace warren::relay {

struct Config {
  // Not inline: otherwise GCC 12 warns about the strings in a Result<Config>, which it takes for its error.
  Config();
  Config(const Config&);
  Config(Config&&) noexcept;
  Config& operator=(Config&&) noexcept;
  ~Config();

  std::string lead;                                    // the agent that `Lead` stands for; empty: the agent named so
  std::uint64_t message_bytes_max = 1U << 20;          // size of a file in an outbox
  std::int64_t rate_per_second = 10'000;               // messages accepted from one agent; 0: unlimited
  std::chrono::milliseconds settle{100};               // how long a file written in place must be unchanged
  std::chrono::milliseconds rescan{30'000};            // interval of scans for files without an event
  std::chrono::milliseconds deadline{24 * 3'600'000};  // how long a failing delivery is retried
  std::uint64_t log_bytes_max = 16U << 20;             // size at which a log is rotated
  int log_files = 4;                                   // rotated files kept of each log
  Severity log_level = Severity::kInfo;                // lower ones are not logged; kDebug logs every message
  int disk_alert_percent = 90;                         // disk usage that raises an alert and frees space
  int archive_days = 30;                               // how long processed messages are kept; 0: forever
  std::string metrics;                                 // [ADDRESS:]PORT to serve metrics on; empty: not served
  bool metrics_public = false;                         // allow an address other than loopback
  SpawnConfig spawn;                                   // which programs agents may start
  ContinuityConfig continuity;                         // states saved by agents
  std::chrono::milliseconds inactive{0};               // an agent with mail unread for so long is inactive; 0: never

  std::uint64_t attachment_bytes_max = 1U << 30;         // per attachment
  std::uint64_t attachment_carry_bytes_max = 1U << 28;   // per attachment sent to another relay; 0: none
  std::chrono::milliseconds attachment_keep{3'600'000};  // after the last reference is gone
  std::string ledger;                                    // postgres://…; empty: ledger.db in the root
};

// kInvalid: the message names the key.
Result<Config> parse_config(std::string_view json);

}  // namespace warren::relay
