#include "embed/embedder.h"

#include <fmt/format.h>

#include "base/path.h"
#include "embed/http_embedder.h"
#include "embed/local_embedder.h"
#include "embed/model_folder.h"
#include "embed/model_identity.h"

namespace warren {
namespace {

constexpr std::string_view kServiceMark = "http:";

}  // namespace

Result<std::unique_ptr<Embedder>> open_embedder(const EmbedderOptions& options) {
  if (options.kind == "none") return std::unique_ptr<Embedder>();
  if (options.kind == "http") {
    auto service = WARREN_TRY(HttpEmbedder::open(
        {.url = options.url, .model = options.model, .key = options.key, .is_cancelled = options.is_cancelled}));
    WARREN_TRY(service->probe());  // callers need the dimension
    return std::unique_ptr<Embedder>(std::move(service));
  }
  if (options.kind != "local") {
    return Error(Code::kInvalid, fmt::format("{} is not a kind of embedder", quote(options.kind)),
                 "the kinds are local, http and none");
  }
  std::string folder = WARREN_TRY(find_model_folder(options.folder, model_places()));
  auto local = WARREN_TRY(LocalEmbedder::open(folder));
  local->cancel_by(options.is_cancelled);
  return std::unique_ptr<Embedder>(std::move(local));
}

std::unique_ptr<Embedder> open_former_embedder(const EmbedderOptions& now, const std::string& model) {
  EmbedderOptions former = now;
  if (model.starts_with(kServiceMark)) {
    if (now.kind != "http") return nullptr;  // the address is not stored with vectors
    former.model = model.substr(kServiceMark.size());
  } else {
    std::vector<std::string> places = model_places();
    // Models that are given by path often lie side by side.
    bool is_path = now.kind == "local" && now.folder.find('/') != std::string::npos;
    if (is_path) places.emplace_back(directory_of(now.folder));
    std::string name = folder_of_identity(model);
    Result<std::string> folder =
        name.find('/') == std::string::npos ? find_model_folder(name, places) : Result<std::string>(std::string());
    if (!folder.ok() || folder->empty()) return nullptr;
    former = {.kind = "local", .folder = std::move(folder).take_value()};
  }
  Result<std::unique_ptr<Embedder>> opened = open_embedder(former);
  if (!opened.ok() || !*opened || (*opened)->model() != model) return nullptr;
  return std::move(opened).take_value();
}

}  // namespace warren
