// What a relay did, as JSON lines: relay.log for everything, audit.log for what concerns security.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "os/fd.h"

namespace warren::relay {

enum class Severity { kInfo, kWarning, kError };

// One thread. A line that cannot be written (a full disk) is lost: logging never stops messages.
class Log {
 public:
  // Below `dir`. A file that reaches `bytes_max` becomes NAME.1, in place of an older one.
  Log(int dir, std::uint64_t bytes_max, Clock& clock) : dir_(dir), bytes_max_(bytes_max), clock_(clock) {}

  void note(Severity severity, std::string_view event, const Json& details = Json::object());
  void audit(std::string_view event, const Json& details);  // into both

 private:
  struct File {
    const char* name;
    Fd fd;
    std::uint64_t size = 0;
  };
  void write(File& file, const Json& line);
  Json line(Severity severity, std::string_view event, const Json& details);

  int dir_;
  std::uint64_t bytes_max_;
  Clock& clock_;
  File log_{"relay.log", Fd(), 0};
  File audit_{"audit.log", Fd(), 0};
};

}  // namespace warren::relay
