#include "cli/run/run_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/changes/changes_output.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "sandbox/enter.h"
#include "sandbox/walls/landlock.h"
#include "session/session_summary.h"

namespace warren::cli {
namespace {

constexpr std::size_t kNamesShown = 8;
constexpr std::size_t kHeldBackShown = 3;
constexpr std::size_t kHostsShown = 20;
constexpr std::size_t kHiddenShown = 100;

std::string joined_names(const std::vector<std::string>& names, std::size_t count_max) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < count_max; ++i)
    (text += text.empty() ? "" : ", ") += printable(names[i]);
  if (names.size() > count_max) text += fmt::format(" and {} more", names.size() - count_max);
  return text;
}

std::string held_back_line(const RunFacts& facts, std::string_view advice) {
  return fmt::format("held back from the environment: {} ({})", joined_names(facts.held_back, kHeldBackShown), advice);
}

std::string host_line(const HostCount& one) {
  std::string name = one.host.empty() ? "?" : fmt::format("{}:{}", printable(one.host), one.port);
  return one.count == 1 ? name : fmt::format("{} ({} times)", name, one.count);
}

void print_network(Output& err, const NetworkSummary& network) {
  std::vector<std::string> reached;
  for (const HostCount& one : network.reached) reached.push_back(host_line(one));
  if (!reached.empty()) err.line(fmt::format("network: reached {}", joined_names(reached, kHostsShown)));
  auto list = [&](const std::vector<HostCount>& hosts, std::string_view word) {
    for (std::size_t i = 0; i < hosts.size() && i < kHostsShown; ++i) {
      std::string reason = hosts[i].reason.empty() ? "" : fmt::format(": {}", printable(hosts[i].reason));
      std::string advice =
          hosts[i].allow.empty() ? "" : fmt::format("; allow it with --net {}", printable(hosts[i].allow));
      err.line(fmt::format("network: {} {}{}{}", word, host_line(hosts[i]), reason, advice));
    }
    if (hosts.size() > kHostsShown) err.line(fmt::format("network: {} {} more", word, hosts.size() - kHostsShown));
  };
  list(network.refused, "refused");
  list(network.failed, "failed");
  if (network.is_cut) err.line("network: there were more connections than the record holds");
}

class RunReport final : public RunObserver {
 public:
  RunReport(Context& context, ShowWalls walls) : context_(context), err_(context.err), walls_(walls) {}

  void on_warning(const std::string& message) override { err_.line("warren: " + message); }

  void on_failure(const Error& error) override {
    err_.line(fmt::format("{} {}", err_.paint(Ink::kRed, "warren:"), error.message()));
    if (!error.hint().empty()) err_.line(fmt::format("hint: {}", error.hint()));
  }

  void on_start(const RunFacts& facts) override {
    if (err_.is_terminal()) {
      err_.line(fmt::format("{} session {}, base {}", word_of(facts.entered_as), err_.paint(Ink::kBold, facts.id),
                            printable(facts.base)));
    }
    bool hides_entries = facts.home && !facts.home->shown.hidden_entries.empty();
    if (hides_entries && (err_.is_terminal() || walls_ == ShowWalls::kYes)) print_hidden(*facts.home);
    if (!facts.held_back.empty()) err_.line(held_back_line(facts, "--env NAME passes one, --walls lists them"));
    if (walls_ == ShowWalls::kYes) print_walls(facts);
  }

  void on_end(const SessionDir& session, const RunEnd& end) override {
    const std::string& id = session.id();
    print_network(err_, end.network);
    switch (end.fate) {
      case RunEnd::Fate::kServerLost:
        return err_.line(fmt::format(
            "warren: the session's server died; `warren run --session {}` resumes from the changes it had stored", id));
      case RunEnd::Fate::kDeleted:
        if (end.has_changed && err_.is_terminal()) err_.line(fmt::format("session {} was discarded", id));
        return;
      case RunEnd::Fate::kFinished: return print_finished(id, end.ended_restrictions);
      case RunEnd::Fate::kStillInUse:
        err_.line(fmt::format("session {} was not discarded: other commands still use it", id));
        break;
      case RunEnd::Fate::kWanted:
        err_.line(fmt::format("session {} was not discarded: another run of it was started without --discard", id));
        break;
      case RunEnd::Fate::kKept: break;
    }
    if (end.has_changed || end.has_refusals || err_.is_terminal()) print_summary(session, end.summary);
    if (end.has_refusals) {
      err_.line(fmt::format("  warren audit session:{} show --outcome failed  show what it was refused", id));
    }
    if (end.has_new_memory) err_.line(fmt::format("  warren vfs session:{} tree  show its memory and messages", id));
  }

 private:
  static std::string_view word_of(EnteredAs entered_as) {
    switch (entered_as) {
      case EnteredAs::kCreator: return "new";
      case EnteredAs::kResumer: return "resumed";
      case EnteredAs::kJoiner: return "joined";
    }
    return "";
  }

  void print_hidden(const Plan::Home& home) {
    std::size_t count = home.shown.hidden_entries.size();
    bool shows_all = home.view == HomeView::kAll;
    err_.line(fmt::format("{} of your home directory {} hidden: --read PATH shows one{}",
                          count == 1 ? "1 entry" : fmt::format("{} entries", count), count == 1 ? "is" : "are",
                          shows_all ? "" : ", --home all shows all but secrets"));
  }

  void print_sign_ins(const Plan::Home& home) {
    std::string path = printable(home.path);
    for (const Plan::Home::SignIn& one : home.sign_ins) {
      std::string target = one.outside == one.inside ? "" : fmt::format(", to {}/{}", path, printable(one.outside));
      err_.line(fmt::format("written through: {}/{}{}", path, printable(one.inside), target));
    }
    for (const Plan::Home::KeptSignIn& one : home.kept_sign_ins) {
      err_.line(fmt::format("not written through: {}/{}: {}", path, one.name, printable(one.why)));
    }
  }

  void print_hidden_paths(const RunFacts& facts) {
    if (facts.entered_as == EnteredAs::kJoiner) {
      err_.line("hidden: what the run hides that started the session");
      return;
    }
    std::size_t shown = std::min(facts.hidden.size(), kHiddenShown);
    for (std::size_t i = 0; i < shown; ++i) err_.line(fmt::format("hidden: {}", printable(facts.hidden[i])));
    if (shown < facts.hidden.size()) err_.line(fmt::format("hidden: {} more paths", facts.hidden.size() - shown));
    bool hides_entries = facts.home && !facts.home->shown.hidden_entries.empty();
    if (!hides_entries) return;
    err_.line(fmt::format("hidden in {}: {}", printable(facts.home->path),
                          joined_names(facts.home->shown.hidden_entries, kHiddenShown)));
  }

  void print_walls(const RunFacts& facts) {
    err_.line(fmt::format("copy-on-write: {}", printable(facts.base)));
    if (facts.home) {
      err_.line(fmt::format("copy-on-write: {}, in {}", printable(facts.home->path), printable(facts.home_layer)));
      print_sign_ins(*facts.home);
    }
    for (const std::string& path : facts.allowed) err_.line(fmt::format("writable: {}", printable(path)));
    err_.line("read-only: everything else on this machine that is not hidden; /tmp is private");
    for (const std::string& path : facts.readable) err_.line(fmt::format("readable: {}", printable(path)));
    print_hidden_paths(facts);
    err_.line(fmt::format("memory and messages: {}", facts.namespace_path.empty() ? "no" : facts.namespace_path));
    if (facts.relay) {
      err_.line(fmt::format("messages: those of {} at the relay {}", facts.relay->name, printable(facts.relay->root)));
    }
    for (const MountSpec& mount : facts.mounts) {
      err_.line(
          fmt::format("mounted: {} on {}{}", printable(mount.backend), facts.namespace_path, printable(mount.path)));
    }
    bool has_own_network = facts.network != NetworkAccess::kAll;
    err_.line(fmt::format("namespaces: user, mount, pid, ipc{}", has_own_network ? ", network" : ""));
    bool is_by_name = facts.network == NetworkAccess::kByName;
    std::string onward = facts.upstreams.empty()
                             ? ""
                             : fmt::format(", which uses your proxy {}", joined_names(facts.upstreams, kNamesShown));
    err_.line(fmt::format("network: {}{}",
                          is_by_name ? "hosts by name, through a proxy" : warren::word_of(facts.network), onward));
    if (is_by_name && !facts.hosts.empty())
      err_.line(fmt::format("network: may reach {}", joined_names(facts.hosts, facts.hosts.size())));
    err_.line(fmt::format("environment: {}", joined_names(facts.variables, facts.variables.size())));
    if (!facts.held_back.empty()) {
      err_.line(fmt::format("environment held back: {}", joined_names(facts.held_back, facts.held_back.size())));
    }
    for (const std::string& line : facts.limits.lines()) err_.line(line);
    err_.line("system-call filter: yes");
    int abi = landlock_abi();
    err_.line(abi >= 2 ? fmt::format("landlock: ABI {}", abi) : "landlock: no, this kernel does not support it");
    print_gaps(facts, abi);
  }

  // What the running kernel, or an option, leaves open.
  void print_gaps(const RunFacts& facts, int abi) {
    if (abi < kNamedSocketsAbi) {
      err_.line(
          "not enforced: named sockets that appear during the run, or were bound by a relative path, can be connected "
          "to; others are covered (Linux 7.1)");
    }
    if (abi < kAbstractSocketsAbi && facts.network == NetworkAccess::kAll) {
      err_.line("not enforced: abstract sockets outside can be connected to (Linux 6.12, or --no-network)");
    }
    for (const char* name : {"DISPLAY", "XAUTHORITY"}) {
      bool is_passed = std::find(facts.variables.begin(), facts.variables.end(), name) != facts.variables.end();
      if (is_passed)
        err_.line(
            fmt::format("not enforced: {} is passed; a client of an X server can read and type everywhere", name));
    }
  }

  void print_finished(const std::string& id, const std::vector<std::string>& restrictions) {
    err_.line(fmt::format("session {} is deleted: nothing is left in it", quote(id)));
    if (restrictions.empty()) return;
    err_.line(fmt::format("its restrictions end with it, a new session of this name needs them again: {}",
                          joined_names(restrictions, restrictions.size())));
  }

  void print_summary(const SessionDir& session, const std::optional<Result<SessionSummary>>& known) {
    const std::string& id = session.id();
    Result<SessionSummary> summary = known ? *known : summarise_session(session, context_.clock);
    bool has_changes = true;
    if (summary.ok()) {
      const ChangeSummary* counts = &summary->changes;
      has_changes = !summary->is_empty();
      std::string renamed = counts->renamed == 0 ? "" : fmt::format(", {} renamed", counts->renamed);
      err_.line(fmt::format("session {}: {} added, {} modified, {} deleted{} ({})", err_.paint(Ink::kBold, id),
                            counts->added, counts->modified, counts->deleted, renamed, err_.size(counts->bytes)));
      if (summary->has_commits) err_.line(fmt::format("new commits, which apply brings as the branch warren/{}", id));
      for (const std::string& what : summary->left)
        err_.line(fmt::format("{} in the session, which only the session keeps", err_.name(what)));
    } else {
      on_failure(summary.error());
    }
    if (has_changes) {
      err_.line(fmt::format("  warren diff session:{}      show the changes", id));
      err_.line(fmt::format("  warren apply session:{}     write them to the base", id));
      err_.line(fmt::format("  warren discard session:{}   drop them", id));
    } else {
      err_.line(fmt::format("  warren sessions delete {}   delete it: nothing is left in it", id));
    }
    err_.line(fmt::format("  warren run --session {}     continue", id));
  }

  Context& context_;
  Output& err_;
  ShowWalls walls_;
};

// Standard error is the command's, for programs that read it.
class QuietReport final : public RunObserver {
 public:
  explicit QuietReport(Output& err) : err_(err) {}

  void on_warning(const std::string&) override {}
  void on_failure(const Error& error) override {
    err_.line(fmt::format("warren: {}", error.message()));
    if (!error.hint().empty()) err_.line(fmt::format("hint: {}", error.hint()));
  }
  void on_start(const RunFacts&) override {}
  void on_end(const SessionDir&, const RunEnd& end) override {
    if (end.fate == RunEnd::Fate::kServerLost) err_.line("warren: the session's server died");
  }

 private:
  Output& err_;
};

class AgentFsReport final : public RunObserver {
 public:
  explicit AgentFsReport(Output& err) : err_(err) {}

  void on_warning(const std::string& message) override { err_.line("warren: " + message); }
  void on_failure(const Error& error) override { err_.line(fmt::format("Error: {}", error.message())); }

  void on_start(const RunFacts& facts) override {
    is_owner_ = facts.entered_as != EnteredAs::kJoiner;
    if (!is_owner_) return err_.print("Joining existing session: {}\n\n", facts.id);
    err_.print("Welcome to AgentFS!\n\nThe following directories are writable:\n\n  - {} (copy-on-write)\n",
               printable(facts.base));
    if (facts.home) err_.print("  - {} (copy-on-write, shared by all runs)\n", printable(facts.home->path));
    for (const std::string& path : facts.allowed) err_.print("  - {}\n", printable(path));
    err_.print("\nEverything else is read-only.\n\nTo join this session from another terminal:\n\n");
    err_.print("  agentfs run --session {} <command>\n\n", facts.id);
    if (!facts.held_back.empty()) err_.print("{}\n\n", held_back_line(facts, "--allow-default passes everything"));
  }

  void on_end(const SessionDir& session, const RunEnd& end) override {
    if (end.fate == RunEnd::Fate::kServerLost) {
      return err_.line(
          fmt::format("warren: the session's server died; `agentfs run --session {}` resumes from the changes it had "
                      "stored",
                      session.id()));
    }
    if (!is_owner_) return;
    err_.print(
        "\nSession: {0}\n\nTo resume this session:\n  agentfs run --session {0}\n\n"
        "To see what changed:\n  agentfs diff {0}\n",
        session.id());
  }

 private:
  Output& err_;
  bool is_owner_ = false;
};

Exit run_with(Context& context, const RunOptions& options, RunObserver& report, int own_failure) {
  Result<int> status = run_session(options, report, context.clock);
  if (status.ok()) return static_cast<Exit>(*status);
  report.on_failure(status.error());
  return static_cast<Exit>(own_failure);
}

}  // namespace

void report_failure(Context& context, const Error& error) { RunReport(context, ShowWalls::kNo).on_failure(error); }

Exit run_and_report(Context& context, const RunOptions& options, ShowWalls walls) {
  RunReport report(context, walls);
  return run_with(context, options, report, kOwnFailure);
}

Exit run_quietly(Context& context, const RunOptions& options) {
  QuietReport report(context.err);
  return run_with(context, options, report, kOwnFailure);
}

Exit run_and_report_as_agentfs(Context& context, const RunOptions& options) {
  AgentFsReport report(context.err);
  return run_with(context, options, report, static_cast<int>(Exit::kFailed));
}

}  // namespace warren::cli
