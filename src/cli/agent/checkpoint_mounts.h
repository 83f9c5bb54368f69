// What is mounted in an agent's namespace, for the commands that take and restore checkpoints.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "agent/checkpoints/mounted_state.h"
#include "base/result.h"
#include "cli/context.h"
#include "cli/syntax/args.h"

namespace warren::cli {

// These, --mount, --mounts and --without-mounts.
std::vector<Option> with_checkpoint_mounts(std::vector<Option> options);

// What the command line and the user's configuration mount, and the working memory of commands. Null with
// --without-mounts.
Result<std::unique_ptr<MountedState>> mounted_of_command(Context& context, const Arguments& args, Agent& agent);

// For a comparison of now with a checkpoint that covers these mounts: copies what they have now. Returns those that
// were copied, and warns of what cannot be compared.
Result<std::vector<std::string>> copy_mounts_of_now(Context& context, const Arguments& args,
                                                    const std::vector<std::string>& covered);

// Warns of mounts that the checkpoint covers, and that are not mounted.
Status warn_of_unmounted(Context& context, Agent& agent, const MountedState* mounted, std::int64_t checkpoint);

}  // namespace warren::cli
