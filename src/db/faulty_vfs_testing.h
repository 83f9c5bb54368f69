// A disk that fails on demand, for tests: a SQLite VFS around the system's own.
//
// It is built into warren_db_testing only and never shipped. Pass name() as
// DatabaseOptions::vfs; reopening without it is reopening on a healthy disk.
//
// It does two things. fail() makes a chosen call fail, once or from then on; a failing write writes
// half of its bytes first, as disks do. hold_back() keeps unsynced writes out of the real file, so that
// cut_power() can drop them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"

namespace warren::testing {

// kAny is every call that changes something; reads count only as kRead.
enum class DiskCall { kAny, kWrite, kSync, kTruncate, kOpen, kRead };
enum class DiskFault { kIo, kNoSpace };
enum class FaultLasts { kOnce, kFromThenOn };

struct FaultPlan {
  int nth = 1;  // counted from the call to fail()
  DiskCall call = DiskCall::kAny;
  DiskFault fault = DiskFault::kIo;
  FaultLasts lasts = FaultLasts::kOnce;
};

// What happens to unsynced writes at a power cut.
enum class PowerLoss {
  kDropped,  // none of them reached the disk
  kTorn,     // each 512-byte sector did or did not, depending on the seed
};

// Thread-safe. Must outlive every database opened through it.
class FaultyVfs {
 public:
  FaultyVfs();
  ~FaultyVfs();
  FaultyVfs(const FaultyVfs&) = delete;
  FaultyVfs& operator=(const FaultyVfs&) = delete;

  const char* name() const;

  void fail(const FaultPlan& plan);
  void heal();
  bool fired() const;              // has the planned fault happened?
  int calls(DiskCall call) const;  // since fail() or heal(); open of an existing file counts too

  // From now on unsynced writes are held back. Call it before any file is opened through this VFS.
  void hold_back();
  // Cuts the power right after the nth call counted as in fail(): that call still happens.
  void cut_power_after(int nth, PowerLoss loss, std::uint64_t seed);
  // Cuts the power now. Calls on files that were open fail from then on, until they are closed.
  void cut_power(PowerLoss loss, std::uint64_t seed);
  bool power_is_cut() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace warren::testing
