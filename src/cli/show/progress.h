// A progress bar on standard error, for interactive use.
#pragma once

#include <cstdint>
#include <string_view>

#include "agent/files/transfer.h"
#include "cli/context.h"

namespace warren::cli {

// Draws only on a terminal, at most ten times a second. The destructor erases the bar.
class ProgressBar {
 public:
  ProgressBar(Context& context, TransferTotals totals);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(const TransferReport& done);

  static bool is_watched(const Context& context) { return context.err.is_terminal(); }

 private:
  Context& context_;
  TransferTotals totals_;
  std::int64_t drawn_at_ns_ = 0;
  bool is_drawn_ = false;
};

}  // namespace warren::cli
