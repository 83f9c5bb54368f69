// What tools may reach outside of the agent file, if the operator allows it: the session's sandbox and its base.
//
// Both are done by this program in a process of its own: a run starts servers and enters namespaces, which a process
// with threads cannot do, and an apply asks and records as it does for people.
#include <chrono>

#include <fmt/format.h>

#include "agent/sessions.h"
#include "base/path.h"
#include "cli/serve/served_view.h"
#include "os/files/host_files.h"
#include "os/processes/supervised.h"
#include "session/run_session.h"

namespace warren::cli {
namespace {

constexpr std::chrono::minutes kApplyTime{10};
constexpr std::size_t kApplyOutputBytes = std::size_t{16} << 20;

Result<ProgramEnd> run_program(const std::vector<std::string>& words, const std::string& dir,
                               const Supervision& limits) {
  Supervised done = WARREN_TRY(run_supervised(words, dir, limits));
  return ProgramEnd{.status = done.status,
                    .output = std::move(done.output),
                    .errors = std::move(done.errors),
                    .is_cut = done.is_cut,
                    .is_ended = done.ended_by != EndedBy::kItself};
}

// The session that this agent file belongs to, by where it is and not by what it says.
Result<std::string> session_of(const Agent& agent) {
  std::optional<std::string> file;
  if (agent.base()) file = WARREN_TRY(find_session_file(agent.id()));
  if (file) {
    std::string whole = WARREN_TRY(canonical_host_path(*file));
    std::string ours = WARREN_TRY(canonical_host_path(agent.path()));
    if (whole == ours) return agent.id();
  }
  return Error(Code::kInvalid,
               fmt::format("--allow is for sessions of `warren run`, and {} is none", quote(agent.id())),
               "`warren run --session NAME --keep -- true` makes one");
}

}  // namespace

Status allow_tools(const std::vector<std::string>& words, const Agent& agent, ToolReach& reach) {
  if (words.empty()) return Ok{};
  std::string session = WARREN_TRY(session_of(agent));
  std::string program = WARREN_TRY(canonical_host_path("/proc/self/exe"));
  std::string base = *agent.base();
  for (const std::string& word : words) {
    if (word == "run") {
      WARREN_TRY(check_outside_of_runs().within("--allow run"));
      reach.run = [program, session, base](const SandboxCommand& command) {
        std::vector<std::string> all{program, "run", "--session", session, "--keep", "--quiet"};
        all.emplace_back("--");
        all.insert(all.end(), command.words.begin(), command.words.end());
        return run_program(all, base,
                           {.timeout = command.timeout,
                            .output_bytes_max = command.output_bytes_max,
                            .is_cancelled = command.is_cancelled,
                            .at_our_end = AtOurEnd::kKill});
      };
    } else {
      reach.apply = [program, session](const ApplyRequest& request) {
        std::vector<std::string> all{program, "apply", "session:" + session};
        all.emplace_back(request.is_recovery ? "--recover" : "--json");
        if (request.is_dry_run) all.emplace_back("--dry-run");
        if (!request.if_state.empty()) all.push_back("--if-state=" + request.if_state);
        all.insert(all.end(), request.paths.begin(), request.paths.end());
        return run_program(
            all, "/",
            {.timeout = kApplyTime, .output_bytes_max = kApplyOutputBytes, .is_cancelled = request.is_cancelled});
      };
    }
  }
  return Ok{};
}

}  // namespace warren::cli
