#include "agent/checkpoints/signal_checkpoint.h"

#include <fmt/format.h>

#include "agent/checkpoints/checkpoints.h"

namespace warren {
namespace {

constexpr std::string_view kSignalName = "signal";

}  // namespace

std::vector<std::string> take_signal_checkpoint(Agent& agent, MountedState* mounted) {
  std::vector<std::string> problems;
  Result<Checkpoint> taken = take_automatic_checkpoint(
      agent, {.name = kSignalName, .cause = kSignalName, .mounted = mounted, .problems = &problems});
  for (std::string& problem : problems) problem = fmt::format("checkpoint: {}", problem);
  if (!taken.ok()) problems.push_back(fmt::format("no checkpoint was taken: {}", taken.error().message()));
  return problems;
}

}  // namespace warren
