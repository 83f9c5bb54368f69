// Opens the search index of the agent that a command names, with the embedder of the user's configuration.
#pragma once

#include <memory>
#include <string>

#include "agent/agent.h"
#include "base/result.h"
#include "cli/context.h"
#include "context/search.h"
#include "embed/embedder.h"

namespace warren::cli {

// The parts in the order in which they need each other.
struct OpenIndex {
  std::unique_ptr<Agent> agent;
  std::unique_ptr<Embedder> embedder;  // null: none is configured or available
  std::unique_ptr<ContextIndex> index;
};

Result<OpenIndex> open_index(Context& context, const Arguments& args);

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
