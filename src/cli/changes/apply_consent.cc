#include "cli/changes/apply_consent.h"

#include <fmt/format.h>

#include "agent/locate.h"
#include "agent/sessions.h"
#include "base/path.h"
#include "changes/permission.h"
#include "changes/remarks.h"
#include "cli/changes/changes_output.h"
#include "os/host_files.h"
#include "os/terminal.h"

namespace warren::cli {
namespace {

bool is_home(const std::string& base) {
  Result<std::string> home = home_directory();
  if (!home.ok()) return false;
  Result<std::string> canonical = canonical_host_path(*home);
  return canonical.ok() && *canonical == base;
}

// No list of names could be complete there.
Result<bool> agrees_to_home(Context& context, const AgentOverlay& overlay, std::size_t count) {
  std::string what = fmt::format(
      "{} in your home directory, where shells, package managers and agents run much of "
      "what they find",
      count == 1 ? "1 change" : fmt::format("{} changes", count));
  if (!is_terminal(context.input)) {
    return Error(Code::kDenied, fmt::format("nothing was written: {}", what), "look at the diff; then add --yes");
  }
  context.err.print("{}: {}\n", context.err.name(overlay.base_path), what);
  bool agrees = WARREN_TRY(ask_yes(context, "Apply them?"));
  if (!agrees) context.err.line("nothing was written");
  return agrees;
}

}  // namespace

Result<bool> agrees_to_base(Context& context, const Arguments& args, const AgentOverlay& overlay) {
  std::optional<std::string> doubt = WARREN_TRY(find_doubt(overlay));
  if (std::optional<std::string> named = args.find("trust-base")) {
    std::string asked = WARREN_TRY(canonical_host_path(*named).within("--trust-base"));
    std::string base = WARREN_TRY(canonical_host_path(overlay.base_path));
    if (asked != base) {
      return Error(Code::kInvalid, fmt::format("the base of this agent is {}, not {}", quote(base), quote(asked)),
                   "`warren apply --to DIR` writes the changes to another directory");
    }
    if (doubt) WARREN_TRY(agree_to_base(overlay));
    return true;
  }
  if (!doubt) return true;
  if (!is_terminal(context.input)) {
    return Error(Code::kDenied, fmt::format("nothing was written to {}: {}", quote(overlay.base_path), *doubt),
                 fmt::format("if the changes belong there, add --trust-base {}", quote(overlay.base_path)));
  }
  context.err.print("{}\n", *doubt);
  bool agrees =
      WARREN_TRY(ask_yes(context, fmt::format("Write its changes to {}?", context.err.name(overlay.base_path))));
  if (agrees) WARREN_TRY(agree_to_base(overlay));
  else context.err.line("nothing was written");
  return agrees;
}

Result<bool> agrees_to_programs(Context& context, const Arguments& args, const AgentOverlay& overlay,
                                const std::vector<TreeChange>& changes) {
  if (args.has("yes")) return true;
  if (is_home(overlay.base_path)) return agrees_to_home(context, overlay, changes.size());
  auto view = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));
  std::size_t count = 0;
  bool is_in_git = false;
  for (const TreeChange& change : changes) {
    Remarks remarks = WARREN_TRY(remarks_of(overlay, change));
    if (remarks.runs.empty()) continue;
    ++count;
    is_in_git = is_in_git || remarks.is_in_git;
    context.err.print("runs by itself: {}: {}\n", context.err.name(change.path), remarks.runs);
  }
  view.reset();  // nobody waits for the user
  if (count == 0) return true;
  std::string advice = is_in_git ? "; `apply --as-branch NAME` writes nothing into .git but a branch" : "";
  if (!is_terminal(context.input)) {
    return Error(Code::kDenied,
                 fmt::format("nothing was written: {} may run the next time you work in the base",
                             count == 1 ? "1 file" : fmt::format("{} files", count)),
                 fmt::format("look at the diff; then add --yes, or name the other changes{}", advice));
  }
  if (!advice.empty()) context.err.line(advice.substr(2));
  bool agrees = WARREN_TRY(ask_yes(context, "They may run the next time you work in the base. Apply them?"));
  if (!agrees) context.err.line("nothing was written");
  return agrees;
}

std::string unambiguous_id(const std::string& id) {
  Result<std::string> located = locate_agent(id);
  Result<std::optional<std::string>> session = find_session_file(session_id_of(id));
  bool is_session = located.ok() && session.ok() && *session && **session == *located;
  return is_session ? fmt::format("{}{}", kSessionPrefix, session_id_of(id)) : id;
}

}  // namespace warren::cli
