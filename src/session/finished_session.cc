#include "session/finished_session.h"

#include "agent/copies/create.h"
#include "agent/locate.h"
#include "agent/sessions.h"
#include "changes/apply/apply_record.h"
#include "os/files/host_files.h"
#include "session/session_summary.h"
#include "session/session_walls.h"

namespace warren {
namespace {

// nullopt if the agent is not a session.
Result<std::optional<std::string>> find_session_id(const std::string& id_or_path) {
  std::string file = WARREN_TRY(locate_agent(id_or_path));
  std::string id = agent_id_of(file);
  std::optional<std::string> of_session = WARREN_TRY(find_session_file(id));
  if (!of_session) return std::optional<std::string>();
  std::string one = WARREN_TRY(canonical_host_path(file));
  std::string other = WARREN_TRY(canonical_host_path(*of_session));
  return one == other ? std::optional(std::move(id)) : std::nullopt;
}

}  // namespace

Result<std::optional<std::string>> find_finished(const std::string& id_or_path, Clock& clock) {
  std::optional<std::string> id = WARREN_TRY(find_session_id(id_or_path));
  if (!id) return id;
  SessionDir session = WARREN_TRY(SessionDir::open_existing(*id));
  std::optional<std::string> none;
  if (WARREN_TRY(session.is_running())) return none;
  if (!WARREN_TRY(summarise_session(session, clock)).is_empty()) return none;
  if (WARREN_TRY(is_open_somewhere(session.file()))) return none;
  return id;
}

Result<std::optional<FinishedSession>> remove_if_finished(const std::string& id_or_path, IfKept if_kept, Clock& clock) {
  std::optional<FinishedSession> none;
  std::optional<std::string> id = WARREN_TRY(find_session_id(id_or_path));
  if (!id) return none;
  SessionDir session = WARREN_TRY(SessionDir::open_existing(*id));
  Fd held = WARREN_TRY(session.lock());  // so that no run begins meanwhile
  if (WARREN_TRY(session.is_running())) return none;
  if (!WARREN_TRY(summarise_session(session, clock)).is_empty()) return none;
  if (WARREN_TRY(is_open_somewhere(session.file()))) return none;  // a mount or a server would lose what it does next
  WARREN_TRY(check_none_unfinished(session.file(), *id));
  if (if_kept == IfKept::kStay && WARREN_TRY(session.is_kept())) return none;  // not before: it is set while it is open
  SessionWalls walls = WARREN_TRY(load_walls(session.path()));
  WARREN_TRY(session.remove());
  return std::optional(FinishedSession{.id = *std::move(id), .restrictions = describe_walls(walls)});
}

Status keep_at_end(const std::string& id_or_path) {
  std::optional<std::string> id = WARREN_TRY(find_session_id(id_or_path));
  if (!id) return Ok{};
  SessionDir session = WARREN_TRY(SessionDir::open_existing(*id));
  return session.keep();
}

}  // namespace warren
