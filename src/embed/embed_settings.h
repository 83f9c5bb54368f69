// Which embedder to use, as the user writes it: a table of embed.toml, or the word in WARREN_EMBED.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "embed/embedder.h"

namespace warren {

// The keys are kind ("local", "http", "none"), model and url. Without a kind, an url means "http". For "local", model
// is the name of an installed model or the absolute path of its folder. kInvalid names the key.
Result<EmbedderOptions> parse_embed_table(const Json& table);

// "none"; "local", the default model; the name of an installed model or the absolute path of its folder; or the address
// of a service and its model, "http://localhost:11434/v1#nomic-embed-text".
Result<EmbedderOptions> parse_embed_word(std::string_view word);

}  // namespace warren
