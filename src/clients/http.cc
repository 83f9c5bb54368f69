#include "clients/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "clients/libcurl.h"

namespace warren {
namespace {

constexpr std::size_t kAnswerHeaderBytes = std::size_t{256} << 10;
constexpr std::size_t kReserveBytes = std::size_t{16} << 20;  // at most, on the word of Content-Length
constexpr long kTransferBuffer = 256L << 10;

// TLS writes without MSG_NOSIGNAL. A program that uses the library may not ignore SIGPIPE, so it is kept off this
// thread during a call.
class PipeSignalGuard {
 public:
  PipeSignalGuard() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &former_);
  }
  ~PipeSignalGuard() {
    timespec at_once{};
    if (!was_pending_) ::sigtimedwait(&pipe_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &former_, nullptr);
  }
  PipeSignalGuard(const PipeSignalGuard&) = delete;
  PipeSignalGuard& operator=(const PipeSignalGuard&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t former_{};
  bool was_pending_ = false;
};

// What curl's callbacks of one call share.
struct Transfer {
  const HttpCall& call;
  const AddressCheck& check_address;
  HttpAnswer answer;
  std::size_t header_bytes = 0;
  bool has_all_headers = false;
  std::optional<Error> failure;  // why a callback ended the transfer
};

Error too_large(const Transfer& transfer) {
  return Error(Code::kTooLarge, fmt::format("the answer is larger than {} bytes", transfer.call.answer_bytes_max));
}

std::size_t on_body(char* data, std::size_t, std::size_t size, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  if (size > transfer.call.answer_bytes_max - transfer.answer.body.size()) {
    transfer.failure = too_large(transfer);
    return 0;
  }
  transfer.answer.body.append(data, size);
  return size;
}

// False: the body will be too large, which ends the transfer before it begins.
bool expect_body(Transfer& transfer, std::string_view length_text) {
  std::size_t length = parse_number<std::size_t>(length_text).value_or(0);
  if (length > transfer.call.answer_bytes_max) {
    transfer.failure = too_large(transfer);
    return false;
  }
  transfer.answer.body.reserve(std::min(length, kReserveBytes));
  return true;
}

int on_progress(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(context);
  if (!transfer.call.is_cancelled->load()) return 0;
  transfer.failure = Error(Code::kUnavailable, "it was cancelled");
  return 1;
}

std::size_t on_header(char* data, std::size_t, std::size_t size, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  transfer.header_bytes += size;
  if (transfer.header_bytes > kAnswerHeaderBytes) {
    transfer.failure =
        Error(Code::kTooLarge, fmt::format("the answer's headers are larger than {} bytes", kAnswerHeaderBytes));
    return 0;
  }
  std::string_view line = trimmed(std::string_view(data, size), "\r\n");
  if (line.starts_with("HTTP/")) {  // also of a redirect's next answer, and after 100 Continue
    transfer.answer.headers.clear();
    transfer.has_all_headers = false;
    return size;
  }
  if (line.empty()) transfer.has_all_headers = true;
  std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return size;
  std::string name = to_lower(line.substr(0, colon));
  std::string_view value = trimmed(line.substr(colon + 1));
  if (name == "content-length" && transfer.call.method != "HEAD" && !expect_body(transfer, value)) return 0;
  transfer.answer.headers.emplace_back(std::move(name), value);
  return size;
}

Status judge(const AddressCheck& check, const curl_sockaddr& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  std::uint16_t port = 0;
  if (address.family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.addr);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    port = ntohs(v4.sin_port);
  } else if (address.family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.addr);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    port = ntohs(v6.sin6_port);
  } else {
    return Error(Code::kDenied, "the address is neither IPv4 nor IPv6");
  }
  return check(text.data(), port);
}

curl_socket_t on_open_socket(void* context, curlsocktype, curl_sockaddr* address) {
  auto& transfer = *static_cast<Transfer*>(context);
  if (transfer.check_address) {
    Status allowed = judge(transfer.check_address, *address);
    if (!allowed.ok()) {
      transfer.failure = Error(Code::kDenied, allowed.error().message(), allowed.error().hint());
      return CURL_SOCKET_BAD;
    }
  }
  // curl's own would be inherited by programs that we start.
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// "http://host:port" of a URL: without path, query and password.
std::string server_of(std::string_view url) {
  std::size_t begin = url.find("://");
  begin = begin == std::string_view::npos ? 0 : begin + 3;
  std::size_t end = std::min(url.find_first_of("/?#", begin), url.size());
  std::string_view authority = url.substr(begin, end - begin);
  if (std::size_t at = authority.rfind('@'); at != std::string_view::npos) authority.remove_prefix(at + 1);
  return std::string(url.substr(0, begin)) + std::string(authority);
}

Status check_call(const HttpCall& call) {
  bool is_http = call.url.starts_with("http://") || call.url.starts_with("https://");
  if (!is_http) return Error(Code::kInvalid, "the URL does not begin with http:// or https://");
  if (call.method.empty()) return Error(Code::kInvalid, "the HTTP method is empty");
  for (char c : call.method) {
    if (c < 'A' || c > 'Z') return Error(Code::kInvalid, fmt::format("{} is not an HTTP method", quote(call.method)));
  }
  for (char c : call.url) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '\x7f') {
      return Error(Code::kInvalid, "the URL contains a space or control character");
    }
  }
  for (const auto& [name, value] : call.headers) {
    bool bad_name = name.empty() || name.find_first_of(": \t\r\n") != std::string::npos;
    if (bad_name || name.find('\0') != std::string::npos) {
      return Error(Code::kInvalid, fmt::format("{} is not a name of an HTTP header", quote(name)));
    }
    if (value.find_first_of("\r\n") != std::string::npos || value.find('\0') != std::string::npos) {
      return Error(Code::kInvalid, fmt::format("the HTTP header {} contains a line break or NUL", quote(name)));
    }
  }
  return Ok{};
}

}  // namespace

const std::string* HttpAnswer::find(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return &value;
  }
  return nullptr;
}

struct HttpClient::State {
  const Libcurl& curl;
  HttpClientOptions options;
  std::mutex mutex;
  std::vector<CURL*> idle;  // under the mutex. Each has its open connections; the last one used is taken first

  State(const Libcurl& library, HttpClientOptions given) : curl(library), options(std::move(given)) {}
  ~State() {
    for (CURL* handle : idle) curl.curl_easy_cleanup(handle);
  }

  CURL* take() {
    {
      std::lock_guard lock(mutex);
      if (!idle.empty()) {
        CURL* handle = idle.back();
        idle.pop_back();
        return handle;
      }
    }
    return curl.curl_easy_init();
  }

  void give_back(CURL* handle) {
    curl.curl_easy_reset(handle);  // forgets the call, keeps the connections
    {
      std::lock_guard lock(mutex);
      if (idle.size() < options.idle_max) {
        idle.push_back(handle);
        return;
      }
    }
    curl.curl_easy_cleanup(handle);
  }

  void set_up(CURL* handle, Transfer& transfer, char* reason);
  curl_slist* header_list(const HttpCall& call);
};

void HttpClient::State::set_up(CURL* handle, Transfer& transfer, char* reason) {
  const HttpCall& call = transfer.call;
  auto set = [&](CURLoption option, auto value) { curl.curl_easy_setopt(handle, option, value); };
  set(CURLOPT_ERRORBUFFER, reason);
  set(CURLOPT_URL, call.url.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_SSL_VERIFYPEER, 1L);
  set(CURLOPT_SSL_VERIFYHOST, 2L);
  // Behind a proxy, the check would judge the proxy's address and not the server's.
  if (options.check_address) set(CURLOPT_PROXY, "");
  if (!options.ca_file.empty()) set(CURLOPT_CAINFO, options.ca_file.c_str());
  auto timeout = std::max(call.timeout, std::chrono::milliseconds(1));  // 0 would be none
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(std::min(timeout, options.connect_timeout).count()));
  set(CURLOPT_FOLLOWLOCATION, options.redirects_max > 0 ? 1L : 0L);
  set(CURLOPT_MAXREDIRS, static_cast<long>(options.redirects_max));
  set(CURLOPT_BUFFERSIZE, kTransferBuffer);
  set(CURLOPT_UPLOAD_BUFFERSIZE, kTransferBuffer);
  set(CURLOPT_WRITEFUNCTION, &on_body);
  set(CURLOPT_WRITEDATA, &transfer);
  set(CURLOPT_HEADERFUNCTION, &on_header);
  set(CURLOPT_HEADERDATA, &transfer);
  set(CURLOPT_OPENSOCKETFUNCTION, &on_open_socket);
  set(CURLOPT_OPENSOCKETDATA, &transfer);
  if (call.is_cancelled != nullptr) {
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &on_progress);
    set(CURLOPT_XFERINFODATA, &transfer);
  }
  if (call.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
    return;
  }
  bool has_body = !call.body.empty() || call.method == "PUT" || call.method == "POST";
  if (has_body) {
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call.body.size()));
    set(CURLOPT_POSTFIELDS, call.body.empty() ? "" : as_text(call.body).data());
  }
  set(CURLOPT_CUSTOMREQUEST, call.method.c_str());
}

curl_slist* HttpClient::State::header_list(const HttpCall& call) {
  // Without these lines curl adds its own: it would wait for "100 Continue", and call every body a form.
  curl_slist* list = curl.curl_slist_append(nullptr, "Expect:");
  bool has_type = false;
  for (const auto& [name, value] : call.headers) {
    if (to_lower(name) == "content-type") has_type = true;
    // An empty value is sent only with this notation.
    std::string line = value.empty() ? name + ";" : fmt::format("{}: {}", name, value);
    list = curl.curl_slist_append(list, line.c_str());
  }
  if (!has_type) list = curl.curl_slist_append(list, "Content-Type:");
  return list;
}

HttpClient::HttpClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpClient::~HttpClient() = default;

Result<std::unique_ptr<HttpClient>> HttpClient::open(HttpClientOptions options) {
  const Libcurl* curl = WARREN_TRY(load_libcurl());
  auto state = std::make_unique<State>(*curl, std::move(options));
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(state)));
}

Result<HttpAnswer> HttpClient::call(const HttpCall& call) {
  WARREN_TRY(check_call(call));
  CURL* handle = state_->take();
  if (handle == nullptr) return Error(Code::kUnavailable, "curl's library cannot start a request: out of memory");
  Transfer transfer{.call = call, .check_address = state_->options.check_address};
  std::array<char, CURL_ERROR_SIZE> reason{};
  state_->set_up(handle, transfer, reason.data());
  curl_slist* headers = state_->header_list(call);
  state_->curl.curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
  CURLcode code = CURLE_OK;
  {
    PipeSignalGuard guard;
    code = state_->curl.curl_easy_perform(handle);
  }
  long status = 0;
  state_->curl.curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  std::string text = reason.front() != '\0' ? reason.data() : state_->curl.curl_easy_strerror(code);
  state_->give_back(handle);
  state_->curl.curl_slist_free_all(headers);

  auto where = [&] { return fmt::format("{} {}", call.method, server_of(call.url)); };
  if (code == CURLE_OK && !transfer.has_all_headers) {  // curl takes the end of the connection for that of the headers
    return Error(Code::kUnavailable, fmt::format("{}: the answer ends within its headers", where()));
  }
  if (code == CURLE_OK) {
    transfer.answer.status = static_cast<int>(status);
    return std::move(transfer.answer);
  }
  if (transfer.failure) return std::move(*std::move(transfer.failure)).within(where());
  Code kind = code == CURLE_URL_MALFORMAT ? Code::kInvalid : Code::kUnavailable;
  if (code == CURLE_OPERATION_TIMEDOUT) text = fmt::format("no answer within {} ms", call.timeout.count());
  return Error(kind, fmt::format("{}: {}", where(), text));
}

}  // namespace warren
