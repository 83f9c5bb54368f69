// The user's embedder, for commands about semantic memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cli/context.h"
#include "embed/embedder.h"

namespace warren::cli {

// kUnsupported: the configuration says that there is none.
Result<std::unique_ptr<Embedder>> open_user_embedder(Context& context);

// What to write to this path, which may be of the absolute form: an item of /mem/semantic with a text and without an
// embedding gets one, unless the configuration says that there is no embedder; anything else stays as it is.
Result<std::string> embedded_item(Context& context, std::string_view path, std::string value);

}  // namespace warren::cli
