// The user's embedder, for commands about semantic memory.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "cli/context.h"
#include "embed/embedder.h"

namespace warren::cli {

// kUnsupported: the configuration says that there is none.
Result<std::unique_ptr<Embedder>> open_user_embedder(Context& context);

// The same for tools, opened when the first of them needs it. Thread-safe. The context outlives it.
class ToolEmbedder {
 public:
  explicit ToolEmbedder(Context& context) : context_(context) {}

  // Null: none is configured. An error is not kept: a service may answer later.
  Result<Embedder*> open();
  // Ends what the embedder does now, and all later calls. From any thread; waits for nothing.
  void cancel() { is_cancelled_ = true; }

 private:
  Context& context_;
  std::atomic<bool> is_cancelled_ = false;  // before the embedder, which looks at it
  std::mutex mutex_;
  std::unique_ptr<Embedder> embedder_;
};

struct ValueToStore {
  std::string value;
  bool as_is = false;  // store it whatever it is: an item that could not get its embedding
};

// What to write to this path, which may be of the absolute form: an item of /mem/semantic with a text and without an
// embedding gets one, unless the configuration says that there is no embedder; anything else stays as it is. If the
// embedder fails, the user is warned and the item goes without. `may_write` is asked before the text is given to an
// embedder, which may be a service; if it says no, the item stays as it is.
Result<ValueToStore> embedded_item(Context& context, std::string_view path, std::string value,
                                   const std::function<Result<bool>()>& may_write);

}  // namespace warren::cli
