// Embeddings of items: JSON objects {"text": …, "embedding": […], "metadata": {…}}.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "embed/embedder.h"

namespace warren {

// The member of an item's metadata that names the model of its embedding: only embeddings of one model are comparable.
inline constexpr std::string_view kEmbeddingModel = "embedding_model";

// Whether this is an item with a text and without an embedding.
bool lacks_embedding(std::string_view item);

// Such an item with the embedding of its text and, in its metadata, the model's name. Other members stay.
Result<std::string> with_embedding(std::string_view item, Embedder& embedder);

}  // namespace warren
