// Turns texts into vectors of numbers whose nearness is nearness in meaning.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren {

// Some models want questions and the texts that answer them marked differently.
enum class TextRole { kPassage, kQuery };

// Thread-safe.
class Embedder {
 public:
  virtual ~Embedder() = default;

  // Stored with each vector; vectors of different names are never compared. "all-MiniLM-L6-v2",
  // "bge-small-en-v1.5@1f0c2a3b4d5e" (embed/model_identity.h), "http:nomic-embed-text".
  virtual const std::string& model() const = 0;
  virtual std::size_t dimensions() const = 0;
  // One vector of length 1 for each text, in order. Texts may be empty, long or not UTF-8; what a model does not take
  // in is cut off. kUnavailable: the endpoint does not answer now.
  virtual Result<std::vector<std::vector<float>>> embed(const std::vector<std::string_view>& texts, TextRole role) = 0;
};

// What `open_embedder` is asked for, from the user's configuration and the environment.
struct EmbedderOptions {
  std::string kind = "local";  // "local", "http", "none"
  std::string folder;          // local: with model.safetensors, config.json and vocab.txt; empty: the installed default
  std::string url;             // http: base address of an OpenAI-compatible service, ".../v1"
  std::string model;           // http: the model's name there
  std::string key;             // http: may be empty
  // True ends calls of the embedder soon, with kUnavailable. Null: nobody does. Outlives the embedder.
  const std::atomic<bool>* is_cancelled = nullptr;
};

// Null for "none". kNotFound: the folder has no model; the message says how to install one.
Result<std::unique_ptr<Embedder>> open_embedder(const EmbedderOptions& options);

// The embedder of a model that was used before, by its name: one that is installed, or another one of the same service.
// Null if it is not available now, or is not that model any more. `now` is what is used now.
std::unique_ptr<Embedder> open_former_embedder(const EmbedderOptions& now, const std::string& model);

}  // namespace warren
