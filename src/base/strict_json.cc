#include "base/strict_json.h"

#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/path.h"

namespace warren {
namespace {

// Follows the parser's events until a name comes twice in one object.
class NamesSeen final : public nlohmann::json_sax<Json> {
 public:
  const std::string& repeated() const { return repeated_; }

  bool start_object(std::size_t) override {
    open_.emplace_back();
    return true;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool key(std::string& name) override {
    if (open_.back().insert(name).second) return true;
    repeated_ = name;
    return false;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(Json::number_integer_t) override { return true; }
  bool number_unsigned(Json::number_unsigned_t) override { return true; }
  bool number_float(Json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  std::vector<std::set<std::string>> open_;  // of each object that has begun and not ended
  std::string repeated_;
};

}  // namespace

Result<Json> parse_strict_json(std::string_view text) {
  Json json = WARREN_TRY(parse_json(text));
  NamesSeen seen;
  if (Json::sax_parse(text, &seen)) return json;
  return Error(Code::kInvalid, fmt::format("{} is there twice in one object", quote(seen.repeated())),
               "remove one of them");
}

}  // namespace warren
