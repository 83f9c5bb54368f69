// A pager for long output on a terminal, chosen as git does.
#pragma once

#include <memory>

#include "cli/context.h"
#include "os/processes/output_pipe.h"

namespace warren::cli {

// Output goes through WARREN_PAGER or PAGER, or `less` if neither is set; "" and "cat" mean none. Only on a terminal
// that can do more than lines (TERM). Text stays escaped and coloured as on the terminal itself.
class Paged {
 public:
  explicit Paged(Context& context);
  ~Paged();
  Paged(const Paged&) = delete;
  Paged& operator=(const Paged&) = delete;

 private:
  Context& context_;
  std::unique_ptr<OutputPipe> pipe_;  // null: no pager
};

}  // namespace warren::cli
