// The user's preferences for runs: run.toml in the user's configuration directory.
//
// Never in the project, which the command can write. Keys at the top count for every run; those of the table
// [project."/path"] for runs whose base is that directory or inside it, in place of the former.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren {

struct RunPreferences {
  std::optional<std::vector<std::string>> net;  // as for --net
  std::vector<std::string> env;                 // names; from both places
  std::optional<std::string> memory;            // as for the options, like the following
  std::optional<std::string> processes;
  std::optional<std::string> cpu_time;
  std::optional<std::string> disk;
  std::optional<std::string> home;
  std::optional<std::string> home_layer;
  std::optional<bool> has_namespace;
  std::optional<std::string> relay;  // the relay's directory, absolute
  std::optional<std::string> relay_as;
  std::vector<std::string> mount;     // as for --mount
  std::optional<std::string> mounts;  // a file, absolute
  std::optional<std::string> anchor;  // as for the options
  std::optional<std::string> anchor_every;
};

// $XDG_CONFIG_HOME/warren/run.toml, or ~/.config/warren/run.toml.
Result<std::string> preferences_file();

// kInvalid names the key. `base` is canonical.
Result<RunPreferences> parse_preferences(std::string_view text, const std::string& base);

// Nothing if there is no file. kDenied: others may write it.
Result<RunPreferences> load_preferences(const std::string& base);

}  // namespace warren
