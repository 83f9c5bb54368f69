// Semantic memory by text: what every door does with an item that has no embedding, and with a question in words.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "embed/embedder.h"
#include "vfs/namespace.h"

namespace warren {

// Whether this value, written to this path (which may be /agent/ID/…), is an item of /mem/semantic with a text and
// without an embedding.
bool needs_embedding(std::string_view path, std::string_view value);

// Whether the caller may write an item there. Asked before its text is given to an embedder, which may be a service.
// What may not be written is refused, and recorded, by the write itself.
Result<bool> may_write_item(NamespaceView& view, const std::string& path);

struct ItemToStore {
  std::string value;
  bool as_is = false;  // store it whatever it is: it has no embedding, and gets one with the next query by text
  std::optional<Error> why_not;  // why it has none
};

// Such an item with its embedding. If the embedder fails, or could not be opened, the item stays as it is and is to be
// stored so. Without an embedder (null) it stays as it is, too, and the write decides.
ItemToStore embed_item(std::string value, const Result<Embedder*>& embedder);

// The embedding of a question. Embeddings of other models mean something else, so the filter gets the model's name.
Result<std::vector<float>> embed_question(Embedder& embedder, const std::string& text, Json& filter);

}  // namespace warren
