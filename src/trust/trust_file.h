// Where the operator's decisions about trust are kept: trust.json in a folder of the operator's configuration, which no
// agent can reach. 0600 in 0700.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <sys/stat.h>

#include "base/result.h"
#include "trust/trust_state.h"

namespace warren {

// Safe for several processes.
class TrustFile {
 public:
  explicit TrustFile(std::string folder) : folder_(std::move(folder)) {}

  std::string path() const { return folder_ + "/trust.json"; }
  // Empty if there is none. kDenied if others could have written it, kCorrupt if it is damaged.
  Result<TrustState> read() const;
  // Reads, changes and replaces it; nothing is stored if the change fails. Makes the folder.
  Status change(const std::function<Status(TrustState&)>& change) const;

 private:
  std::string folder_;
};

// The state as it is now, for a process that asks again and again. Thread-safe.
class LiveTrust {
 public:
  explicit LiveTrust(TrustFile file) : file_(std::move(file)) {}

  struct Current {
    std::shared_ptr<const TrustState> state;
    std::uint64_t generation = 0;  // changes with the state
  };
  // While the file cannot be read or is damaged, this fails and nobody is trusted: it may contain a new revocation.
  Result<Current> current();

 private:
  struct Stamp {
    ino_t inode = 0;
    off_t size = 0;
    timespec mtime{};
    timespec ctime{};
    mode_t folder_mode = 0;  // who else can write there is part of the decision
    bool operator==(const Stamp& other) const;
  };
  Result<std::optional<Stamp>> look() const;

  TrustFile file_;
  std::mutex mutex_;
  bool is_loaded_ = false;
  std::optional<Stamp> stamp_;
  std::optional<Error> problem_;
  Current current_;
};

}  // namespace warren
