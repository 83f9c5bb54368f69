// A TCP connection, with TLS if wanted, whose every call ends by a given time.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/result.h"
#include "clients/url.h"
#include "crypto/tls.h"
#include "os/fd.h"

namespace warren {

// For one thread. kUnavailable: the other side is gone or does not answer in time; the connection is of no use then.
class Stream {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  // Looking up a host's name may take as long as the system's resolver allows; everything else ends by `until`.
  static Result<std::unique_ptr<Stream>> connect(const HostPort& to, const std::optional<TlsOptions>& tls,
                                                 Instant until);

  Result<std::size_t> read_some(MutableBytes out, Instant until);  // kUnavailable at the end
  Status write_all(Bytes data, Instant until);

  // What was not sent yet is not sent after the connection is closed either: a command that was given up must not
  // arrive after later ones.
  void abandon();

  // The other side has not closed the connection and has sent nothing that was not read. Does not wait.
  bool is_idle() const;

 private:
  explicit Stream(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace warren
