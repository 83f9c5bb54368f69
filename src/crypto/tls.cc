#include "crypto/tls.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>

#include <fmt/format.h>

#include "base/path.h"

namespace warren {

// The functions we use of libssl, by name. Those of libcrypto are linked.
// clang-format off
#define WARREN_SSL_FUNCTIONS(X) \
  X(TLS_client_method) X(SSL_CTX_new) X(SSL_CTX_free) X(SSL_CTX_ctrl) X(SSL_CTX_set_verify) \
  X(SSL_CTX_set_default_verify_paths) X(SSL_CTX_load_verify_locations) X(SSL_new) X(SSL_free) X(SSL_set_fd) \
  X(SSL_ctrl) X(SSL_set1_host) X(SSL_get0_param) X(SSL_connect) X(SSL_read) X(SSL_write) X(SSL_get_error) \
  X(SSL_get_verify_result)
// clang-format on

struct Tls::Library {
#define WARREN_SSL_POINTER(name) decltype(&::name) name = nullptr;
  WARREN_SSL_FUNCTIONS(WARREN_SSL_POINTER)
#undef WARREN_SSL_POINTER
};

namespace {

template <class F>
void find_in_libssl(void* library, const char* name, F& function, const char*& missing) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  if (function == nullptr && missing == nullptr) missing = name;
}

bool is_ip_address(const std::string& host) {
  unsigned char bytes[16];
  return ::inet_pton(AF_INET, host.c_str(), bytes) == 1 || ::inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

std::string openssl_reason() {
  unsigned long number = ::ERR_get_error();
  ::ERR_clear_error();
  const char* reason = number == 0 ? nullptr : ::ERR_reason_error_string(number);
  return reason == nullptr ? "the connection was closed" : reason;
}

// OpenSSL writes with write(), which raises SIGPIPE in this thread when the other side is gone. The process may be
// somebody else's, so its handling of the signal is not ours to change.
class PipeSignalHeld {
 public:
  PipeSignalHeld() {
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::sigemptyset(&only_);
    ::sigaddset(&only_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &only_, &before_);
  }
  ~PipeSignalHeld() {
    timespec at_once{};
    if (!was_pending_) ::sigtimedwait(&only_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  PipeSignalHeld(const PipeSignalHeld&) = delete;
  PipeSignalHeld& operator=(const PipeSignalHeld&) = delete;

 private:
  sigset_t only_;
  sigset_t before_;
  bool was_pending_ = false;
};

}  // namespace

Result<const Tls::Library*> Tls::load() {
  static const Result<Library> loaded = []() -> Result<Library> {
    void* library = ::dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      return Error(Code::kUnavailable, "OpenSSL's library 'libssl.so.3' is not installed",
                   "install it: on Debian the package libssl3");
    }
    Library ssl;
    const char* missing = nullptr;
#define WARREN_SSL_FIND(name) find_in_libssl(library, #name, ssl.name, missing);
    WARREN_SSL_FUNCTIONS(WARREN_SSL_FIND)
#undef WARREN_SSL_FIND
    if (missing != nullptr) return Error(Code::kUnavailable, fmt::format("OpenSSL's library has no {}", missing));
    return ssl;
  }();
  if (!loaded.ok()) return loaded.error();
  return &*loaded;
}

Result<std::unique_ptr<Tls>> Tls::connect(int fd, const TlsOptions& options, Instant until) {
  const Library& library = *WARREN_TRY(load());
  std::unique_ptr<Tls> tls(new Tls(library, fd));
  WARREN_TRY(tls->prepare(options));
  WARREN_TRY(tls->shake_hands(options, until));
  return tls;
}

Tls::~Tls() {
  if (ssl_ != nullptr) library_.SSL_free(ssl_);
  if (context_ != nullptr) library_.SSL_CTX_free(context_);
}

Status Tls::prepare(const TlsOptions& options) {
  ::ERR_clear_error();
  context_ = library_.SSL_CTX_new(library_.TLS_client_method());
  if (context_ == nullptr) return Error(Code::kLimit, fmt::format("TLS: {}", openssl_reason()));
  library_.SSL_CTX_ctrl(context_, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, nullptr);
  library_.SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
  bool has_ca = options.ca_file.empty()
                    ? library_.SSL_CTX_set_default_verify_paths(context_) == 1
                    : library_.SSL_CTX_load_verify_locations(context_, options.ca_file.c_str(), nullptr) == 1;
  if (!has_ca) {
    return Error(Code::kInvalid,
                 fmt::format("TLS: cannot read certificates from {}: {}", quote(options.ca_file), openssl_reason()));
  }
  ssl_ = library_.SSL_new(context_);
  if (ssl_ == nullptr || library_.SSL_set_fd(ssl_, fd_) != 1) {
    return Error(Code::kLimit, fmt::format("TLS: {}", openssl_reason()));
  }
  library_.SSL_ctrl(ssl_, SSL_CTRL_MODE, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, nullptr);
  if (is_ip_address(options.host)) {
    ::X509_VERIFY_PARAM_set1_ip_asc(library_.SSL_get0_param(ssl_), options.host.c_str());
    return Ok{};
  }
  library_.SSL_set1_host(ssl_, options.host.c_str());
  library_.SSL_ctrl(ssl_, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                    const_cast<char*>(options.host.c_str()));
  return Ok{};
}

Status Tls::shake_hands(const TlsOptions& options, Instant until) {
  PipeSignalHeld held;
  for (;;) {
    ::ERR_clear_error();
    errno = 0;
    int result = library_.SSL_connect(ssl_);
    if (result == 1) return Ok{};
    long verified = library_.SSL_get_verify_result(ssl_);
    if (verified != X509_V_OK) {
      return Error(Code::kDenied,
                   fmt::format("TLS: the certificate of {} is not valid: {}", quote(options.host),
                               ::X509_verify_cert_error_string(verified)),
                   "trust its issuer with the option ca=FILE");
    }
    WARREN_TRY(wait(result, "handshake", until));
  }
}

// Until a call that returned `result` can be repeated.
Status Tls::wait(int result, const char* doing, Instant until) {
  int number = errno;
  int error = library_.SSL_get_error(ssl_, result);
  if (error == SSL_ERROR_WANT_READ) return wait_for_socket(fd_, POLLIN, until);
  if (error == SSL_ERROR_WANT_WRITE) return wait_for_socket(fd_, POLLOUT, until);
  bool is_system = error == SSL_ERROR_SYSCALL && number != 0 && ::ERR_peek_error() == 0;
  return Error(Code::kUnavailable,
               fmt::format("TLS {}: {}", doing, is_system ? std::string(std::strerror(number)) : openssl_reason()));
}

Result<std::size_t> Tls::read_some(MutableBytes out, Instant until) {
  int size = static_cast<int>(std::min<std::size_t>(out.size(), INT_MAX));
  for (;;) {
    ::ERR_clear_error();
    errno = 0;
    int got = library_.SSL_read(ssl_, out.data(), size);
    if (got > 0) return static_cast<std::size_t>(got);
    if (library_.SSL_get_error(ssl_, got) == SSL_ERROR_ZERO_RETURN) return std::size_t{0};
    WARREN_TRY(wait(got, "read", until));
  }
}

Status Tls::write_all(Bytes data, Instant until) {
  PipeSignalHeld held;
  while (!data.empty()) {
    ::ERR_clear_error();
    errno = 0;
    int sent = library_.SSL_write(ssl_, data.data(), static_cast<int>(std::min<std::size_t>(data.size(), INT_MAX)));
    if (sent > 0) data = data.subspan(static_cast<std::size_t>(sent));
    else WARREN_TRY(wait(sent, "write", until));
  }
  return Ok{};
}

Status wait_for_socket(int fd, short events, Tls::Instant until) {
  for (;;) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd one{fd, events, 0};
    int ready = left.count() <= 0 ? 0 : ::poll(&one, 1, static_cast<int>(std::min<long>(left.count(), INT_MAX)));
    if (ready > 0) return Ok{};
    if (ready == 0) return Error(Code::kUnavailable, "no answer in time");
    if (errno != EINTR) return Error(Code::kIo, fmt::format("poll: {}", std::strerror(errno)));
  }
}

}  // namespace warren
