// Garbage collection of attachments.
//
// A reference ends when every delivery of its message was read, acked or nacked, or is a dead letter that was
// dismissed. An attachment is removed once it had no references, and did not change, for the keep time. The ledger
// records since when; when the clock is set, these times are shifted accordingly.
//
// A pass is divided into small steps, since there may be a million files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "relay/attachments/attachment_store.h"
#include "relay/ledger/ledger.h"
#include "relay/root/config.h"
#include "relay/root/log.h"

namespace warren::relay {

// For one thread.
class AttachmentSweep {
 public:
  AttachmentSweep(const AttachmentStore& store, Ledger& ledger, const Config& config, Clock& clock, Log& log);

  // Performs one step if one is due, else returns false. Must not run while a new reference is being added.
  bool step();
  std::int64_t at_ns() const { return at_ns_; }  // monotonic: when the next step is due
  bool is_running() const { return is_running_; }
  void start_pass(std::int64_t keep_ms);  // at once, with this keep time

 private:
  struct Pass {
    enum class Stage { kReferences, kFiles, kStrays } stage = Stage::kReferences;
    AttachmentReference after;
    int prefix = 0;
    std::int64_t keep_us = 0;
    std::uint64_t removed = 0;
    std::uint64_t removed_bytes = 0;
  };

  Status run_step();
  Status end_references();
  Result<bool> check_files(const std::string& prefix);  // false: call again for the rest
  Status check_file(const std::string& hash, const FileIdentity& now, std::map<std::string, AttachmentRow>& rows);
  std::int64_t strays_before_ns();
  Status remove_strays();
  Status follow_clock();
  void finish();

  const AttachmentStore& store_;
  Ledger& ledger_;
  const Config& config_;
  Clock& clock_;
  Log& log_;
  bool is_running_ = false;
  Pass pass_;
  std::int64_t at_ns_ = 0;
  std::int64_t keep_ms_;  // for the next pass
  std::int64_t last_wall_us_ = 0;
  std::int64_t last_ns_ = 0;  // since the boot
};

}  // namespace warren::relay
