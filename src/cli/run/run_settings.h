// The settings of a run that come from options and from the user's preferences.
#pragma once

#include "cli/syntax/args.h"
#include "session/run_session.h"

namespace warren::cli {

// Adds to `options` what the command line says about environment, home, network, limits and mounts, and then, for what
// it does not mention, what run.toml says about the base. Options that the command's table lacks count as not given.
Status take_settings(const Arguments& args, RunOptions& options);

// The options that take_settings() understands, for a command's table.
std::vector<Option> environment_options();
std::vector<Option> network_options();
std::vector<Option> limit_options();
std::vector<Option> namespace_options();

}  // namespace warren::cli
