#include "cli/agent/checkpoint_mounts.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/checkpoints/checkpoints.h"
#include "base/path.h"
#include "cli/vfs/view.h"

namespace warren::cli {

std::vector<Option> with_checkpoint_mounts(std::vector<Option> options) {
  for (Option& one : mount_options()) options.push_back(std::move(one));
  options.push_back({.name = "without-mounts", .help = "leave out working memory and what is mounted"});
  return options;
}

Result<std::unique_ptr<MountedState>> mounted_of_command(Context& context, const Arguments& args, Agent& agent) {
  if (args.has("without-mounts")) {
    for (std::string_view option : {"mount", "mounts"}) {
      if (args.has(option))
        return Error(Code::kInvalid, fmt::format("--{} and --without-mounts cannot be used together", option));
    }
    return std::unique_ptr<MountedState>();
  }
  std::vector<MountSpec> mounts = WARREN_TRY(mounts_of(args, agent.path()));
  WARREN_TRY(check_no_duplicates(mounts));
  Result<std::unique_ptr<MountedState>> opened = MountedState::open(agent, mounts, context.clock);
  if (opened.ok()) return opened;
  Error error = std::move(opened).take_error();
  std::string hint = error.hint().empty() ? "--without-mounts leaves out what is mounted" : error.hint();
  return Error(error.code(), error.message(), std::move(hint));
}

Result<std::vector<std::string>> copy_mounts_of_now(Context& context, const Arguments& args,
                                                    const std::vector<std::string>& covered) {
  std::vector<std::string> copied_paths;
  if (args.has("without-mounts") || covered.empty()) return copied_paths;
  Result<std::unique_ptr<Agent>> agent = open_state(context, args, Use::kWrite);
  if (!agent.ok()) {
    context.err.line(fmt::format("warren: what is mounted is not compared: {}", agent.error().message()));
    return copied_paths;
  }
  auto mounted = WARREN_TRY(mounted_of_command(context, args, **agent));
  MountedState::Copied copied = WARREN_TRY(mounted->copy_in(MountedState::Unreachable::kLeaveOut));
  for (const std::string& problem : copied.problems) {
    context.err.line(fmt::format("warren: {}", context.err.name(problem)));
  }
  for (CoveredMount& one : copied.covered) copied_paths.push_back(std::move(one.path));
  return copied_paths;
}

Status warn_of_unmounted(Context& context, Agent& agent, const MountedState* mounted, std::int64_t checkpoint) {
  if (mounted == nullptr) return Ok{};
  std::vector<std::string> covered = WARREN_TRY(list_covered_mounts(agent, checkpoint));
  std::vector<std::string> there = mounted->paths();
  for (const std::string& path : covered) {
    if (std::ranges::count(there, path)) continue;
    context.err.line(fmt::format("warren: {} is left as it is: the checkpoint covers it, but nothing is mounted there",
                                 context.err.name(quote(path))));
  }
  return Ok{};
}

}  // namespace warren::cli
