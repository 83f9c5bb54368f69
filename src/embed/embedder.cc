#include "embed/embedder.h"

#include <fmt/format.h>

#include "base/path.h"

namespace warren {

Result<std::unique_ptr<Embedder>> open_embedder(const EmbedderOptions& options) {
  if (options.kind == "none") return std::unique_ptr<Embedder>();
  return Error(Code::kNotFound, fmt::format("no embedder of kind {} is installed", quote(options.kind)));
}

}  // namespace warren
