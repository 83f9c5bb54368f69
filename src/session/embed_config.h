// The user's embedder: embed.toml in the user's configuration directory, and the environment. Every door asks here.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "embed/embedder.h"

namespace warren {

using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view name)>;

// WARREN_EMBED, if it is set; otherwise $XDG_CONFIG_HOME/warren/embed.toml (or ~/.config/warren/embed.toml); otherwise
// the installed default model. The key of a service is WARREN_EMBED_KEY. kInvalid names the place. kDenied: others may
// write the file, which decides where texts are sent.
Result<EmbedderOptions> embedder_options(const EnvironmentLookup& environment);

}  // namespace warren
