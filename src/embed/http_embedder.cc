#include "embed/http_embedder.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "embed/model/encoder.h"

namespace warren {
namespace {

using std::chrono::milliseconds;

constexpr int kAttempts = 3;
constexpr milliseconds kProbeTimeout{20'000};  // a service may have to load the model first
constexpr milliseconds kFirstPause{250};
constexpr milliseconds kPauseMax{5'000};
constexpr std::size_t kTextBytes = std::size_t{8} << 10;  // more than a chunk; services refuse what is too long
constexpr std::size_t kBatchBytes = std::size_t{256} << 10;
constexpr std::size_t kAnswerDimensions = 65536;
constexpr std::size_t kSaidBytes = 300;

bool may_pass(int status) { return status == 408 || status == 429 || status >= 500; }

// What the service says about a refusal, in one of several shapes.
std::string refusal_text(const std::string& body) {
  std::string said = body;
  if (is_json(body)) {
    Json value = parse_json(body).value();
    if (value.is_object() && value.contains("error")) value = Json(value["error"]);
    if (value.is_object() && value.contains("message")) value = Json(value["message"]);
    said = value.is_string() ? value.get<std::string>() : dump_json(value);
  }
  return printable(std::string_view(said).substr(0, kSaidBytes));
}

Error refusal(const HttpAnswer& answer, const std::string& model) {
  std::string message = fmt::format("the embedding service answered with status {}", answer.status);
  const std::string said = refusal_text(answer.body);
  if (!said.empty()) message += ": " + said;
  switch (answer.status) {
    case 401:
    case 403: return {Code::kDenied, message, "the key is taken from WARREN_EMBED_KEY"};
    case 404: return {Code::kNotFound, message, fmt::format("check the address and the model {}", quote(model))};
    case 413: return {Code::kTooLarge, message};
    default: return {may_pass(answer.status) ? Code::kUnavailable : Code::kInvalid, message};
  }
}

milliseconds pause_before(int attempt, const HttpAnswer* answer) {
  const milliseconds usual = kFirstPause * (1 << attempt);
  const std::string* wanted = answer == nullptr ? nullptr : answer->find("retry-after");
  if (wanted == nullptr) return usual;
  const auto seconds = parse_number<std::uint32_t>(*wanted);
  return seconds ? std::clamp(milliseconds(std::int64_t{*seconds} * 1000), usual, kPauseMax) : usual;
}

Error wrong_answer(std::string_view what) {
  return {Code::kUnavailable, fmt::format("the embedding service's answer is wrong: {}", what)};
}

std::string_view cut_text(std::string_view text) {
  if (text.size() <= kTextBytes) return text;
  std::size_t end = kTextBytes;
  while (end > kTextBytes - 4 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end);
}

Result<std::vector<float>> vector_in(const Json& item) {
  auto list = item.find("embedding");
  if (list == item.end() || !list->is_array()) return wrong_answer("an item has no list \"embedding\"");
  if (list->empty() || list->size() > kAnswerDimensions) {
    return wrong_answer(fmt::format("a vector has {} numbers", list->size()));
  }
  std::vector<float> vector;
  vector.reserve(list->size());
  for (const Json& number : *list) {
    if (!number.is_number()) return wrong_answer("a vector has something that is not a number");
    vector.push_back(number.get<float>());
  }
  if (!normalise(vector).ok()) return wrong_answer("a vector is zero or not finite");
  return vector;
}

// The vectors by their "index"; without any, in their order.
Result<std::vector<std::vector<float>>> vectors_in(const std::string& body, std::size_t count) {
  Result<Json> json = parse_json(body);
  if (!json.ok()) return wrong_answer("it is not JSON");
  if (!json->is_object() || !json->contains("data") || !(*json)["data"].is_array()) {
    return wrong_answer("it has no list \"data\"");
  }
  const Json& data = (*json)["data"];
  if (data.size() != count) return wrong_answer(fmt::format("{} vectors for {} texts", data.size(), count));
  std::vector<std::vector<float>> vectors(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Json& item = data[i];
    if (!item.is_object()) return wrong_answer("an item is not an object");
    std::size_t place = i;
    if (item.contains("index")) {
      const Json& index = item["index"];
      if (!index.is_number_unsigned() || index.get<std::uint64_t>() >= count) return wrong_answer("an invalid index");
      place = index.get<std::size_t>();
    }
    if (!vectors[place].empty()) return wrong_answer("an index is there twice");
    vectors[place] = WARREN_TRY(vector_in(item));
  }
  for (const std::vector<float>& vector : vectors) {
    if (vector.size() != vectors[0].size()) return wrong_answer("the vectors have different lengths");
  }
  return vectors;
}

}  // namespace

HttpEmbedder::HttpEmbedder(std::unique_ptr<HttpClient> client, HttpEmbedderOptions options)
    : client_(std::move(client)),
      options_(std::move(options)),
      model_("http:" + options_.model),
      prompts_(known_prompts(options_.model)) {}

Result<std::unique_ptr<HttpEmbedder>> HttpEmbedder::open(HttpEmbedderOptions options) {
  if (!options.url.starts_with("http://") && !options.url.starts_with("https://")) {
    return Error(Code::kInvalid, "the address of the embedding service does not begin with http:// or https://");
  }
  if (options.model.empty()) {
    return Error(Code::kInvalid, "the model of the embedding service is missing",
                 "set model in embed.toml, or write it after the address: http://localhost:11434/v1#nomic-embed-text");
  }
  while (options.url.ends_with('/')) options.url.pop_back();
  if (!options.url.ends_with("/embeddings")) options.url += "/embeddings";
  if (!options.sleep) options.sleep = [](milliseconds pause) { std::this_thread::sleep_for(pause); };
  options.batch_max = std::max<std::size_t>(options.batch_max, 1);
  auto client = WARREN_TRY(HttpClient::open({.connect_timeout = milliseconds(5'000)}));
  return std::unique_ptr<HttpEmbedder>(new HttpEmbedder(std::move(client), std::move(options)));
}

// In steps, if somebody can cancel it.
void HttpEmbedder::pause(milliseconds time) const {
  constexpr milliseconds kStep{250};
  if (options_.is_cancelled == nullptr) {
    options_.sleep(time);
    return;
  }
  for (milliseconds left = time; left.count() > 0; left -= kStep) {
    if (options_.is_cancelled->load()) return;
    options_.sleep(std::min(left, kStep));
  }
}

Result<std::string> HttpEmbedder::post(const std::string& body, Patience patience) const {
  HttpCall call{.method = "POST",
                .url = options_.url,
                .headers = {{"Content-Type", "application/json"}, {"Accept", "application/json"}},
                .body = as_bytes(body),
                .timeout = options_.call_timeout,
                .is_cancelled = options_.is_cancelled};
  if (patience == Patience::kProbe) call.timeout = std::min(call.timeout, kProbeTimeout);
  if (!options_.key.empty()) call.headers.emplace_back("Authorization", "Bearer " + options_.key);
  for (int attempt = 0;; ++attempt) {
    Result<HttpAnswer> answer = client_->call(call);
    if (answer.ok() && answer->is_success()) return std::move(answer->body);
    const bool is_last = attempt + 1 == kAttempts;
    if (answer.ok() && (is_last || !may_pass(answer->status))) return refusal(*answer, options_.model);
    const bool is_cancelled = options_.is_cancelled != nullptr && options_.is_cancelled->load();
    const bool may_connect = patience == Patience::kWork && !is_last && !is_cancelled;
    if (!answer.ok() && (!may_connect || answer.error().code() != Code::kUnavailable)) {
      return std::move(answer).take_error().within("the embedding service");
    }
    pause(pause_before(attempt, answer.ok() ? &*answer : nullptr));
  }
}

Result<std::vector<std::vector<float>>> HttpEmbedder::embed_batch(const Json& inputs, Patience patience) {
  const Json request{{"model", options_.model}, {"input", inputs}, {"encoding_format", "float"}};
  std::string body = WARREN_TRY(post(dump_json(request), patience));
  std::vector<std::vector<float>> found = WARREN_TRY(vectors_in(body, inputs.size()));
  for (const std::vector<float>& vector : found) {
    std::size_t known = 0;
    dimensions_.compare_exchange_strong(known, vector.size());
    if (known != 0 && known != vector.size()) {
      return wrong_answer(fmt::format("a vector has {} numbers, and earlier ones had {}", vector.size(), known));
    }
  }
  return found;
}

Status HttpEmbedder::probe() {
  WARREN_TRY(embed_batch(Json::array({"rabbit"}), Patience::kProbe));
  return Ok{};
}

Result<std::vector<std::vector<float>>> HttpEmbedder::embed(const std::vector<std::string_view>& texts, TextRole role) {
  std::vector<std::vector<float>> vectors;
  Json inputs = Json::array();
  std::size_t bytes = 0;
  auto send = [&]() -> Status {
    std::vector<std::vector<float>> found = WARREN_TRY(embed_batch(inputs, Patience::kWork));
    std::move(found.begin(), found.end(), std::back_inserter(vectors));
    inputs = Json::array();
    bytes = 0;
    return Ok{};
  };
  for (std::string_view text : texts) {
    const std::string_view part = cut_text(text);
    // Services refuse an empty text.
    std::string input = prompts_.of(role) + std::string(part.empty() ? " " : part);
    const bool is_full = inputs.size() == options_.batch_max || bytes + input.size() > kBatchBytes;
    if (is_full && !inputs.empty()) WARREN_TRY(send());
    bytes += input.size();
    inputs.push_back(std::move(input));
  }
  if (!inputs.empty()) WARREN_TRY(send());
  return vectors;
}

}  // namespace warren
