// Opens the ledger of a root: ledger.db in the root, or a PostgreSQL database that config.json names.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "relay/ledger/ledger.h"
#include "relay/root/config.h"
#include "relay/root/root.h"

namespace warren::relay {

// A root that shares a ledger has an id in `.home`, created by the first relay that serves it.
Result<std::unique_ptr<Ledger>> open_ledger(const Root& root, const Config& config, LedgerUse use, Clock& clock);

// For processes other than the relay. If a relay is just starting, waits some seconds for it to create the ledger; then
// kBusy.
Result<std::unique_ptr<Ledger>> open_ledger_of_relay(const Root& root, LedgerUse use, Clock& clock);

// Writes the address into config.json, where every command finds it. kConflict: the root already has another ledger,
// which would be abandoned. The caller holds the root's lock.
Status set_ledger(const Root& root, const std::string& url);

}  // namespace warren::relay
