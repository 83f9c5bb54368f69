#include "embed/embedder.h"

#include <fmt/format.h>

#include "base/path.h"
#include "embed/http_embedder.h"
#include "embed/local_embedder.h"
#include "embed/model_folder.h"

namespace warren {

Result<std::unique_ptr<Embedder>> open_embedder(const EmbedderOptions& options) {
  if (options.kind == "none") return std::unique_ptr<Embedder>();
  if (options.kind == "http") {
    auto service = WARREN_TRY(HttpEmbedder::open({.url = options.url, .model = options.model, .key = options.key}));
    return std::unique_ptr<Embedder>(std::move(service));
  }
  if (options.kind != "local") {
    return Error(Code::kInvalid, fmt::format("{} is not a kind of embedder", quote(options.kind)),
                 "the kinds are local, http and none");
  }
  std::string folder = WARREN_TRY(find_model_folder(options.folder, model_places()));
  auto local = WARREN_TRY(LocalEmbedder::open(folder));
  return std::unique_ptr<Embedder>(std::move(local));
}

}  // namespace warren
