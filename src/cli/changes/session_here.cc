#include "cli/changes/session_here.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/locate.h"
#include "agent/sessions.h"
#include "base/path.h"
#include "changes/upper/tree_finder.h"
#include "os/files/host_files.h"

namespace warren::cli {

namespace {

std::string unambiguous_id(const std::string& id) {
  Result<std::string> located = locate_agent(id);
  Result<std::optional<std::string>> session = find_session_file(session_id_of(id));
  bool is_session = located.ok() && session.ok() && *session && **session == *located;
  return is_session ? fmt::format("{}{}", kSessionPrefix, session_id_of(id)) : id;
}

}  // namespace

Result<Arguments> with_session_here(const Arguments& args) {
  Arguments whole = args;
  if (args.has("ID")) {
    whole.add("ID", unambiguous_id(args.get("ID")));
    return whole;
  }
  std::string here = WARREN_TRY(canonical_host_path("."));
  std::vector<SessionInfo> found = WARREN_TRY(list_sessions());
  std::erase_if(found, [&](const SessionInfo& one) { return one.base.empty() || !is_at_or_below(here, one.base); });
  if (found.empty()) {
    return Error(Code::kNotFound, fmt::format("no session has {} as its base, or a directory above it", quote(here)),
                 "give an ID; `warren sessions` lists them");
  }
  if (found.size() > 1) {
    std::sort(found.begin(), found.end(),
              [](const SessionInfo& a, const SessionInfo& b) { return a.used_at > b.used_at; });
    std::string ids;
    for (const SessionInfo& one : found) ids += fmt::format("{}{}", ids.empty() ? "" : ", ", one.id);
    return Error(Code::kConflict, "there are several sessions of this directory: which one is meant?",
                 fmt::format("give an ID, newest first: {}", ids));
  }
  whole.add("ID", fmt::format("{}{}", kSessionPrefix, found.front().id));
  return whole;
}

Positional optional_id_argument() {
  return {.name = "ID",
          .help =
              "the agent: an id in ./.agentfs, the path of its file, or a session [default: the only session of "
              "this directory]",
          .times = Times::kOptional,
          .suggest = Suggest::kAgents};
}

Positional changed_path_argument() {
  return {
      .name = "PATH", .help = "only changes at or below PATH", .times = Times::kAny, .suggest = Suggest::kBasePaths};
}

}  // namespace warren::cli
