// An embedder behind an OpenAI-compatible address (Ollama, llama.cpp, vLLM and services): POST …/embeddings.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/json.h"
#include "clients/http.h"
#include "embed/embedder.h"
#include "embed/prompts.h"

namespace warren {

struct HttpEmbedderOptions {
  std::string url;    // ".../v1"
  std::string model;  // as the service names it
  std::string key;    // never in an error
  std::chrono::milliseconds call_timeout{60'000};
  std::size_t batch_max = 64;
  const std::atomic<bool>* is_cancelled = nullptr;       // EmbedderOptions
  std::function<void(std::chrono::milliseconds)> sleep;  // between attempts; empty: really
};

// Nothing is sent before the first `probe` or `embed`. Until then dimensions() is 0; afterwards it never changes, and
// an answer of another dimension is an error. Thread-safe.
class HttpEmbedder final : public Embedder {
 public:
  static Result<std::unique_ptr<HttpEmbedder>> open(HttpEmbedderOptions options);

  // Embeds a word to learn the dimension. A service that does not answer is not waited for as long as by `embed`.
  Status probe();

  const std::string& model() const override { return model_; }
  std::size_t dimensions() const override { return dimensions_; }
  // A call that fails for a reason that may pass (no connection, status 408, 429 or 5xx) is repeated twice.
  // kUnavailable: it still fails, or the answer is not what it has to be. kDenied: the key is wrong or missing.
  // kNotFound: no such model or address. kInvalid: the service refuses the text.
  Result<std::vector<std::vector<float>>> embed(const std::vector<std::string_view>& texts, TextRole role) override;

 private:
  HttpEmbedder(std::unique_ptr<HttpClient> client, HttpEmbedderOptions options);
  enum class Patience { kProbe, kWork };
  void pause(std::chrono::milliseconds time) const;
  Result<std::string> post(const std::string& body, Patience patience) const;
  Result<std::vector<std::vector<float>>> embed_batch(const Json& inputs, Patience patience);

  std::unique_ptr<HttpClient> client_;
  HttpEmbedderOptions options_;
  std::string model_;  // "http:NAME"
  Prompts prompts_;
  std::atomic<std::size_t> dimensions_ = 0;
};

}  // namespace warren
