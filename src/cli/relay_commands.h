// The subcommands of `warren relay`, by what they do, and what they share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/args.h"
#include "cli/context.h"
#include "relay/ledger.h"
#include "relay/root.h"

namespace warren::cli {

std::vector<Command> make_relay_servers();     // up, down, status, agents, tail
std::vector<Command> make_relay_messages();    // send, broadcast, inbox, ack, nack, channels
std::vector<Command> make_relay_caretakers();  // dead, archive, backup, fsck

Command make_relay_top();

Option relay_root_option();
Result<std::string> relay_root_path(Context& context, const Arguments& args);
Result<std::unique_ptr<relay::Root>> open_relay_root(Context& context, const Arguments& args);
Result<std::unique_ptr<relay::Ledger>> open_relay_ledger(Context& context, const relay::Root& root,
                                                         relay::LedgerUse use);

// stats.json: what the relay last said of itself. kNotFound before it ever did.
Result<Json> read_relay_stats(const relay::Root& root);

}  // namespace warren::cli
