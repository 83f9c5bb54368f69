// Where a root's ledger is: ledger.db beside the agents, or a PostgreSQL database that config.json names.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "relay/ledger/ledger.h"
#include "relay/root/config.h"
#include "relay/root/root.h"

namespace warren::relay {

// A root that shares a ledger has an id, in `.home`: made by whoever serves it first.
Result<std::unique_ptr<Ledger>> open_ledger(const Root& root, const Config& config, LedgerUse use, Clock& clock);

// As others than the relay itself do. Where one has only just been started, it waits until that has made the ledger,
// for some seconds at most (kBusy).
Result<std::unique_ptr<Ledger>> open_ledger_of_relay(const Root& root, LedgerUse use, Clock& clock);

// Writes the address into config.json, where every command finds it. kConflict: the root has a ledger already, which
// would be forgotten. The caller holds the root's lock.
Status set_ledger(const Root& root, const std::string& url);

}  // namespace warren::relay
