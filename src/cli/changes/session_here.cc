#include "cli/changes/session_here.h"

#include <algorithm>

#include <fcntl.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "agent/locate.h"
#include "agent/sessions.h"
#include "base/path.h"
#include "base/shell_word.h"
#include "changes/filter.h"
#include "changes/upper/open_overlay.h"
#include "cli/changes/changes_output.h"
#include "cli/changes/diff_pair.h"
#include "os/files/host_files.h"

namespace warren::cli {

namespace {

std::string unambiguous_id(const std::string& id) {
  Result<std::string> located = locate_agent(id);
  Result<std::optional<std::string>> session = find_session_file(session_id_of(id));
  bool is_session = located.ok() && session.ok() && *session && **session == *located;
  return is_session ? fmt::format("{}{}", kSessionPrefix, session_id_of(id)) : id;
}

// The newest first.
Result<std::vector<std::string>> list_ids_here(const std::string& here) {
  std::vector<SessionInfo> found = WARREN_TRY(list_sessions());
  std::erase_if(found, [&](const SessionInfo& one) { return one.base.empty() || !is_at_or_below(here, one.base); });
  std::ranges::stable_sort(found, was_used_later);
  std::vector<std::string> ids;
  for (SessionInfo& one : found) ids.push_back(std::move(one.id));
  return ids;
}

std::string directory_of_arguments(const Arguments& args) { return args.find("directory").value_or("."); }

// By its id alone: a file that somebody puts into the current directory must not change what a command line means.
bool is_id_here(const Arguments& before, std::string_view word) {
  if (!is_agent_id(word)) return false;
  Result<std::optional<struct stat>> file =
      find_host_file(fmt::format("{}/{}", directory_of_arguments(before), path_of_agent(word)));
  if (file.ok() && *file) return true;
  Result<std::optional<std::string>> session = find_session_file(word);
  return session.ok() && *session;
}

// As far as that can be known without opening it: an encrypted file is known by its name.
bool is_agent(const std::string& word) {
  if (word == kMemoryAgent || word.starts_with(kSessionPrefix) || find_pair(word)) return true;
  Result<std::string> file = locate_agent(word);
  if (!file.ok()) return file.error().code() == Code::kConflict;
  return *file != word || word.ends_with(".db") || is_plain_database(word);
}

bool is_pattern(const std::string& word) { return word.find_first_of("*?[") != word.npos; }

// In the session's tree or its base, from the current directory.
Result<bool> is_path_in(const std::string& session, const std::string& word, Clock& clock) {
  if (is_pattern(word)) return true;
  OverlayAgent opened = WARREN_TRY(open_overlay(session, OpenMode::kReadOnly, clock));
  Arguments only;
  only.add("PATH", word);
  Result<std::vector<std::string>> paths = paths_of(only, opened.overlay);
  return paths.ok() && check_paths(opened.overlay, *paths, {}).ok();
}

// A new agent has no base, so there would be no changes.
Error is_no_session(Error error) {
  bool offers_new = error.hint().starts_with("`warren init ");
  return offers_new ? std::move(error).with_hint("`warren run` starts a session; `warren sessions` lists them")
                    : std::move(error);
}

Result<bool> is_host_path(const std::string& word) {
  if (is_pattern(word)) return true;
  return WARREN_TRY(find_host_file(word))
  .has_value();
}

}  // namespace

bool is_plain_database(const std::string& path) {
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return false;
  std::string start(kMagic.size(), '\0');
  Result<std::size_t> count = read_full(file.get(), as_mutable_bytes(start));
  return count.ok() && *count == start.size() && start == kMagic;
}

std::string which_one_hint(std::span<const std::string> newest_first) {
  return fmt::format("give an ID, newest first: {}", fmt::join(newest_first, ", "));
}

std::optional<std::string> find_session_here(const std::string& directory) {
  Result<std::string> here = canonical_host_path(directory);
  if (!here.ok()) return std::nullopt;
  Result<std::vector<std::string>> ids = list_ids_here(*here);
  return ids.ok() && ids->size() == 1 ? std::optional(ids->front()) : std::nullopt;
}

void suggest_session_here(UsageError& error, std::span<const std::string> words) {
  if (!error.verb_at || is_id_here(error.arguments, words[*error.verb_at])) return;
  bool is_other_order = error.mistake == Mistake::kUnknownCommand && is_id_here(error.arguments, error.subject);
  if (is_other_order) return;
  std::optional<std::string> id = find_session_here(directory_of_arguments(error.arguments));
  if (!id && error.mistake != Mistake::kMissingCommand) return;
  std::vector<std::string> line(words.begin(), words.end());
  line[*error.verb_at] = error.verb;
  line.insert(line.begin() + static_cast<std::ptrdiff_t>(*error.verb_at), id.value_or("ID"));
  error.suggestion = fmt::format("warren {}", fmt::join(line, " "));
}

void suggest_command_of_agent(UsageError& error, std::span<const std::string> words) {
  bool is_command = error.mistake == Mistake::kUnknownCommand && error.path.size() == 1;
  if (!is_command || !is_id_here(error.arguments, error.subject)) return;
  auto id = std::ranges::find(words, error.subject);
  if (id == words.end() || id + 1 == words.end()) return;
  auto find = [](const Command& command, std::string_view name) {
    auto found = std::ranges::find(command.subcommands, name, &Command::name);
    return found == command.subcommands.end() ? nullptr : &*found;
  };
  const Command& root = *error.path.front();
  const Command* fs = find(root, "fs");
  const Command* command = find(root, *(id + 1));
  bool is_of_agent = command != nullptr && !command->positionals.empty() && command->positionals.front().name == "ID";
  std::vector<std::string> line;
  for (auto word = id + 1; word != words.end(); ++word) line.push_back(shell_word(*word));
  if (is_of_agent) line.insert(line.begin() + 1, shell_word(*id));
  else if (fs != nullptr && find(*fs, *(id + 1)) != nullptr) line.insert(line.begin(), "fs " + shell_word(*id));
  else return;
  error.suggestion = fmt::format("warren {}", fmt::join(line, " "));
}

Result<Arguments> with_session_here(const Arguments& args) {
  Arguments whole = args;
  if (args.has("ID")) {
    whole.add("ID", unambiguous_id(args.get("ID")));
    return whole;
  }
  std::string here = WARREN_TRY(canonical_host_path("."));
  std::vector<std::string> found = WARREN_TRY(list_ids_here(here));
  if (found.empty()) {
    return Error(Code::kNotFound, fmt::format("no session has {} as its base, or a directory above it", quote(here)),
                 "give an ID; `warren sessions` lists them");
  }
  if (found.size() > 1) {
    return Error(Code::kConflict, "there are several sessions of this directory: which one is meant?",
                 which_one_hint(found));
  }
  whole.add("ID", fmt::format("{}{}", kSessionPrefix, found.front()));
  return whole;
}

Result<Arguments> with_session_and_paths(const Arguments& args, Clock& clock) {
  if (!args.has("ID") || is_agent(args.get("ID"))) return with_session_here(args);
  const std::string& word = args.get("ID");
  std::vector<std::string> found = WARREN_TRY(list_ids_here(WARREN_TRY(canonical_host_path("."))));
  if (found.size() > 1 && WARREN_TRY(is_host_path(word))) {
    return Error(Code::kConflict,
                 fmt::format("{} is not an agent, and there are several sessions of this directory", quote(word)),
                 fmt::format("give the ID before a PATH; newest first: {}", fmt::join(found, ", ")));
  }
  std::string session = found.size() == 1 ? fmt::format("{}{}", kSessionPrefix, found.front()) : "";
  bool is_path = !session.empty() && WARREN_TRY(is_path_in(session, word, clock));
  if (!is_path) {
    Result<std::string> located = locate_agent(word);
    if (!located.ok()) return is_no_session(std::move(located).take_error());
    return with_session_here(args);
  }
  Arguments whole = args;
  whole.add("ID", session);
  whole.add_first("PATH", word);
  return whole;
}

Positional optional_id_argument() {
  return {.name = "ID",
          .help =
              "the agent: an id in ./.agentfs, the path of its file, or a session [default: the only session of "
              "this directory]",
          .times = Times::kOptional,
          .suggest = Suggest::kAgents,
          .kind = ValueKind::kNotEmpty,
          .is_known = is_id_here};
}

Positional changed_path_argument() {
  return {.name = "PATH",
          .help = "only changes at or below PATH",
          .times = Times::kAny,
          .suggest = Suggest::kBasePaths,
          .kind = ValueKind::kNotEmpty};
}

}  // namespace warren::cli
