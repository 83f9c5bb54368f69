// The subcommands of `warren relay`, by what they do, and what they share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/context.h"
#include "cli/syntax/args.h"
#include "relay/client/client.h"
#include "relay/ledger/ledger.h"
#include "relay/root/root.h"

namespace warren::cli {

std::vector<Command> make_relay_servers();   // up, down, status, tail, top
std::vector<Command> make_relay_messages();  // send, broadcast, inbox, ack, nack, channels
// Until the letter's delivery was made, or waits for its recipient. Fails if it died again.
Status wait_for_redelivery(Context& context, relay::Ledger& ledger, const relay::DeadLetter& letter,
                           std::int64_t until_ns);
std::vector<Command> make_relay_agents();      // agents, register, remove, spawn, release
std::vector<Command> make_relay_caretakers();  // dead, operations, archive, backup, adopt, fsck

Command make_relay_top();
Command make_relay_tail();
Command make_relay_remove();

Option relay_root_option();
Result<std::string> relay_root_path(const Arguments& args);
Result<std::unique_ptr<relay::Root>> open_relay_root(const Arguments& args);
// For commands of agents, which may see only their own part of the root.
Result<std::unique_ptr<relay::Root>> open_agent_root(const Arguments& args);
Status check_relay_agent(const relay::Root& root, const std::string& agent);  // kNotFound names similar agents
Status check_can_wait(const relay::Root& root);  // for '--wait': whether the ledger is visible
// With the token from the environment, if it is this agent's. An agent that is not registered is an error that names
// similar ones: a typo must not create a mailbox.
Result<std::unique_ptr<relay::Client>> open_relay_client(Context& context, relay::Root& root, const std::string& agent);
// For `--from`: `--register` registers the agent, and nobody has to register the default sender.
std::vector<Option> relay_sender_options(std::string_view help);
Result<std::unique_ptr<relay::Client>> open_relay_sender(Context& context, relay::Root& root, const Arguments& args);
Result<std::unique_ptr<relay::Ledger>> open_relay_ledger(Context& context, const relay::Root& root,
                                                         relay::LedgerUse use);

// command_relay_attachments.cc
std::vector<Command> make_relay_attachments();
Status attach_files(relay::Client& client, const std::vector<std::string>& files, relay::Message& message);
Status check_message_size(const relay::Root& root, const relay::Message& message);
// The message's attachments as JSON. Unless `dir` is empty, they are saved there, and "saved" has their names.
Result<Json> save_attachments(relay::Client& client, const relay::Message& message, const std::string& dir);

// The relay's stats.json. kNotFound: it has not been written yet.
Result<Json> read_relay_stats(const relay::Root& root);

}  // namespace warren::cli
