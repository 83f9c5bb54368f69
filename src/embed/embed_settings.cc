#include "embed/embed_settings.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/path.h"

namespace warren {
namespace {

bool is_address(std::string_view text) { return text.starts_with("http://") || text.starts_with("https://"); }

Status check_folder(std::string_view model) {
  if (model.empty() || model.starts_with('/')) return Ok{};
  if (model.find('/') == std::string_view::npos) return check_name(model).within("the model's name");
  return Error(Code::kInvalid, fmt::format("{} is not the name of a model, nor an absolute path", quote(model)));
}

Result<EmbedderOptions> checked_options(EmbedderOptions options) {
  if (options.kind == "none") return options;
  if (options.kind == "local") {
    if (!options.url.empty()) return Error(Code::kInvalid, "'url' is only for the kind \"http\"");
    WARREN_TRY(check_folder(options.model));
    options.folder = std::exchange(options.model, {});
    return options;
  }
  if (options.kind != "http") {
    return Error(Code::kInvalid,
                 fmt::format("'kind' is {}; it must be \"local\", \"http\" or \"none\"", quote(options.kind)));
  }
  if (!is_address(options.url)) return Error(Code::kInvalid, "'url' must begin with http:// or https://");
  if (options.model.empty()) return Error(Code::kInvalid, "'model' is missing: the model's name at the service");
  return options;
}

}  // namespace

Result<EmbedderOptions> parse_embed_table(const Json& table) {
  EmbedderOptions options{.kind = ""};
  for (const auto& [key, value] : table.items()) {
    if (!value.is_string()) return Error(Code::kInvalid, fmt::format("{} must be a text", quote(key)));
    if (key == "kind") options.kind = value.get<std::string>();
    else if (key == "model") options.model = value.get<std::string>();
    else if (key == "url") options.url = value.get<std::string>();
    else {
      return Error(Code::kInvalid, fmt::format("{} is not a known key", quote(key)),
                   "the keys are kind, model and url; the key of a service is taken from WARREN_EMBED_KEY");
    }
  }
  if (options.kind.empty()) options.kind = options.url.empty() ? "local" : "http";
  return checked_options(std::move(options));
}

Result<EmbedderOptions> parse_embed_word(std::string_view word) {
  if (word == "none" || word == "local") return EmbedderOptions{.kind = std::string(word)};
  if (!is_address(word)) return checked_options({.kind = "local", .model = std::string(word)});
  const std::size_t mark = std::min(word.find('#'), word.size());
  EmbedderOptions options{.kind = "http", .url = std::string(word.substr(0, mark))};
  options.model = word.substr(std::min(mark + 1, word.size()));
  if (options.model.empty()) {
    return Error(Code::kInvalid, "the address has no model",
                 "write it after a number sign: http://localhost:11434/v1#nomic-embed-text");
  }
  return checked_options(std::move(options));
}

}  // namespace warren
