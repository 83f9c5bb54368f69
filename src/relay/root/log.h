// The relay's logs, as JSON lines: relay.log has everything, audit.log has security events.
#pragma once

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
      : dir_(dir), bytes_max_(bytes_max), clock_(clock), options_(options) {}

  // Whether note() would write it. Check before building details for every message.
  bool wants(Severity severity) const { return severity >= options_.least; }
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
  std::uint64_t bytes_max_;
  Clock& clock_;
  LogOptions options_;
  std::mutex mutex_;  // for both files
  File log_{"relay.log", Fd(), 0};
  File audit_{"audit.log", Fd(), 0};
};

}  // namespace warren::relay
