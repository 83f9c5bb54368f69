// `warren relay remove`: ends an agent's registration and removes its directory.
#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/path.h"
#include "cli/commands.h"
#include "cli/relay/relay_commands.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "os/error.h"
#include "os/files/dir_reader.h"
#include "os/files/host_files.h"
#include "os/files/host_tree.h"
#include "relay/protocol/names.h"
#include "relay/upkeep/sweeper.h"

namespace warren::cli {
namespace {

constexpr std::size_t kCounted = 10'000;  // deliveries that wait in the ledger
constexpr std::size_t kLookedUp = 1000;   // deliveries, at once

// Mail of an agent.
struct Belongings {
  std::size_t unread = 0;   // in its inbox
  std::size_t unsent = 0;   // in its outbox
  std::size_t waiting = 0;  // in the ledger, for when it is active; at most kCounted
  bool is_empty() const { return unread + unsent + waiting == 0; }
};

Result<std::vector<std::string>> list_mail(int home, const std::string& box) {
  std::vector<std::string> names;
  Result<Fd> dir = relay::open_below(home, box, O_RDONLY | O_DIRECTORY);
  if (!dir.ok() && dir.error().code() == Code::kNotFound) return names;
  Fd opened = WARREN_TRY(std::move(dir));
  DirReader reader = WARREN_TRY(DirReader::open(opened.get()));
  while (const DirReader::Entry* entry = WARREN_TRY(reader.next())) {
    if (relay::is_message_file(entry->name)) names.emplace_back(entry->name);
  }
  return names;
}

Result<Belongings> count_belongings(int home, relay::Ledger& ledger, const std::string& name) {
  std::vector<std::string> inbox = WARREN_TRY(list_mail(home, "inbox"));
  std::vector<std::string> outbox = WARREN_TRY(list_mail(home, "outbox"));
  auto stored = WARREN_TRY(ledger.in_state(name, relay::DeliveryState::kStored, 0, kCounted));
  return Belongings{.unread = inbox.size(), .unsent = outbox.size(), .waiting = stored.size()};
}

std::string in_words(const Belongings& mail) {
  std::vector<std::string> parts;
  auto add = [&](std::size_t count, std::string_view what) {
    if (count > 0) parts.push_back(fmt::format("{} {} message{}", count, what, count == 1 ? "" : "s"));
  };
  add(mail.unread, "unread");
  add(mail.unsent, "unsent");
  add(mail.waiting, "waiting");
  return fmt::format("{}", fmt::join(parts, ", "));
}

Error has_mail(const std::string& name, const Belongings& mail) {
  return {Code::kNotEmpty, fmt::format("agent {} has {}", quote(name), in_words(mail)),
          "with --force, unread and waiting messages become dead letters, and unsent ones are lost"};
}

Status check_has_no_process(relay::Ledger& ledger, const std::string& name) {
  std::vector<relay::Life> lives = WARREN_TRY(ledger.list_lives());
  for (const relay::Life& life : lives) {
    if (life.name != name || !life.has_process()) continue;
    return Error(Code::kBusy, fmt::format("agent {} is running as process {}", quote(name), life.process.pid),
                 fmt::format("`warren relay release {}` ends it; --force kills it", name));
  }
  return Ok{};
}

// Moves the agent's directory to tmp/, which is at once and as a whole. Returns its new name there. The relay removes
// what is left of it after days; a rename does not change its time.
Result<std::string> set_aside(const relay::Root& root, int home, const std::string& name) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) return system_error(errno, "get random bytes");
  std::string aside = fmt::format("{}{:016x}", relay::kRemovedPrefix, random);
  Fd tmp = WARREN_TRY(relay::open_below(root.dir(), "tmp", O_RDONLY | O_DIRECTORY));
  if (::futimens(home, nullptr) != 0) return system_error(errno, fmt::format("touch agent {}", quote(name)));
  if (::renameat(root.agents(), name.c_str(), tmp.get(), aside.c_str()) == 0) return aside;
  return system_error(errno, fmt::format("remove the directory of agent {}", quote(name)));
}

// The agent gets its directory back.
Status put_back(const relay::Root& root, const std::string& aside, const std::string& name) {
  Fd tmp = WARREN_TRY(relay::open_below(root.dir(), "tmp", O_RDONLY | O_DIRECTORY));
  if (::renameat2(tmp.get(), aside.c_str(), root.agents(), name.c_str(), RENAME_NOREPLACE) == 0) return Ok{};
  return system_error(errno, fmt::format("put the directory of agent {} back; it is 'tmp/{}'", quote(name), aside));
}

// Given the `directory`, the relay buries what is unread in it.
Result<std::int64_t> request_removal(relay::Ledger& ledger, const std::string& name,
                                     const std::optional<std::string>& directory) {
  Json payload{{"agent", name}};
  if (directory) payload["directory"] = *directory;
  auto transaction = WARREN_TRY(ledger.begin());
  std::int64_t operation = WARREN_TRY(ledger.request("remove", dump_json(payload), name));
  WARREN_TRY(transaction.commit());
  return operation;
}

enum class CarriedOut { kNo, kYes };

// kNo: no relay is running; the next one does it.
Result<CarriedOut> wait_for_removal(Context& context, const Arguments& args, const relay::Root& root,
                                    std::int64_t operation) {
  WARREN_TRY(root.poke());
  std::chrono::milliseconds timeout = WARREN_TRY(parse_duration(args.get("timeout")));
  std::int64_t until_ns = context.clock.monotonic_ns() + std::chrono::nanoseconds(timeout).count();
  auto ledger = WARREN_TRY(open_relay_ledger(context, root, relay::LedgerUse::kRead));
  for (;;) {
    bool is_up = root.is_locked_by_other();  // first: it may end after it has carried it out
    std::optional<relay::OperationEnd> end = WARREN_TRY(ledger->find_end(operation));
    if (end && !end->error.empty()) return Error(Code::kUnavailable, printable(end->error));
    if (end) return CarriedOut::kYes;
    if (!is_up) {
      context.err.print("no relay is running at {}: the next one ends the registration\n",
                        context.err.name(root.path()));
      return CarriedOut::kNo;
    }
    if (context.clock.monotonic_ns() > until_ns) {
      return Error(Code::kTimeout, "timed out: the relay has not carried it out");
    }
    ::poll(nullptr, 0, 10);
  }
}

Error got_mail(const std::string& name, const Belongings& mail) {
  return {Code::kNotEmpty,
          fmt::format("agent {} got {} meanwhile; it is registered again, without its subscriptions", quote(name),
                      in_words(mail)),
          "with --force, unread messages become dead letters, and unsent ones are lost"};
}

// The directory of the agent is `home`, and `aside` in tmp/.
struct Removal {
  std::string name;
  bool is_forced = false;
  Fd home;
  std::string aside;
  Belongings mail;  // what is lost or becomes dead letters
  CarriedOut carried_out = CarriedOut::kNo;
};

// Mail may have arrived before the directory was moved.
Result<std::int64_t> ask_for_removal(Context& context, const relay::Root& root, relay::Ledger& reader,
                                     Removal& removal) {
  auto ledger = WARREN_TRY(open_relay_ledger(context, root, relay::LedgerUse::kRequest));
  removal.mail = WARREN_TRY(count_belongings(removal.home.get(), reader, removal.name));
  if (!removal.is_forced && !removal.mail.is_empty()) return has_mail(removal.name, removal.mail);
  return request_removal(*ledger, removal.name, removal.is_forced ? std::optional(removal.aside) : std::nullopt);
}

// Files that are not deliveries, put there by hand, do not become dead letters.
Result<std::size_t> count_unread(relay::Ledger& reader, const Removal& removal) {
  std::vector<std::string> files = WARREN_TRY(list_mail(removal.home.get(), "inbox"));
  std::size_t count = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (i % kLookedUp == 0) {
      std::vector<std::pair<std::string, std::string>> page;
      for (std::size_t at = i; at < std::min(i + kLookedUp, files.size()); ++at) {
        page.emplace_back(removal.name, files[at]);
      }
      reader.expect_in_inboxes(page);
    }
    std::optional<relay::Delivery> found = WARREN_TRY(reader.find_in_inbox(removal.name, files[i]));
    bool is_done = removal.carried_out == CarriedOut::kYes;
    if (found && (!is_done || found->state == relay::DeliveryState::kDead)) ++count;
  }
  return count;
}

// Until the relay has carried it out, it may put mail into the directory, wherever that is now.
Status end_registration(Context& context, const Arguments& args, const relay::Root& root, relay::Ledger& reader,
                        std::int64_t operation, Removal& removal) {
  removal.carried_out = WARREN_TRY(wait_for_removal(context, args, root, operation));
  std::vector<std::string> outbox = WARREN_TRY(list_mail(removal.home.get(), "outbox"));
  removal.mail.unsent = outbox.size();
  if (removal.is_forced) {
    removal.mail.unread = WARREN_TRY(count_unread(reader, removal));
    return Ok{};
  }
  std::vector<std::string> inbox = WARREN_TRY(list_mail(removal.home.get(), "inbox"));
  removal.mail.unread = inbox.size();
  Belongings here{.unread = removal.mail.unread, .unsent = removal.mail.unsent};
  if (!here.is_empty()) return got_mail(removal.name, here);
  return Ok{};
}

// A relay that was asked to make dead letters of what is unread may have begun with it, and goes on: such a directory
// never becomes the agent's again. The relay removes it after days.
Error not_ended(const Error& why, const Removal& removal) {
  return {
      why.code(),
      fmt::format("{}; the directory of agent {} is 'tmp/{}' now", why.message(), quote(removal.name), removal.aside),
      "`warren relay operations` lists the request while a relay still has to carry it out"};
}

// After an error, unless the relay buries what is in it, the agent gets its directory back.
Status give_back(const relay::Root& root, const Error& why, const Removal& removal) {
  WARREN_TRY(put_back(root, removal.aside, removal.name).within([&] { return why.message(); }));
  if (why.code() != Code::kTimeout) return why;
  return Error(Code::kTimeout, why.message() + ", so the agent stays",
               "`warren relay operations` lists the request, which will fail");
}

// The next relay has to see what is unread in the directory, and removes it after days.
Status remove_aside(const relay::Root& root, const Removal& removal) {
  if (removal.carried_out == CarriedOut::kNo && removal.mail.unread > 0) return Ok{};
  auto tmp = WARREN_TRY(HostTree::open(root.path() + "/tmp"));
  return tmp->remove_tree("/" + removal.aside);
}

void report_removal(Context& context, const Removal& removal) {
  if (removal.mail.unsent > 0) {
    context.err.print("{} {} lost\n", in_words({.unsent = removal.mail.unsent}),
                      removal.mail.unsent == 1 ? "is" : "are");
  }
  Belongings dead{.unread = removal.mail.unread, .waiting = removal.mail.waiting};
  if (dead.is_empty()) return;
  std::string_view letters = dead.unread + dead.waiting == 1 ? "a dead letter" : "dead letters";
  if (removal.carried_out == CarriedOut::kYes) context.err.print("{} became {}\n", in_words(dead), letters);
  else context.err.print("{} will become {} when a relay runs\n", in_words(dead), letters);
}

Result<Exit> run_remove(Context& context, const Arguments& args) {
  auto root = WARREN_TRY(open_relay_root(args));
  Removal removal;
  removal.name = args.get("NAME");
  removal.is_forced = args.has("force");
  WARREN_TRY(check_relay_agent(*root, removal.name));
  auto reader = WARREN_TRY(open_relay_ledger(context, *root, relay::LedgerUse::kRead));
  if (!removal.is_forced) WARREN_TRY(check_has_no_process(*reader, removal.name));
  removal.home = WARREN_TRY(relay::open_below(root->agents(), removal.name, O_RDONLY | O_DIRECTORY));
  removal.mail = WARREN_TRY(count_belongings(removal.home.get(), *reader, removal.name));
  if (!removal.is_forced && !removal.mail.is_empty()) return has_mail(removal.name, removal.mail);
  removal.aside = WARREN_TRY(set_aside(*root, removal.home.get(), removal.name));
  Result<std::int64_t> operation = ask_for_removal(context, *root, *reader, removal);
  Status ended =
      operation.ok() ? end_registration(context, args, *root, *reader, *operation, removal) : Status(operation.error());
  if (!ended.ok() && operation.ok() && removal.is_forced) return not_ended(ended.error(), removal);
  if (!ended.ok()) WARREN_TRY(give_back(*root, ended.error(), removal));
  WARREN_TRY(remove_aside(*root, removal));
  report_removal(context, removal);
  return Exit::kOk;
}

}  // namespace

Command make_relay_remove() {
  return {
      .name = "remove",
      .summary = "Remove an agent: its directory, its registration and its subscriptions",
      .details =
          "Refuses while the agent has mail (unread, not yet sent, or waiting until it is active) or a process that "
          "the relay started. With --force, unread and waiting messages become dead letters, unsent ones are lost, "
          "and the process is killed. The ledger keeps its record of the agent, as terminated.",
      .positionals = {{.name = "NAME", .help = "the agent", .suggest = Suggest::kRelayAgents}},
      .options = {{.name = "force", .help = "even if it has mail or a process"},
                  {.name = "timeout",
                   .value = "TIME",
                   .help = "how long to wait for the relay",
                   .kind = ValueKind::kDuration,
                   .fallback = "30s"}},
      .handler = run_remove};
}

}  // namespace warren::cli
