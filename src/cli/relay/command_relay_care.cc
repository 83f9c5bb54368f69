// Maintenance commands: dead, operations, archive, backup, adopt, fsck.
#include <poll.h>

#include <set>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/path.h"
#include "cli/commands.h"
#include "cli/relay/relay_commands.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "relay/upkeep/archive.h"
#include "relay/upkeep/fsck.h"

namespace warren::cli {
namespace {

constexpr std::size_t kShown = 1000;
constexpr std::uint64_t kFileBytes = std::uint64_t{64} << 20;

Json letter_json(const relay::DeadLetter& letter) {
  return {{"id", letter.id},
          {"message", letter.message_id},
          {"recipient", letter.recipient},
          {"reason", printable(letter.reason)},
          {"died_at_us", letter.died_at_us}};
}

Result<Exit> run_dead_list(Context& context, const Arguments& args) {
  auto root = WARREN_TRY(open_relay_root(args));
  auto ledger = WARREN_TRY(open_relay_ledger(context, *root, relay::LedgerUse::kRead));
  std::vector<relay::DeadLetter> letters = WARREN_TRY(ledger->list_dead(kShown));
  Json list = Json::array();
  for (const relay::DeadLetter& letter : letters) {
    if (args.has("json")) list.push_back(letter_json(letter));
    else
      context.out.print("{} {} {} {}\n", letter.id, context.out.time(letter.died_at_us / 1'000'000),
                        printable(letter.message_id), printable(letter.reason));
  }
  if (args.has("json")) context.out.json(list);
  return Exit::kOk;
}

Result<relay::DeadLetter> get_letter(relay::Ledger& ledger, std::int64_t id) {
  std::optional<relay::DeadLetter> letter = WARREN_TRY(ledger.find_dead(id));
  if (!letter) return ledger.no_letter(id);
  return *letter;
}

Result<Exit> run_dead_show(Context& context, const Arguments& args) {
  auto root = WARREN_TRY(open_relay_root(args));
  auto ledger = WARREN_TRY(open_relay_ledger(context, *root, relay::LedgerUse::kRead));
  relay::DeadLetter letter = WARREN_TRY(get_letter(*ledger, args.integer("LETTER")));
  std::optional<relay::StoredMessage> message = WARREN_TRY(ledger->find_message(letter.message_id));
  if (!message) return Error(Code::kCorrupt, fmt::format("the ledger has no message {}", quote(letter.message_id)));
  relay::ReadFile file = WARREN_TRY(relay::read_below(root->dir(), message->message.path, kFileBytes));
  if (args.has("json")) {
    Json json = letter_json(letter);
    set_bytes(json, "content", file.content);
    context.out.json(json);
  } else {
    context.err.line(fmt::format("dead letter {} of {}, message {}: {}", letter.id,
                                 context.out.time(letter.died_at_us / 1'000'000), printable(letter.message_id),
                                 printable(letter.reason)));
    context.out.text(file.content);
  }
  return Exit::kOk;
}

struct Requested {
  std::unique_ptr<relay::Root> root;
  relay::DeadLetter letter;
  std::int64_t operation = 0;
  bool is_for_us = true;  // and not for another relay, which has the sender's file
};

Result<Requested> request(Context& context, const Arguments& args, std::int64_t letter, std::string_view what) {
  Requested out;
  out.root = WARREN_TRY(open_relay_root(args));
  auto ledger = WARREN_TRY(open_relay_ledger(context, *out.root, relay::LedgerUse::kRequest));
  auto transaction = WARREN_TRY(ledger->begin());
  out.letter = WARREN_TRY(get_letter(*ledger, letter));
  out.operation = WARREN_TRY(ledger->request_for_letter(out.letter.id, what));
  if (ledger->homes() != nullptr) {
    const std::string& message = out.letter.message_id;
    std::optional<std::string> home = WARREN_TRY(ledger->homes()->find(message.substr(0, message.find('/'))));
    out.is_for_us = !home || *home == ledger->homes()->id();
  }
  WARREN_TRY(transaction.commit());
  WARREN_TRY(out.root->poke());
  return out;
}

// Waits until the relay has carried out the operation, and fails if that failed. Whether another relay is running is
// not known here.
Status wait_for_end(Context& context, const Requested& requested, relay::Ledger& ledger, std::int64_t until_ns) {
  const std::string hint = "the request is kept until a relay carries it out; `warren relay operations` lists it";
  const relay::Root& root = *requested.root;
  for (;;) {
    bool is_up = !requested.is_for_us || root.is_locked_by_other();  // first: it may end after it has carried it out
    std::optional<relay::OperationEnd> end = WARREN_TRY(ledger.find_end(requested.operation));
    if (end && !end->error.empty()) return Error(Code::kUnavailable, printable(end->error));
    if (end) return Ok{};
    if (!is_up) return Error(Code::kUnavailable, fmt::format("no relay is running at {}", quote(root.path())), hint);
    if (context.clock.monotonic_ns() > until_ns)
      return Error(Code::kTimeout, "timed out: the relay has not carried out the request yet", hint);
    ::poll(nullptr, 0, 10);
  }
}

Result<std::int64_t> until_of(Context& context, const Arguments& args) {
  std::chrono::milliseconds timeout = WARREN_TRY(parse_duration(args.get("timeout")));
  return context.clock.monotonic_ns() + std::chrono::nanoseconds(timeout).count();
}

Result<Exit> run_redeliver(Context& context, const Arguments& args) {
  std::int64_t until_ns = WARREN_TRY(until_of(context, args));
  Requested requested = WARREN_TRY(request(context, args, args.integer("LETTER"), "redeliver"));
  if (args.has("no-wait")) return Exit::kOk;
  auto ledger = WARREN_TRY(open_relay_ledger(context, *requested.root, relay::LedgerUse::kRead));
  WARREN_TRY(wait_for_end(context, requested, *ledger, until_ns));
  WARREN_TRY(wait_for_redelivery(context, *ledger, requested.letter, until_ns));
  return Exit::kOk;
}

Status discard_one(Context& context, const Arguments& args, std::int64_t letter, std::int64_t until_ns) {
  Requested requested = WARREN_TRY(request(context, args, letter, "discard"));
  if (args.has("no-wait")) return Ok{};
  auto ledger = WARREN_TRY(open_relay_ledger(context, *requested.root, relay::LedgerUse::kRead));
  return wait_for_end(context, requested, *ledger, until_ns);
}

Result<Exit> run_discard(Context& context, const Arguments& args) {
  std::int64_t until_ns = WARREN_TRY(until_of(context, args));
  std::set<std::int64_t> letters;
  for (const std::string& number : args.all("LETTER")) letters.insert(WARREN_TRY(parse_count(number)));
  if (letters.size() == 1) {
    WARREN_TRY(discard_one(context, args, *letters.begin(), until_ns));
    return Exit::kOk;
  }
  // One that cannot be discarded does not keep the others.
  Exit exit = Exit::kOk;
  for (std::int64_t letter : letters) {
    Status done = discard_one(context, args, letter, until_ns);
    if (!done.ok()) exit = Exit::kFailed;
    warn_if_not(context, done);
  }
  return exit;
}

Json operation_json(const relay::RecordedOperation& one) {
  Json json = {{"id", one.operation.id},
               {"type", one.operation.type},
               {"state", one.ended_at_us == 0 ? "open" : "failed"},
               {"payload", printable(one.operation.payload)},
               {"requested_at_us", one.requested_at_us}};
  if (one.ended_at_us != 0) json["ended_at_us"] = one.ended_at_us;
  if (!one.error.empty()) json["error"] = printable(one.error);
  return json;
}

Result<Exit> run_operations(Context& context, const Arguments& args) {
  auto root = WARREN_TRY(open_relay_root(args));
  auto ledger = WARREN_TRY(open_relay_ledger(context, *root, relay::LedgerUse::kRead));
  std::vector<relay::RecordedOperation> operations = WARREN_TRY(ledger->list_operations(kShown));
  Json list = Json::array();
  for (const relay::RecordedOperation& one : operations) {
    Json json = operation_json(one);
    if (args.has("json")) {
      list.push_back(std::move(json));
      continue;
    }
    context.out.print("{} {} {} {}{}\n", one.operation.id, one.operation.type, json["state"].get<std::string>(),
                      printable(one.operation.payload), one.error.empty() ? "" : ": " + printable(one.error));
  }
  if (args.has("json")) context.out.json(list);
  return Exit::kOk;
}

Result<Exit> run_archive_list(Context& context, const Arguments& args) {
  auto root = WARREN_TRY(open_relay_root(args));
  std::vector<relay::ArchiveDay> days = WARREN_TRY(relay::list_archive(*root));
  Json list = Json::array();
  for (const relay::ArchiveDay& day : days) {
    if (args.has("json")) list.push_back({{"date", day.date}, {"files", day.files}, {"bytes", day.bytes}});
    else context.out.print("{} {} messages, {}\n", day.date, day.files, context.out.size(day.bytes));
  }
  if (args.has("json")) context.out.json(list);
  return Exit::kOk;
}

Result<Exit> run_archive_prune(Context& context, const Arguments& args) {
  auto root = WARREN_TRY(open_relay_root(args));
  auto ledger = WARREN_TRY(open_relay_ledger(context, *root, relay::LedgerUse::kRead));
  std::chrono::milliseconds age = WARREN_TRY(parse_duration(args.get("older")));
  std::int64_t before = context.clock.now().seconds - std::chrono::duration_cast<std::chrono::seconds>(age).count();
  std::string date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(before));
  std::uint64_t removed = WARREN_TRY(relay::prune_archive(*root, *ledger, date));
  context.out.print("{} messages removed\n", removed);
  return Exit::kOk;
}

Result<Exit> run_backup(Context& context, const Arguments& args) {
  auto root = WARREN_TRY(open_relay_root(args));
  auto ledger = WARREN_TRY(open_relay_ledger(context, *root, relay::LedgerUse::kRead));
  WARREN_TRY(ledger->backup_to(args.get("FILE")));
  return Exit::kOk;
}

Result<Exit> run_adopt(Context& context, const Arguments& args) {
  const std::string& name = args.get("NAME");
  auto root = WARREN_TRY(open_relay_root(args));
  auto ledger = WARREN_TRY(open_relay_ledger(context, *root, relay::LedgerUse::kRequest));
  relay::Homes* homes = ledger->homes();
  if (homes == nullptr) return Error(Code::kUnsupported, "the ledger of this relay is not shared");
  WARREN_TRY(root->make_agent(name));
  auto transaction = WARREN_TRY(ledger->begin());
  std::int64_t left = WARREN_TRY(homes->adopt(name));
  WARREN_TRY(transaction.commit());
  if (left > 0) context.out.print("{} pending deliveries stay at its old home\n", left);
  return Exit::kOk;
}

Result<Exit> run_fsck(Context& context, const Arguments& args) {
  auto root = WARREN_TRY(open_relay_root(args));
  bool repairs = args.has("repair");
  if (repairs) WARREN_TRY(root->lock());
  auto ledger =
      WARREN_TRY(open_relay_ledger(context, *root, repairs ? relay::LedgerUse::kRequest : relay::LedgerUse::kRead));
  relay::FsckReport report = WARREN_TRY(relay::fsck(*root, *ledger, repairs ? relay::Repair::kYes : relay::Repair::kNo,
                                                    args.has("deep") ? relay::Depth::kContent : relay::Depth::kNames));
  if (args.has("json")) {
    context.out.json({{"problems", report.problems}, {"repaired", report.repaired}});
  } else {
    for (const std::string& problem : report.problems) context.out.line(printable(problem));
    for (const std::string& repaired : report.repaired) context.out.line(printable(repaired));
    if (report.problems.empty()) context.out.line("the ledger and the directories are consistent");
  }
  bool is_well = report.problems.size() <= report.repaired.size();
  return is_well ? Exit::kOk : Exit::kFailed;
}

Command make_dead() {
  Positional letter{.name = "LETTER", .help = "the dead letter's number", .kind = ValueKind::kCount};
  Command list{.name = "list",
               .summary = "List messages that could not be delivered",
               .details = "",
               .options = {json_option()},
               .handler = run_dead_list};
  Command show{.name = "show",
               .summary = "Print a dead letter as it was sent",
               .details = "",
               .positionals = {letter},
               .options = {json_option()},
               .handler = run_dead_show};
  std::vector<Option> waiting = {
      {.name = "timeout", .value = "TIME", .help = "how long to wait", .kind = ValueKind::kDuration, .fallback = "30s"},
      {.name = "no-wait", .help = "return at once; the relay does it later"}};
  Command again{
      .name = "redeliver",
      .summary = "Retry the delivery of a dead letter",
      .details =
          "Waits until the letter is delivered, or until it is queued for a recipient that is not active. The exit "
          "status is 1 if the delivery fails again or takes longer than --timeout.",
      .positionals = {letter},
      .options = waiting,
      .handler = run_redeliver};
  Positional letters = letter;
  letters.times = Times::kOnceOrMore;
  letters.help = "the dead letters' numbers";
  Command discard{.name = "discard",
                  .summary = "Dismiss dead letters",
                  .details = "",
                  .positionals = {letters},
                  .options = waiting,
                  .handler = run_discard};
  return {.name = "dead",
          .summary = "Show, redeliver and discard dead letters: messages that could not be delivered",
          .details = "",
          .subcommands = {list, show, again, discard}};
}

Command make_archive() {
  Command list{.name = "list",
               .summary = "List days with the number and size of their messages",
               .details = "",
               .options = {json_option()},
               .handler = run_archive_list};
  Command prune{.name = "prune",
                .summary = "Remove old processed messages",
                .details = "",
                .options = {{.name = "older",
                             .value = "TIME",
                             .help = "minimum age: 7d, 12h",
                             .kind = ValueKind::kDuration,
                             .fallback = "30d"}},
                .handler = run_archive_prune};
  return {
      .name = "archive", .summary = "List and remove processed messages", .details = "", .subcommands = {list, prune}};
}

}  // namespace

std::vector<Command> make_relay_caretakers() {
  Command backup{.name = "backup",
                 .summary = "Copy the ledger, even while it is in use",
                 .details = "",
                 .positionals = {{.name = "FILE", .help = "the copy; must not exist", .suggest = Suggest::kHostFiles}},
                 .handler = run_backup};
  Command adopt{
      .name = "adopt",
      .summary = "Make this relay the home of an agent of another relay",
      .details =
          "Of the relays that share a ledger, one is the home of an agent: it takes messages from its outbox and "
          "delivers to its inbox. This command makes this relay the home; waiting messages are delivered here.",
      .positionals = {{.name = "NAME", .help = "the agent", .suggest = Suggest::kRelayAgents}},
      .handler = run_adopt};
  Command check{.name = "fsck",
                .summary = "Check that the ledger and the directories are consistent",
                .details = "",
                .options = {{.name = "repair", .help = "repair what can be repaired; no relay may be running"},
                            {.name = "deep", .help = "also read every attachment"},
                            json_option()},
                .handler = run_fsck};
  Command operations{.name = "operations",
                     .summary = "List requests that the relay has not carried out yet, or that failed",
                     .details = "Newest first. Failed requests are kept as long as the archive.",
                     .options = {json_option()},
                     .handler = run_operations};
  return {make_dead(), operations, make_archive(), backup, adopt, check};
}

}  // namespace warren::cli
