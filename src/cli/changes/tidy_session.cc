#include "cli/changes/tidy_session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/path.h"
#include "session/finished_session.h"

namespace warren::cli {

Option keep_option() { return {.name = "keep", .help = "keep the session even if nothing is left in it"}; }

Status keep_session(const Arguments& args) {
  if (!args.has("keep")) return Ok{};
  return keep_at_end(args.get("ID")).within("keep the session at the end of its run");
}

void tidy_session(Context& context, const Arguments& args) {
  if (args.has("keep")) return;
  Result<std::optional<FinishedSession>> removed = remove_if_finished(args.get("ID"), IfKept::kRemove, context.clock);
  if (!removed.ok()) {
    warn_if_not(context, std::move(removed).take_error().within("delete the session, in which nothing is left"));
    return;
  }
  if (!*removed) return;
  context.out.flush();
  context.err.print("session {} is deleted: nothing is left in it\n", quote((*removed)->id));
  const std::vector<std::string>& ended = (*removed)->restrictions;
  if (ended.empty()) return;
  context.err.print("its restrictions end with it, a new session of this name needs them again: {}\n",
                    context.err.name(fmt::format("{}", fmt::join(ended, ", "))));
}

void mention_finished(Context& context, const Arguments& args) {
  Result<std::optional<std::string>> id = find_finished(args.get("ID"), context.clock);
  if (!id.ok() || !*id) return;
  // The argument, not the id: an agent in this directory may have the session's id, too.
  context.err.print("nothing is left in the session {}: `warren apply {}` deletes it\n", quote(**id),
                    context.err.name(args.get("ID")));
}

}  // namespace warren::cli
