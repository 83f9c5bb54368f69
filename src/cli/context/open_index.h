// Opens the search index of the agent that a command names, with the embedder of the user's configuration.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "agent/agent.h"
#include "base/result.h"
#include "cli/context.h"
#include "context/search.h"
#include "embed/embedder.h"
#include "os/threads/worker.h"

namespace warren::cli {

// The embedder of the user's configuration, and those of models that were used before. Its address must stay.
class IndexEmbedders {
 public:
  // The options of an index with these embedders, or why there is none. They are for one thread at a time.
  Result<ContextOptions> open(Context& context);
  // What the configuration asks for, for people: "http:m at http://localhost:11434/v1"; "" for none.
  std::string describe_configured() const;
  // Ends what the embedders do now, and all later calls.
  void cancel() { is_cancelled_ = true; }

 private:
  Embedder* find_former(const std::string& model);

  std::atomic<bool> is_cancelled_ = false;  // before the embedders, which look at it
  EmbedderOptions wanted_;
  std::unique_ptr<Embedder> current_;                        // null: none is configured or available
  std::map<std::string, std::unique_ptr<Embedder>> former_;  // by the model's name; null: not available
};

// The parts in the order in which they need each other.
struct OpenIndex {
  std::unique_ptr<Agent> agent;
  std::unique_ptr<IndexEmbedders> embedders;
  std::unique_ptr<ContextIndex> index;
};

Result<OpenIndex> open_index(Context& context, const Arguments& args);

// The index of an open agent for tools, opened when the first of them searches. A base is indexed only if the door has
// opened the agent with it. Thread-safe. Context and agent outlive it.
class ToolIndex {
 public:
  // kInBackground: what a search leaves waiting is embedded after it, in a thread of low priority, until nothing waits
  // or the embedder does not answer. The destructor ends that at once.
  enum class Embedding { kBySearches, kInBackground };
  ToolIndex(Context& context, Agent& agent, Embedding embedding = Embedding::kBySearches)
      : context_(context), agent_(agent), embedding_(embedding) {}
  ~ToolIndex();

  Result<ContextIndex*> open();
  // Ends what the embedders do now, and all later calls of them: searches go on with words. From any thread; waits for
  // nothing.
  void cancel_embedding() { embedders_.cancel(); }

 private:
  void start_embedding();
  void embed_waiting();

  Context& context_;
  Agent& agent_;
  Embedding embedding_;
  std::mutex mutex_;
  IndexEmbedders embedders_;
  std::unique_ptr<ContextIndex> index_;
  std::atomic<bool> is_embedding_ = false;  // a job is waiting or running
  Worker worker_{{.priority = Worker::Priority::kLow}};
};

// A line on standard error that says how far a command is, on a terminal only. The destructor erases it.
class ProgressLine {
 public:
  ProgressLine(Context& context, std::string what) : context_(context), what_(std::move(what)) {}
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const IndexProgress& progress);

 private:
  Context& context_;
  std::string what_;
  std::int64_t drawn_at_ns_ = 0;
  bool is_drawn_ = false;
};

}  // namespace warren::cli
