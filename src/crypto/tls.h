// TLS as a client, over a connected non-blocking socket. OpenSSL's libssl is loaded on the first use.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

struct ssl_ctx_st;
struct ssl_st;

namespace warren {

struct TlsOptions {
  std::string host;     // the certificate must be for this name or IP address
  std::string ca_file;  // certificates to trust instead of the system's; empty: the system's
};

// For one thread. The socket must outlive it and stays the caller's. Every call ends by `until` (kUnavailable).
class Tls {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  // The handshake. kDenied if the certificate is not valid for the host.
  static Result<std::unique_ptr<Tls>> connect(int fd, const TlsOptions& options, Instant until);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  Result<std::size_t> read_some(MutableBytes out, Instant until);  // 0 at the end
  Status write_all(Bytes data, Instant until);

 private:
  struct Library;
  static Result<const Library*> load();

  Tls(const Library& library, int fd) : library_(library), fd_(fd) {}
  Status prepare(const TlsOptions& options);
  Status shake_hands(const TlsOptions& options, Instant until);
  Status wait(int result, const char* doing, Instant until);

  const Library& library_;
  int fd_;
  ssl_ctx_st* context_ = nullptr;
  ssl_st* ssl_ = nullptr;
};

// Until `fd` is ready for `events` of poll(). kUnavailable when `until` has passed.
Status wait_for_socket(int fd, short events, std::chrono::steady_clock::time_point until);

}  // namespace warren
