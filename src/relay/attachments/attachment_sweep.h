// Looks through the store again and again for attachments that nobody needs any more, and removes them.
//
// A reference ends when every delivery of its message was read, acked, nacked, or died and was given up. An attachment
// without references is removed when that was so for the keep time; one that no message ever referred to, when it was
// seen unchanged for as long. The ledger has since when; a clock that is set moves these times along.
//
// It works in steps of bounded size, since there may be a million files.
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

// One thread.
class AttachmentSweep {
 public:
  AttachmentSweep(const AttachmentStore& store, Ledger& ledger, const Config& config, Clock& clock, Log& log);

  // One step, if it is time; false when there is nothing to do now. Nobody else may be about to refer to something.
  bool step();
  std::int64_t at_ns() const { return at_ns_; }  // monotonic: when step() has something to do
  bool is_running() const { return is_running_; }
  void want(std::int64_t keep_ms);  // one now, with a keep time of its own

 private:
  struct Pass {
    enum class Stage { kReferences, kFiles, kStrays } stage = Stage::kReferences;
    AttachmentReference after;
    int prefix = 0;
    std::int64_t keep_us = 0;
    std::uint64_t removed = 0;
    std::uint64_t removed_bytes = 0;
  };

  Status go_on();
  Status end_references();
  Result<bool> look_at_files(const std::string& prefix);  // whether that was all of them
  Status look_at_file(const std::string& hash, const FileIdentity& now, std::map<std::string, AttachmentRow>& rows);
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
  std::int64_t keep_ms_;  // of the next pass
  std::int64_t last_wall_us_ = 0;
  std::int64_t last_ns_ = 0;
};

}  // namespace warren::relay
