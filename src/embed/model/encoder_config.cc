#include "embed/model/encoder_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/path.h"
#include "base/strict_json.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::size_t kConfigBytes = std::size_t{64} << 10;
constexpr std::size_t kPromptBytes = 1024;
constexpr std::size_t kTokensMax = 2048;  // attention takes memory and time by the square

// One of the files; its members are read with the file's name in errors.
class ConfigFile {
 public:
  static Result<ConfigFile> read(const std::string& folder, const std::string& name) {
    ConfigFile file;
    file.name_ = name;
    const std::string path = folder + "/" + name;
    std::optional<struct stat> there = WARREN_TRY(find_host_file(path));
    if (!there) return file;
    std::string text = WARREN_TRY(read_host_file(path, kConfigBytes));
    Result<Json> json = parse_strict_json(text);
    if (!json.ok()) return Error(Code::kCorrupt, json.error().message()).within(quote(name));
    file.json_ = std::move(json).value();
    return file;
  }

  bool exists() const { return !json_.is_null(); }
  const Json& json() const { return json_; }

  Json member(const std::string& key) const {
    return json_.is_object() && json_.contains(key) ? Json(json_.at(key)) : Json();
  }
  Error bad(const std::string& key, std::string_view wanted) const {
    return {Code::kCorrupt, fmt::format("{}: {} must be {}", quote(name_), quote(key), wanted)};
  }
  Result<std::optional<std::size_t>> find_count(const std::string& key, std::size_t max) const {
    const Json value = member(key);
    if (value.is_null()) return std::optional<std::size_t>();
    const bool is_count =
        value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 && value.get<std::uint64_t>() <= max;
    if (!is_count) return bad(key, fmt::format("a whole number from 1 to {}", max));
    return std::optional(value.get<std::size_t>());
  }
  Result<std::size_t> count(const std::string& key, std::size_t max) const {
    std::optional<std::size_t> found = WARREN_TRY(find_count(key, max));
    if (!found) return bad(key, fmt::format("a whole number from 1 to {}", max));
    return *found;
  }
  Result<std::string> text(const std::string& key, std::string_view fallback) const {
    const Json value = member(key);
    if (value.is_null()) return std::string(fallback);
    if (!value.is_string()) return bad(key, "a text");
    return value.get<std::string>();
  }
  Result<bool> flag(const std::string& key, bool fallback) const {
    const Json value = member(key);
    if (value.is_null()) return fallback;
    if (!value.is_boolean()) return bad(key, "true or false");
    return value.get<bool>();
  }

 private:
  std::string name_;
  Json json_;
};

// A value that only one kind of model has.
Status demand(const ConfigFile& file, const std::string& key, std::string_view wanted) {
  std::string found = WARREN_TRY(file.text(key, wanted));
  if (found == wanted) return Ok{};
  return Error(Code::kUnsupported,
               fmt::format("its {} is {}; local models must have {}", quote(key), quote(found), quote(wanted)),
               "use a model of the BERT family (MiniLM, bge, gte, e5, arctic-embed), or an HTTP endpoint");
}

Status read_sizes(const std::string& folder, EncoderConfig& config) {
  ConfigFile file = WARREN_TRY(ConfigFile::read(folder, "config.json"));
  if (!file.json().is_object()) return Error(Code::kNotFound, "it has no config.json with an object");
  WARREN_TRY(demand(file, "model_type", "bert"));
  WARREN_TRY(demand(file, "position_embedding_type", "absolute"));
  WARREN_TRY(demand(file, "hidden_act", "gelu"));
  config.width = WARREN_TRY(file.count("hidden_size", 8192));
  config.heads = WARREN_TRY(file.count("num_attention_heads", 256));
  config.layers = WARREN_TRY(file.count("num_hidden_layers", 128));
  config.inner_width = WARREN_TRY(file.count("intermediate_size", 65536));
  config.positions = WARREN_TRY(file.count("max_position_embeddings", 65536));
  config.token_types = WARREN_TRY(file.count("type_vocab_size", 256));
  config.vocabulary = WARREN_TRY(file.count("vocab_size", std::size_t{4} << 20));
  if (config.width % config.heads != 0) return file.bad("hidden_size", "a multiple of num_attention_heads");
  if (config.positions < 2) return file.bad("max_position_embeddings", "at least 2");
  const Json epsilon = file.member("layer_norm_eps");
  if (!epsilon.is_null() && !epsilon.is_number()) return file.bad("layer_norm_eps", "a number");
  config.epsilon = epsilon.is_null() ? 1e-12F : epsilon.get<float>();
  if (!std::isfinite(config.epsilon) || config.epsilon < 0 || config.epsilon > 1) {
    return file.bad("layer_norm_eps", "from 0 to 1");
  }
  return Ok{};
}

Status read_pooling(const std::string& folder, EncoderConfig& config) {
  ConfigFile modules = WARREN_TRY(ConfigFile::read(folder, "modules.json"));
  if (modules.exists() && modules.json().is_array()) {
    for (const Json& module : modules.json()) {
      const std::string type = module.is_object() ? module.value("type", Json()).dump() : "null";
      constexpr std::array<std::string_view, 3> kKnown{".Transformer\"", ".Pooling\"", ".Normalize\""};
      if (std::any_of(kKnown.begin(), kKnown.end(), [&](std::string_view end) { return type.ends_with(end); }))
        continue;
      return Error(Code::kUnsupported,
                   fmt::format("'modules.json' has a module of the type {}, which is not known", quote(type)));
    }
  }
  ConfigFile file = WARREN_TRY(ConfigFile::read(folder, "1_Pooling/config.json"));
  if (!file.exists()) return Ok{};
  const bool is_first = WARREN_TRY(file.flag("pooling_mode_cls_token", false));
  const bool is_mean = WARREN_TRY(file.flag("pooling_mode_mean_tokens", false));
  const std::string named = WARREN_TRY(file.text("pooling_mode", ""));
  if ((is_first && !is_mean) || named == "cls") config.pooling = Pooling::kFirst;
  else if ((is_mean && !is_first) || named == "mean") config.pooling = Pooling::kMean;
  else return Error(Code::kUnsupported, "'1_Pooling/config.json' asks for another pooling than mean or cls");
  return Ok{};
}

Status read_tokenizer(const std::string& folder, EncoderConfig& config) {
  ConfigFile tokenizer = WARREN_TRY(ConfigFile::read(folder, "tokenizer_config.json"));
  config.words.has_lower_case = WARREN_TRY(tokenizer.flag("do_lower_case", true));
  config.words.strips_accents = WARREN_TRY(tokenizer.flag("strip_accents", config.words.has_lower_case));
  config.words.splits_ideographs = WARREN_TRY(tokenizer.flag("tokenize_chinese_chars", true));
  config.tokens_max = std::min(config.positions, kTokensMax);
  const Json longest = tokenizer.member("model_max_length");  // may be 1e30, for "no limit"
  if (longest.is_number_unsigned() && longest.get<std::uint64_t>() >= 2) {
    config.tokens_max =
        static_cast<std::size_t>(std::min<std::uint64_t>(config.tokens_max, longest.get<std::uint64_t>()));
  }
  ConfigFile sentences = WARREN_TRY(ConfigFile::read(folder, "sentence_bert_config.json"));
  std::optional<std::size_t> given = WARREN_TRY(sentences.find_count("max_seq_length", std::size_t{1} << 30));
  if (given) config.tokens_max = std::max<std::size_t>(std::min(config.tokens_max, *given), 2);
  return Ok{};
}

Status read_prompts(const std::string& folder, EncoderConfig& config) {
  config.prompts = known_prompts(folder);
  ConfigFile file = WARREN_TRY(ConfigFile::read(folder, "config_sentence_transformers.json"));
  const Json prompts = file.member("prompts");
  if (prompts.is_null()) return Ok{};
  if (!prompts.is_object()) return file.bad("prompts", "an object");
  // An object without any prompt is what the program writes for models that it does not know more about.
  for (const auto& [name, prompt] : prompts.items()) {
    if (!prompt.is_string() || prompt.get_ref<const std::string&>().size() > kPromptBytes) {
      return file.bad("prompts", fmt::format("texts of at most {} bytes", kPromptBytes));
    }
    if (prompt.get_ref<const std::string&>().empty()) continue;
    if (name == "query") config.prompts.query = prompt.get<std::string>();
    if (name == "passage" || name == "document") config.prompts.passage = prompt.get<std::string>();
  }
  return Ok{};
}

}  // namespace

Result<EncoderConfig> read_encoder_config(const std::string& folder) {
  EncoderConfig config;
  WARREN_TRY(read_sizes(folder, config));
  WARREN_TRY(read_pooling(folder, config));
  WARREN_TRY(read_tokenizer(folder, config));
  WARREN_TRY(read_prompts(folder, config));
  return config;
}

}  // namespace warren
