#include "os/processes/daemon.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "os/error.h"
#include "os/pipe.h"

namespace warren {
namespace {

constexpr std::size_t kReportBytes = 16384;

// One byte with the code (0: success), the message, a NUL, the hint.
std::string encode(const Status& outcome) {
  if (outcome.ok()) return std::string(1, '\0');
  std::string text(1, static_cast<char>(outcome.error().code()));
  return text + outcome.error().message() + '\0' + outcome.error().hint();
}

Status decode(std::string_view text) {
  if (text.empty()) return Error(Code::kUnavailable, "the background process ended without saying why");
  auto code = static_cast<Code>(static_cast<unsigned char>(text[0]));
  if (text[0] == '\0') return Ok{};
  text.remove_prefix(1);
  std::size_t end = std::min(text.find('\0'), text.size());
  std::string hint(text.substr(std::min(end + 1, text.size())));
  return Error(code, std::string(text.substr(0, end)), std::move(hint));
}

}  // namespace

Result<Daemon> Daemon::start() {
  Pipe pipe = WARREN_TRY(open_pipe());
  pid_t child = ::fork();
  if (child < 0) return system_error(errno, "fork");
  if (child == 0) return Daemon(true, std::move(pipe.writer));
  return Daemon(false, std::move(pipe.reader));
}

Status Daemon::wait() {
  std::string text(kReportBytes, '\0');
  std::size_t got = WARREN_TRY(read_full(pipe_.get(), as_mutable_bytes(text)));
  return decode(std::string_view(text).substr(0, got));
}

void Daemon::report(const Status& outcome) {
  if (outcome.ok()) {
    ::setsid();
    if (::chdir("/") != 0) return;  // never fails; if it does, the parent reports that we ended
    Fd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    for (int standard : {0, 1, 2}) ::dup2(nothing.get(), standard);
  }
  std::string text = encode(outcome).substr(0, kReportBytes);
  write_all(pipe_.get(), as_bytes(text)).ignore("the parent was killed; nobody is left to report to");
  pipe_ = Fd();
}

}  // namespace warren
