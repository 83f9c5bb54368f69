#include "embed/tokens/tokenizer_json.h"

#include <optional>

#include <fmt/format.h>

#include "base/json.h"
#include "base/path.h"

namespace warren {
namespace {

// Follows the parser's events, since a Json value takes quadratic time to build an object of so many members.
class TokenizerReader final : public nlohmann::json_sax<Json> {
 public:
  TokenizerJson found;
  std::string model_type;
  std::string normalizer_type;
  std::optional<bool> strips_accents;

  bool start_object(std::size_t) override { return descend(); }
  bool start_array(std::size_t) override { return descend(); }
  bool end_object() override { return ascend(); }
  bool end_array() override { return ascend(); }
  bool key(std::string& name) override {
    names_.back() = name;
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool value) override {
    if (!is_at("normalizer")) return true;
    if (names_.back() == "lowercase") found.words.has_lower_case = value;
    if (names_.back() == "strip_accents") strips_accents = value;
    if (names_.back() == "handle_chinese_chars") found.words.splits_ideographs = value;
    return true;
  }
  bool number_integer(Json::number_integer_t value) override { return number(value); }
  bool number_unsigned(Json::number_unsigned_t value) override {
    return number(value > INT32_MAX ? -1 : static_cast<std::int64_t>(value));
  }
  bool number_float(Json::number_float_t, const std::string&) override { return number(-1); }
  bool string(std::string& value) override {
    if (is_at("model") && names_.back() == "type") model_type = value;
    if (is_at("normalizer") && names_.back() == "type") normalizer_type = value;
    return true;
  }
  bool binary(Json::binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  bool descend() {
    names_.emplace_back();
    return true;
  }
  bool ascend() {
    names_.pop_back();
    return true;
  }
  // Within the object that is this member of the whole.
  bool is_at(std::string_view member) const { return names_.size() == 2 && names_[0] == member; }
  bool number(std::int64_t value) {
    const bool is_piece = names_.size() == 3 && names_[0] == "model" && names_[1] == "vocab";
    if (is_piece) found.pieces.emplace_back(names_[2], value);
    return true;
  }

  std::vector<std::string> names_;  // of the member being read, in each object around it
};

}  // namespace

Result<TokenizerJson> read_tokenizer_json(std::string_view text) {
  TokenizerReader reader;
  if (!is_json(text) || !Json::sax_parse(text, &reader)) return Error(Code::kCorrupt, "it is not JSON");
  if (reader.model_type != "WordPiece") {
    return Error(Code::kUnsupported,
                 fmt::format("its tokenizer is of the kind {}; only \"WordPiece\" is known", quote(reader.model_type)));
  }
  if (reader.normalizer_type != "BertNormalizer") {
    return Error(Code::kUnsupported, fmt::format("its normalizer is of the kind {}; only \"BertNormalizer\" is known",
                                                 quote(reader.normalizer_type)));
  }
  reader.found.words.strips_accents = reader.strips_accents.value_or(reader.found.words.has_lower_case);
  return std::move(reader.found);
}

}  // namespace warren
