// undo: restores what an apply replaced.
#include <algorithm>

#include <fmt/format.h>

#include "agent/agent.h"
#include "agent/locate.h"
#include "agent/sessions.h"
#include "base/path.h"
#include "changes/undo/undo.h"
#include "changes/upper/tree_finder.h"
#include "cli/changes/apply_consent.h"
#include "cli/changes/changes_output.h"
#include "cli/changes/session_here.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"
#include "os/files/host_files.h"
#include "store/identity.h"

namespace warren::cli {
namespace {

std::string_view kind_word(const KeptApply& kept) { return kept.record.kind == RecordKind::kUndo ? "undo" : "apply"; }

void print_kept(Context& context, const Arguments& args, const std::vector<KeptApply>& all) {
  Output& out = context.out;
  if (args.has("json")) {
    Json list = Json::array();
    for (const KeptApply& kept : all) {
      Json one{{"name", kept.name()},
               {"kind", kind_word(kept)},
               {"at", kept.started_at()},
               {"until", kept.ends_at()},
               {"size_bytes", kept.bytes}};
      set_bytes(one, "agent", kept.record.label);
      set_bytes(one, "base", kept.record.base);
      list.push_back(std::move(one));
    }
    out.json(list);
    return;
  }
  if (all.empty()) return out.line("nothing to undo");
  std::vector<std::vector<std::string>> rows{{"NAME", "AT", "KIND", "AGENT", "SIZE", "KEPT UNTIL", "BASE"}};
  for (const KeptApply& kept : all) {
    rows.push_back({kept.name(), out.time(kept.started_at()), std::string(kind_word(kept)), out.name(kept.record.label),
                    out.size(kept.bytes), out.time(kept.ends_at()), out.name(kept.record.base)});
  }
  std::vector<std::size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i + 1 < row.size(); ++i) line += pad_right(row[i], widths[i]) + "  ";
    out.line(line + row.back());
  }
}

// An agent as the user named it: by its file or, if that is gone, by the name that it had.
class NamedAgent {
 public:
  static Result<NamedAgent> find(const std::string& id, Clock& clock) {
    NamedAgent agent;
    agent.id_ = id;
    Result<std::string> located = locate_agent(id);
    if (!located.ok() && located.error().code() == Code::kConflict) return std::move(located).take_error();
    if (!located.ok()) return agent;
    agent.file_ = WARREN_TRY(canonical_host_path(*located));
    agent.info_ = WARREN_TRY(find_host_file(*located));
    Result<std::unique_ptr<Agent>> opened =
        Agent::open({.id_or_path = *located, .mode = OpenMode::kReadOnly, .layers = Layers::kOwn}, clock);
    if (opened.ok()) agent.identity_ = WARREN_TRY(find_identity((*opened)->store()));
    return agent;
  }

  bool has_file() const { return file_.has_value(); }

  Status check_none_unfinished() const { return file_ ? warren::check_none_unfinished(*file_, id_) : Status(Ok{}); }

  bool owns(const ApplyRecord& record) const {
    if (!file_) return record.label == id_ || session_id_of(record.label) == id_;
    bool is_same_file = info_ && record.inode == info_->st_ino && record.device == info_->st_dev;
    bool is_other_agent = identity_ && !record.agent_identity.empty() && record.agent_identity != *identity_;
    return record.agent == *file_ || (is_same_file && !is_other_agent);
  }

  // The agent file may have been moved since the apply.
  KeptApply with_file(KeptApply kept) const {
    if (file_) kept.record.agent = *file_;
    return kept;
  }

 private:
  std::string id_;
  std::optional<std::string> file_;
  std::optional<struct stat> info_;
  std::optional<std::string> identity_;  // unknown if it cannot be opened
};

Result<std::vector<KeptApply>> list_of_agent(const NamedAgent& agent) {
  std::vector<KeptApply> all = WARREN_TRY(list_kept());
  std::erase_if(all, [&](const KeptApply& kept) { return !agent.owns(kept.record); });
  return all;
}

// What was applied to the current directory or one above it. The home is above all of a user's projects: what was
// applied to it counts only there.
Result<UndoChoice> applied_here() {
  std::string here = WARREN_TRY(canonical_host_path("."));
  std::string home = WARREN_TRY(home_directory());
  return UndoChoice([here, home](const ApplyRecord& record) {
    return is_at_or_below(here, record.base) && (record.base == here || record.base != home);
  });
}

// The last apply of the only agent that has applied something here. Its session may be gone: an apply of everything
// deletes it.
Result<KeptApply> choose_kept_here() {
  UndoChoice is_here = WARREN_TRY(applied_here());
  std::vector<KeptApply> all = WARREN_TRY(list_kept());
  std::erase_if(all,
                [&](const KeptApply& kept) { return kept.record.kind != RecordKind::kApply || !is_here(kept.record); });
  if (all.empty()) {
    return Error(Code::kNotFound, "no apply to this directory, or to one above it, can be undone",
                 "`warren undo --list` shows what there is");
  }
  std::vector<std::string> agents;
  std::vector<std::string> labels;
  for (const KeptApply& kept : all) {
    if (std::ranges::count(agents, kept.record.agent) > 0) continue;
    agents.push_back(kept.record.agent);
    labels.push_back(kept.record.label);
  }
  if (labels.size() == 1) return all.front();
  return Error(Code::kConflict, "several agents have applied changes to this directory: which one is meant?",
               which_one_hint(labels));
}

Result<UndoChoice> asked_undos(Context& context, const Arguments& args) {
  if (std::optional<std::string> name = args.find("record")) {
    return UndoChoice([name = "-" + *name](const ApplyRecord& record) { return record.undoes.ends_with(name); });
  }
  if (!args.has("ID") && args.has("list")) return UndoChoice([](const ApplyRecord&) { return true; });
  if (!args.has("ID")) return applied_here();
  NamedAgent agent = WARREN_TRY(NamedAgent::find(args.get("ID"), context.clock));
  return UndoChoice([agent = std::move(agent)](const ApplyRecord& record) { return agent.owns(record); });
}

Result<KeptApply> choose_kept(Context& context, const Arguments& args) {
  if (std::optional<std::string> name = args.find("record")) {
    std::vector<KeptApply> all = WARREN_TRY(list_kept());
    auto found = std::find_if(all.begin(), all.end(), [&](const KeptApply& kept) { return kept.name() == *name; });
    if (found != all.end()) return *found;
    return Error(Code::kNotFound, fmt::format("no kept apply {}", quote(*name)), "`warren undo --list` lists them");
  }
  if (!args.has("ID")) return choose_kept_here();
  const std::string& id = args.get("ID");
  NamedAgent agent = WARREN_TRY(NamedAgent::find(id, context.clock));
  std::vector<KeptApply> all = WARREN_TRY(list_of_agent(agent));
  auto found = std::find_if(all.begin(), all.end(),
                            [](const KeptApply& kept) { return kept.record.kind == RecordKind::kApply; });
  if (found != all.end()) return agent.with_file(*found);
  if (!agent.has_file() && all.empty()) {
    return Error(Code::kNotFound,
                 fmt::format("no agent {}, and nothing is kept of a deleted one with that name", quote(id)),
                 "`warren undo --list` shows what can be undone");
  }
  WARREN_TRY(agent.check_none_unfinished());
  return Error(Code::kNotFound, fmt::format("no apply of {} can be undone", quote(id)),
               "what an apply replaced is kept for 30 days, if nothing else was asked for; `warren undo --list` shows "
               "what there is");
}

// Finishes interrupted undos, and returns those that are what this command asks for: doing it again would undo one more
// apply. Those of other agents in the same base must be finished before anything else is undone there.
Result<std::vector<UndoRecovery>> recover_asked(Context& context, const Arguments& args) {
  UndoChoice asked = WARREN_TRY(asked_undos(context, args));
  std::optional<std::string> base;
  if (!args.has("list")) {
    Result<KeptApply> kept = choose_kept(context, args);
    if (kept.ok()) base = kept->record.base;
  }
  auto is_chosen = [&](const ApplyRecord& record) { return asked(record) || record.base == base; };
  std::vector<UndoRecovery> recovered = WARREN_TRY(recover_undos(is_chosen, context.clock));
  for (UndoRecovery& one : recovered) {
    if (one.failure && !args.has("list")) return std::move(*one.failure);
    print_recovery(context.err, one);
  }
  std::erase_if(recovered, [&](const UndoRecovery& one) { return !asked(one.record); });
  return recovered;
}

Result<Exit> undo_kept(Context& context, const Arguments& args, const KeptApply& kept) {
  Undone undone = WARREN_TRY(undo(kept, context.clock));
  for (const std::string& note : undone.notes) context.err.line(context.err.name(note));
  if (args.has("json")) {
    Json conflicts = Json::array();
    for (const ApplyConflict& conflict : undone.conflicts) {
      Json one{{"why", conflict.why}};
      set_bytes(one, "path", conflict.path);
      conflicts.push_back(std::move(one));
    }
    Json paths = Json::array();
    if (undone.conflicts.empty()) {
      for (const std::string& path : undone.paths) paths.push_back(printable(path));
    }
    context.out.json({{"undone", paths}, {"conflicts", conflicts}, {"base", printable(kept.record.base)}});
    return undone.conflicts.empty() ? Exit::kOk : Exit::kFailed;
  }
  for (const ApplyConflict& conflict : undone.conflicts) {
    context.err.print("conflict: {}: {}\n", context.err.name(conflict.path), conflict.why);
  }
  if (!undone.conflicts.empty()) {
    std::size_t count = undone.conflicts.size();
    context.err.line(fmt::format("{} {}: nothing was written", context.err.paint(Ink::kRed, "warren:"),
                                 count == 1 ? "1 conflict" : fmt::format("{} conflicts", count)));
    context.err.line(fmt::format("hint: what the apply replaced is in {}", context.err.name(kept.dir)));
    return Exit::kFailed;
  }
  context.out.print("undone in {}: the {} of {}\n", context.out.name(kept.record.base), kind_word(kept),
                    context.out.time(kept.started_at()));
  return Exit::kOk;
}

Status list_undos(Context& context, const Arguments& args) {
  std::vector<KeptApply> all;
  if (args.has("ID")) {
    NamedAgent agent = WARREN_TRY(NamedAgent::find(args.get("ID"), context.clock));
    all = WARREN_TRY(list_of_agent(agent));
  } else {
    all = WARREN_TRY(list_kept());
  }
  print_kept(context, args, all);
  return Ok{};
}

// The interrupted undo was what the user asked for.
Exit end_undo_recovery(Context& context, const Arguments& args, const std::vector<UndoRecovery>& recovered,
                       bool is_finished) {
  if (args.has("json")) {
    Json paths = Json::array();
    for (const UndoRecovery& one : recovered) {
      if (!one.is_finished || !one.record.intent) continue;
      for (const Step& step : one.record.intent->steps) paths.push_back(printable(step.path));
    }
    context.out.json({{"undone", paths},
                      {"conflicts", Json::array()},
                      {"base", printable(recovered.front().record.base)},
                      {"was_interrupted", true}});
  } else {
    context.err.line(is_finished ? "hint: run it again to undo the apply before that one"
                                 : "hint: run it again to undo the apply");
  }
  return is_finished ? Exit::kOk : Exit::kFailed;
}

Result<Exit> run_undo(Context& context, const Arguments& args) {
  if (args.has("record") && (args.has("ID") || args.has("list")))
    return refuse(context, "--record cannot be used with ID or --list");
  std::vector<UndoRecovery> recovered = WARREN_TRY(recover_asked(context, args));
  bool is_finished =
      std::all_of(recovered.begin(), recovered.end(), [](const UndoRecovery& one) { return one.is_finished; });
  if (args.has("list")) {
    WARREN_TRY(list_undos(context, args));
    return is_finished ? Exit::kOk : Exit::kFailed;
  }
  if (!recovered.empty()) return end_undo_recovery(context, args, recovered, is_finished);
  KeptApply kept = WARREN_TRY(choose_kept(context, args));
  if (std::optional<std::uint64_t> bytes = args.find_size("undo-size")) kept.record.undo.bytes_max = *bytes;
  return undo_kept(context, args, kept);
}

}  // namespace

Command make_undo() {
  return {
      .name = "undo",
      .summary = "Restore what an apply replaced in the base",
      .details =
          "Undoes the agent's last apply that has not been undone yet. Without ID, it means the only agent that has "
          "applied something to this directory or to one above it. It is refused if something that the apply wrote "
          "has been changed since. If an undo was interrupted, the next one only finishes it. The agent's version is "
          "kept too: `undo --record NAME` brings it back.",
      .positionals = {{.name = "ID",
                       .help = "the agent: an id in ./.agentfs, the path of its file, or a session",
                       .times = Times::kOptional,
                       .suggest = Suggest::kAgents,
                       .kind = ValueKind::kNotEmpty}},
      .options = {{.name = "list", .letter = 'l', .help = "list what can be undone, for one agent or for all"},
                  {.name = "record", .value = "NAME", .help = "undo the entry that has this name in --list"},
                  {.name = "undo-size",
                   .value = "SIZE",
                   .help =
                       "keep at most SIZE of what applies and undos replaced; 0 keeps nothing [default: as the apply]",
                   .kind = ValueKind::kSize},
                  json_option()},
      .subcommands = {},
      .handler = run_undo};
}

}  // namespace warren::cli
