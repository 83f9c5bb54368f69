// `warren relay remove`: ends an agent's registration and removes its directory.
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
#include "os/host_files.h"
#include "os/host_tree.h"
#include "relay/protocol/names.h"
#include "relay/upkeep/sweeper.h"

namespace warren::cli {
namespace {

constexpr std::size_t kCounted = 10'000;  // deliveries that wait in the ledger

// Mail of an agent.
struct Belongings {
  std::size_t unread = 0;   // in its inbox
  std::size_t unsent = 0;   // in its outbox
  std::size_t waiting = 0;  // in the ledger, for when it is active; at most kCounted
  bool is_empty() const { return unread + unsent + waiting == 0; }
};

Result<std::size_t> count_mail(int home, const std::string& box) {
  Result<Fd> dir = relay::open_below(home, box, O_RDONLY | O_DIRECTORY);
  if (!dir.ok() && dir.error().code() == Code::kNotFound) return 0;
  Fd opened = WARREN_TRY(std::move(dir));
  std::size_t count = 0;
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(opened.get()));
  for (const HostEntry& entry : entries) count += relay::is_message_file(entry.name) ? 1 : 0;
  return count;
}

Result<Belongings> count_belongings(int home, relay::Ledger& ledger, const std::string& name) {
  Belongings out;
  out.unread = WARREN_TRY(count_mail(home, "inbox"));
  out.unsent = WARREN_TRY(count_mail(home, "outbox"));
  auto stored = WARREN_TRY(ledger.in_state(name, relay::DeliveryState::kStored, 0, kCounted));
  out.waiting = stored.size();
  return out;
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
Result<std::int64_t> request_removal(relay::Ledger& ledger, const relay::Root& root, const std::string& name,
                                     const std::optional<std::string>& directory) {
  Json payload{{"agent", name}};
  if (directory) payload["directory"] = *directory;
  auto transaction = WARREN_TRY(ledger.begin());
  std::int64_t operation = WARREN_TRY(ledger.request("remove", dump_json(payload), name));
  WARREN_TRY(transaction.commit());
  WARREN_TRY(root.poke());
  return operation;
}

enum class CarriedOut { kNo, kYes };

// kNo: no relay is running; the next one does it.
Result<CarriedOut> wait_for_removal(Context& context, const Arguments& args, const relay::Root& root,
                                    std::int64_t operation) {
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
      return Error(Code::kTimeout, "timed out: the relay has not carried it out, so the agent stays",
                   "`warren relay operations` lists the request, which will fail");
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

struct Removal {
  Belongings mail;
  CarriedOut carried_out = CarriedOut::kNo;
};

// Until the relay has carried it out, it may put mail into the directory, wherever that is now. Returns the mail that
// is lost or becomes dead letters. After an error the directory, `aside` in tmp/, must be put back.
Result<Removal> end_registration(Context& context, const Arguments& args, const relay::Root& root,
                                 relay::Ledger& reader, int home, const std::string& aside) {
  const std::string& name = args.get("NAME");
  bool is_forced = args.has("force");
  auto ledger = WARREN_TRY(open_relay_ledger(context, root, relay::LedgerUse::kRequest));
  Belongings mail = WARREN_TRY(count_belongings(home, reader, name));
  if (!is_forced && !mail.is_empty()) return has_mail(name, mail);
  std::int64_t operation =
      WARREN_TRY(request_removal(*ledger, root, name, is_forced ? std::optional(aside) : std::nullopt));
  CarriedOut carried_out = WARREN_TRY(wait_for_removal(context, args, root, operation));
  mail.unread = WARREN_TRY(count_mail(home, "inbox"));
  mail.unsent = WARREN_TRY(count_mail(home, "outbox"));
  Belongings here{.unread = mail.unread, .unsent = mail.unsent};
  if (!is_forced && !here.is_empty()) return got_mail(name, here);
  return Removal{mail, carried_out};
}

// The next relay has to see what is unread in the directory, and removes it after days.
Status remove_aside(const relay::Root& root, const std::string& aside, const Removal& removal) {
  if (removal.carried_out == CarriedOut::kNo && removal.mail.unread > 0) return Ok{};
  auto tmp = WARREN_TRY(HostTree::open(root.path() + "/tmp"));
  return tmp->remove_tree("/" + aside);
}

void report_removal(Context& context, const Removal& removal) {
  if (removal.mail.unsent > 0) context.err.print("lost: {}\n", in_words({.unsent = removal.mail.unsent}));
  Belongings dead{.unread = removal.mail.unread, .waiting = removal.mail.waiting};
  if (dead.is_empty()) return;
  context.err.print("{} dead letters: {}\n", removal.carried_out == CarriedOut::kYes ? "now" : "then", in_words(dead));
}

Result<Exit> run_remove(Context& context, const Arguments& args) {
  auto root = WARREN_TRY(open_relay_root(args));
  const std::string& name = args.get("NAME");
  bool is_forced = args.has("force");
  WARREN_TRY(check_relay_agent(*root, name));
  auto reader = WARREN_TRY(open_relay_ledger(context, *root, relay::LedgerUse::kRead));
  if (!is_forced) WARREN_TRY(check_has_no_process(*reader, name));
  Fd home = WARREN_TRY(relay::open_below(root->agents(), name, O_RDONLY | O_DIRECTORY));
  Belongings mail = WARREN_TRY(count_belongings(home.get(), *reader, name));
  if (!is_forced && !mail.is_empty()) return has_mail(name, mail);
  std::string aside = WARREN_TRY(set_aside(*root, home.get(), name));
  Result<Removal> ended = end_registration(context, args, *root, *reader, home.get(), aside);
  if (!ended.ok()) {
    WARREN_TRY(put_back(*root, aside, name).within([&] { return ended.error().message(); }));
    return ended.error();
  }
  WARREN_TRY(remove_aside(*root, aside, *ended));
  report_removal(context, *ended);
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
