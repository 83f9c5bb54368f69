// config.json of a relay's root: what an operator may choose. A key we do not know is refused by name, since a
// misspelt limit is no limit.
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
  // Not inline: GCC 12 takes the strings in a Result<Config> for the error it might hold, and warns.
  Config();
  Config(const Config&);
  Config(Config&&) noexcept;
  Config& operator=(Config&&) noexcept;
  ~Config();

  std::string lead;                                    // who gets what is sent to `Lead`; "": the agent of that name
  std::uint64_t message_bytes_max = 1U << 20;          // of a file in an outbox
  std::int64_t rate_per_second = 10'000;               // messages taken from one agent; 0: no limit
  std::chrono::milliseconds settle{100};               // before a file that is written in place is read
  std::chrono::milliseconds rescan{30'000};            // looking for what no event told of
  std::chrono::milliseconds deadline{24 * 3'600'000};  // how long a failing delivery is tried
  std::uint64_t log_bytes_max = 16U << 20;             // then the log and the audit log start anew
  int log_files = 4;                                   // old ones of each that are kept
  Severity log_level = Severity::kInfo;                // what is less is not written; kDebug has every message
  int disk_alert_percent = 90;                         // how full the disk may be before it is said, and space is made
  int archive_days = 30;                               // then processed messages are forgotten; 0: never
  std::string metrics;                                 // [ADDRESS:]PORT to serve metrics at; "": nowhere
  bool metrics_public = false;                         // that address may be one that others reach
  SpawnConfig spawn;                                   // which programs agents may have started
  ContinuityConfig continuity;                         // states that agents save
  std::chrono::milliseconds inactive{0};  // after so long with unread mail an agent counts as inactive; 0: never

  std::uint64_t attachment_bytes_max = 1U << 30;         // of one attachment
  std::uint64_t attachment_carry_bytes_max = 1U << 28;   // of one that goes through a shared ledger; 0: none does
  std::chrono::milliseconds attachment_keep{3'600'000};  // after nobody needs it any more
  std::string ledger;                                    // postgres://…; "": ledger.db in the root
};

// kInvalid names the key.
Result<Config> parse_config(std::string_view json);

}  // namespace warren::relay
