// The relay's logs, as JSON lines: relay.log has everything, audit.log has security events.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "os/fd.h"
#include "relay/root/severity.h"

namespace warren::relay {

struct LogOptions {
  Severity least = Severity::kInfo;
  int old_files = 1;
};

// Thread-safe. A line that cannot be written (a full disk) is lost: logging never stops messages.
class Log {
 public:
  // In the directory `dir`. A file that reaches `bytes_max` is renamed to NAME.1, the previous NAME.1 to NAME.2, etc.
  Log(int dir, std::uint64_t bytes_max, Clock& clock, LogOptions options = {})
      : dir_(dir), clock_(clock), bytes_max_(bytes_max), old_files_(options.old_files), least_(options.least) {}

  void set_options(std::uint64_t bytes_max, LogOptions options);  // from the next line on

  // Whether note() would write it. Check before building details for every message.
  bool wants(Severity severity) const { return severity >= least_.load(std::memory_order_relaxed); }
  void note(Severity severity, std::string_view event, const Json& details = Json::object());
  void audit(std::string_view event, const Json& details);  // to both files

 private:
  struct File {
    const char* name;
    Fd fd;
    std::uint64_t size = 0;
  };
  void write(File& file, const Json& line);
  void rotate(File& file);
  Json line(Severity severity, std::string_view event, const Json& details);

  int dir_;
  Clock& clock_;
  std::mutex mutex_;  // for both files, and the next two
  std::uint64_t bytes_max_;
  int old_files_;
  std::atomic<Severity> least_;
  File log_{"relay.log", Fd(), 0};
  File audit_{"audit.log", Fd(), 0};
};

}  // namespace warren::relay
