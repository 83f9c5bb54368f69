#include "net/web_server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <unordered_set>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <fmt/format.h>
#include <microhttpd.h>

#include "base/ascii.h"
#include "net/hangup_watch.h"
#include "net/newcomers.h"
#include "os/error.h"
#include "os/fd.h"

namespace warren::net {
namespace {

constexpr std::size_t kStreamBlock = std::size_t{32} << 10;
constexpr std::chrono::seconds kEndPatienceWeb{2};

// Beyond the connections that may stay open: a new one is taken first, then an older one is closed.
constexpr std::size_t kConnectionsArriving = 16;

class Exchange;

// What exchanges and their server share; an answer may be held longer than the server lives.
struct WebBooks {
  WebOptions options;
  std::atomic<std::size_t> body_bytes = 0;
  std::atomic<std::size_t> unsent_bytes = 0;  // of answers and streams
  std::mutex mutex;
  std::condition_variable ended;
  std::unordered_set<Exchange*> open;  // whose connection is; under mutex
  std::unique_ptr<HangupWatch> watch;  // stopped with the server
};

// One request and its answer. The connection belongs to the library, which tells when it is done with it.
class Exchange final : public WebReply {
 public:
  Exchange(std::shared_ptr<WebBooks> books, MHD_Connection* connection)
      : books_(std::move(books)), connection_(connection) {}
  ~Exchange() override;

  void answer(int status, WebHeaders headers, std::string body) override;
  void begin_stream(WebHeaders headers) override;
  bool write(std::string_view text) override;
  void end_stream() override;
  void when_gone(std::function<void()> call) override;
  bool is_crowded() const override { return books_->unsent_bytes >= books_->options.all_unsent_bytes_max; }

  // For the library's thread.
  std::weak_ptr<Exchange> self;
  WebRequest request;
  bool is_dispatched = false;
  std::size_t counted_bytes = 0;  // of the body, in the server's sum
  void wait_for_answer();         // before the handler is called
  MHD_Result queue_answer();      // what the handler has said
  ssize_t read_stream(char* to, std::size_t most);
  void all_sent();
  void connection_ended();
  void client_hung_up();  // while it waits for its answer

  void give_up();  // the server stops: an answer of ours, or the end of the stream

 private:
  void wake();          // under mutex_
  void count_unsent();  // under mutex_, after body_ or sent_ has changed
  void close_books();

  std::shared_ptr<WebBooks> books_;  // shared with the server
  std::mutex mutex_;
  MHD_Connection* connection_;  // under mutex_, as what follows; null: it has ended
  bool is_suspended_ = false;
  bool has_answer_ = false;
  bool is_stream_ = false;
  bool is_stream_ended_ = false;
  bool has_hung_up_ = false;
  bool is_whole_ = false;  // everything was sent
  int status_ = 200;
  WebHeaders headers_;
  std::string body_;  // the answer, or what of the stream is not sent yet
  std::size_t sent_ = 0;
  std::size_t unsent_ = 0;  // what of body_ is in the server's sum
  std::function<void()> gone_;
  std::uint64_t watch_id_ = 0;
};

class WebServerImpl final : public WebServer {
 public:
  WebServerImpl(WebOptions options, WebHandler handler, WebHeadCheck check)
      : books_(std::make_shared<WebBooks>()),
        handler_(std::move(handler)),
        check_(std::move(check)),
        newcomers_(options.connections_max) {
    books_->options = options;
  }
  ~WebServerImpl() override { stop(); }

  Status open(const HttpAddress& address);
  const HttpAddress& address() const override { return address_; }
  void stop() override;

  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url, const char* method,
                               const char* version, const char* data, std::size_t* size, void** kept);
  static void on_completed(void* self, MHD_Connection* connection, void** kept, MHD_RequestTerminationCode why);
  static void on_connection(void* self, MHD_Connection* connection, void** kept, MHD_ConnectionNotificationCode what);

 private:
  MHD_Result begin(MHD_Connection* connection, const char* url, const char* method, void** kept);
  void accept_newcomer(MHD_Connection* connection);
  MHD_Result take_body(Exchange& exchange, const char* data, std::size_t size);
  static MHD_Result refuse(MHD_Connection* connection, const WebRefusal& refusal);

  std::shared_ptr<WebBooks> books_;  // shared with exchanges
  WebHandler handler_;
  WebHeadCheck check_;
  HttpAddress address_;
  Fd listening_;
  MHD_Daemon* daemon_ = nullptr;
  Newcomers newcomers_;  // for the library's thread
  std::atomic<bool> is_stopping_ = false;
};

using KeptExchange = std::shared_ptr<Exchange>;  // shared by the library's connection and whoever answers

std::string lower_case(const char* text) { return to_lower(std::string_view(text)); }

// Headers that say where a request ends or who sent it. A proxy in front of us may read another
// one of two than we do.
constexpr std::array<std::string_view, 11> kSingleHeaders{
    "authorization", "content-length",       "content-type",   "host",   "last-event-id",    "mcp-method",
    "mcp-name",      "mcp-protocol-version", "mcp-session-id", "origin", "transfer-encoding"};

struct ArrivedHeaders {
  std::map<std::string, std::string> by_name;
  std::string doubled;  // one of kSingleHeaders that came twice
};

MHD_Result keep_header(void* arrived, MHD_ValueKind, const char* key, const char* value) {
  auto& headers = *static_cast<ArrivedHeaders*>(arrived);
  std::string name = lower_case(key);
  bool is_single = std::ranges::find(kSingleHeaders, name) != kSingleHeaders.end();
  if (is_single && headers.by_name.contains(name)) headers.doubled = name;
  headers.by_name[name] = value == nullptr ? "" : value;
  return MHD_YES;
}

std::optional<WebRefusal> find_ambiguity(const ArrivedHeaders& headers) {
  std::string problem;
  if (!headers.doubled.empty()) problem = fmt::format("the header {} was sent twice", headers.doubled);
  bool has_length = headers.by_name.contains("content-length");
  if (has_length && headers.by_name.contains("transfer-encoding")) {
    problem = "Content-Length and Transfer-Encoding cannot be used together";
  }
  if (problem.empty()) return std::nullopt;
  return WebRefusal{.status = 400, .headers = {{"Content-Type", "text/plain"}}, .body = problem + "\n"};
}

ssize_t stream_reader(void* kept, std::uint64_t, char* to, std::size_t most) {
  return (*static_cast<KeptExchange*>(kept))->read_stream(to, most);
}

void drop_kept(void* kept) { delete static_cast<KeptExchange*>(kept); }

Result<Fd> listen_on(const HttpAddress& address) {
  bool is_six = address.host.find(':') != address.host.npos;
  sockaddr_in four{};
  sockaddr_in6 six{};
  four.sin_family = AF_INET;
  four.sin_port = htons(address.port);
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(address.port);
  if (::inet_pton(is_six ? AF_INET6 : AF_INET, address.host.c_str(),
                  is_six ? static_cast<void*>(&six.sin6_addr) : static_cast<void*>(&four.sin_addr)) != 1) {
    return Error(Code::kInvalid, fmt::format("{} is not an address", address.host));
  }
  Fd fd(::socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return system_error(errno, "make a socket");
  int yes = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const auto* name = is_six ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
  socklen_t size = is_six ? sizeof six : sizeof four;
  if (::bind(fd.get(), name, size) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    if (errno == EADDRINUSE) return Error(Code::kBusy, fmt::format("{} is in use by another program", address.text()));
    return system_error(errno, fmt::format("listen on {}", address.text()));
  }
  return fd;
}

Result<std::uint16_t> port_of_socket(int fd) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return system_error(errno, "getsockname");
  if (name.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&name)->sin6_port);
  return ntohs(reinterpret_cast<sockaddr_in*>(&name)->sin_port);
}

Exchange::~Exchange() {
  books_->body_bytes -= counted_bytes;
  books_->unsent_bytes -= unsent_;
  close_books();
}

void Exchange::count_unsent() {
  std::size_t now = body_.size() - sent_;
  books_->unsent_bytes += now;
  books_->unsent_bytes -= unsent_;
  unsent_ = now;
}

void Exchange::close_books() {
  std::lock_guard lock(books_->mutex);
  books_->open.erase(this);
  books_->ended.notify_all();
}

void Exchange::wake() {
  if (connection_ == nullptr || !is_suspended_) return;
  is_suspended_ = false;
  MHD_resume_connection(connection_);
}

void Exchange::answer(int status, WebHeaders headers, std::string body) {
  std::lock_guard lock(mutex_);
  if (has_answer_) return;
  has_answer_ = true;
  status_ = status;
  headers_ = std::move(headers);
  if (connection_ != nullptr) body_ = std::move(body);
  count_unsent();
  wake();
}

void Exchange::begin_stream(WebHeaders headers) {
  std::lock_guard lock(mutex_);
  if (has_answer_) return;
  has_answer_ = true;
  is_stream_ = true;
  is_stream_ended_ = has_hung_up_;
  headers_ = std::move(headers);
  wake();
}

bool Exchange::write(std::string_view text) {
  std::lock_guard lock(mutex_);
  if (connection_ == nullptr || is_stream_ended_) return false;
  const WebOptions& options = books_->options;
  bool is_too_much = unsent_ + text.size() > options.unsent_bytes_max ||
                     books_->unsent_bytes + text.size() > 2 * options.all_unsent_bytes_max;
  if (is_too_much) {
    is_stream_ended_ = true;  // it does not read
    wake();
    return false;
  }
  body_.append(text);
  count_unsent();
  wake();
  return true;
}

void Exchange::end_stream() {
  std::lock_guard lock(mutex_);
  is_stream_ended_ = true;
  wake();
}

void Exchange::when_gone(std::function<void()> call) {
  {
    std::lock_guard lock(mutex_);
    if (connection_ != nullptr) {
      gone_ = std::move(call);
      const MHD_ConnectionInfo* info = MHD_get_connection_info(connection_, MHD_CONNECTION_INFO_CONNECTION_FD);
      if (info == nullptr) return;
      watch_id_ = books_->watch->add(static_cast<int>(info->connect_fd), [waiting = self] {
        if (std::shared_ptr<Exchange> one = waiting.lock()) one->client_hung_up();
      });
      return;
    }
    if (is_whole_) return;
  }
  call();
}

void Exchange::client_hung_up() {
  std::function<void()> call;
  {
    std::lock_guard lock(mutex_);
    call = std::exchange(gone_, nullptr);
    has_hung_up_ = true;
    if (is_stream_) {
      is_stream_ended_ = true;
      wake();
    }
  }
  if (call) call();
}

void Exchange::wait_for_answer() {
  std::lock_guard lock(mutex_);
  is_suspended_ = true;
  MHD_suspend_connection(connection_);
}

MHD_Result Exchange::queue_answer() {
  std::lock_guard lock(mutex_);
  if (!has_answer_) {  // resumed without one: wait on
    is_suspended_ = true;
    MHD_suspend_connection(connection_);
    return MHD_YES;
  }
  MHD_Response* response = nullptr;
  if (is_stream_) {
    auto* kept = new KeptExchange(self.lock());
    response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kStreamBlock, stream_reader, kept, drop_kept);
    if (response == nullptr) delete kept;
  } else {
    // The exchange lives, and does not change its answer, until the library is done with the connection.
    response = MHD_create_response_from_buffer(body_.size(), body_.data(), MHD_RESPMEM_PERSISTENT);
  }
  if (response == nullptr) return MHD_NO;
  for (const auto& [name, value] : headers_) MHD_add_response_header(response, name.c_str(), value.c_str());
  MHD_Result queued = MHD_queue_response(connection_, static_cast<unsigned>(status_), response);
  MHD_destroy_response(response);
  return queued;
}

ssize_t Exchange::read_stream(char* to, std::size_t most) {
  std::lock_guard lock(mutex_);
  std::size_t count = std::min(most, body_.size() - sent_);
  if (count > 0) {
    std::memcpy(to, body_.data() + sent_, count);
    sent_ += count;
    if (sent_ == body_.size()) {
      body_.clear();
      sent_ = 0;
    }
    count_unsent();
    return static_cast<ssize_t>(count);
  }
  if (is_stream_ended_) return MHD_CONTENT_READER_END_OF_STREAM;
  if (connection_ == nullptr) return MHD_CONTENT_READER_END_WITH_ERROR;
  is_suspended_ = true;
  MHD_suspend_connection(connection_);
  return 0;
}

void Exchange::all_sent() {
  std::lock_guard lock(mutex_);
  is_whole_ = true;
}

void Exchange::connection_ended() {
  std::function<void()> call;
  {
    std::lock_guard lock(mutex_);
    connection_ = nullptr;
    is_suspended_ = false;
    books_->watch->remove(watch_id_);
    books_->unsent_bytes -= std::exchange(unsent_, 0);  // nobody will read it
    if (!is_whole_) call = std::move(gone_);
    gone_ = nullptr;
  }
  close_books();
  if (call) call();
}

void Exchange::give_up() {
  std::lock_guard lock(mutex_);
  if (!has_answer_) {
    has_answer_ = true;
    status_ = 503;
  }
  is_stream_ended_ = true;
  wake();
}

// As many descriptors as connections need; otherwise fewer are possible.
void allow_connections(std::size_t connections) {
  constexpr rlim_t kOthers = 256;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= connections + kOthers) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, connections + kOthers);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Status WebServerImpl::open(const HttpAddress& address) {
  std::size_t most = books_->options.connections_max + kConnectionsArriving;
  allow_connections(most);
  listening_ = WARREN_TRY(listen_on(address));
  address_ = address;
  address_.port = WARREN_TRY(port_of_socket(listening_.get()));
  books_->watch = WARREN_TRY(HangupWatch::start());
  daemon_ = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, nullptr,
                             nullptr, &WebServerImpl::on_request, this, MHD_OPTION_LISTEN_SOCKET, listening_.get(),
                             MHD_OPTION_CONNECTION_LIMIT, static_cast<unsigned>(most), MHD_OPTION_CONNECTION_TIMEOUT,
                             books_->options.idle_seconds, MHD_OPTION_NOTIFY_COMPLETED, &WebServerImpl::on_completed,
                             this, MHD_OPTION_NOTIFY_CONNECTION, &WebServerImpl::on_connection, this, MHD_OPTION_END);
  if (daemon_ == nullptr) return Error(Code::kIo, fmt::format("cannot serve HTTP on {}", address_.text()));
  listening_.release();  // the daemon closes it
  return Ok{};
}

void WebServerImpl::stop() {
  if (daemon_ == nullptr) return;
  is_stopping_ = true;
  Fd listening(MHD_quiesce_daemon(daemon_));
  auto until = std::chrono::steady_clock::now() + kEndPatienceWeb;
  std::unique_lock lock(books_->mutex);
  // Also those that arrive on connections that are open already. The library must not have suspended ones at its end.
  while (!books_->open.empty() && std::chrono::steady_clock::now() < until) {
    for (Exchange* one : books_->open) one->give_up();
    books_->ended.wait_for(lock, std::chrono::milliseconds(20));
  }
  for (Exchange* one : books_->open) one->give_up();
  lock.unlock();
  MHD_stop_daemon(daemon_);
  daemon_ = nullptr;
  books_->watch->stop();
}

MHD_Result WebServerImpl::refuse(MHD_Connection* connection, const WebRefusal& refusal) {
  std::string body = refusal.body;
  MHD_Response* response = MHD_create_response_from_buffer(body.size(), body.data(), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  for (const auto& [name, value] : refusal.headers) MHD_add_response_header(response, name.c_str(), value.c_str());
  MHD_add_response_header(response, "Connection", "close");
  MHD_Result queued = MHD_queue_response(connection, static_cast<unsigned>(refusal.status), response);
  MHD_destroy_response(response);
  return queued;
}

MHD_Result WebServerImpl::begin(MHD_Connection* connection, const char* url, const char* method, void** kept) {
  if (is_stopping_) return refuse(connection, {.status = 503, .headers = {}, .body = {}});
  auto exchange = std::make_shared<Exchange>(books_, connection);
  exchange->self = exchange;
  exchange->request.method = method;
  exchange->request.path = url;
  ArrivedHeaders arrived;
  MHD_get_connection_values(connection, MHD_HEADER_KIND, keep_header, &arrived);
  if (std::optional<WebRefusal> ambiguity = find_ambiguity(arrived)) return refuse(connection, *ambiguity);
  exchange->request.headers = std::move(arrived.by_name);
  if (check_) {
    if (std::optional<WebRefusal> refusal = check_(exchange->request)) return refuse(connection, *refusal);
  }
  accept_newcomer(connection);
  std::optional<std::uint64_t> length = parse_number<std::uint64_t>(exchange->request.header("content-length"));
  {
    std::lock_guard lock(books_->mutex);
    books_->open.insert(exchange.get());
  }
  if (length && *length > books_->options.body_bytes_max)
    return refuse(connection, {.status = 413, .headers = {}, .body = {}});
  *kept = new KeptExchange(std::move(exchange));
  return MHD_YES;
}

void WebServerImpl::on_connection(void* self, MHD_Connection* connection, void** kept,
                                  MHD_ConnectionNotificationCode what) {
  auto& server = *static_cast<WebServerImpl*>(self);
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    const MHD_ConnectionInfo* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    auto* made = new Newcomers::Connection{.fd = info == nullptr ? -1 : static_cast<int>(info->connect_fd)};
    *kept = made;
    server.newcomers_.began(*made);
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, server.books_->options.newcomer_seconds);
    return;
  }
  auto* ended = static_cast<Newcomers::Connection*>(*kept);
  if (ended != nullptr) server.newcomers_.ended(*ended);
  delete ended;
  *kept = nullptr;
}

void WebServerImpl::accept_newcomer(MHD_Connection* connection) {
  const MHD_ConnectionInfo* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  auto* one = info == nullptr ? nullptr : static_cast<Newcomers::Connection*>(info->socket_context);
  if (one == nullptr || !newcomers_.accept(*one)) return;
  MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, books_->options.idle_seconds);
}

MHD_Result WebServerImpl::take_body(Exchange& exchange, const char* data, std::size_t size) {
  if (exchange.request.body.size() + size > books_->options.body_bytes_max) return MHD_NO;
  if ((books_->body_bytes += size) > books_->options.bodies_bytes_max) {
    books_->body_bytes -= size;
    return MHD_NO;
  }
  exchange.counted_bytes += size;
  exchange.request.body.append(data, size);
  return MHD_YES;
}

MHD_Result WebServerImpl::on_request(void* self, MHD_Connection* connection, const char* url, const char* method,
                                     const char*, const char* data, std::size_t* size, void** kept) {
  auto& server = *static_cast<WebServerImpl*>(self);
  if (*kept == nullptr) return server.begin(connection, url, method, kept);
  KeptExchange& exchange = *static_cast<KeptExchange*>(*kept);
  if (*size > 0) {
    MHD_Result taken = server.take_body(*exchange, data, *size);
    *size = 0;
    return taken;
  }
  if (exchange->is_dispatched) return exchange->queue_answer();
  exchange->is_dispatched = true;
  exchange->wait_for_answer();
  server.handler_(std::move(exchange->request), exchange);
  return MHD_YES;
}

void WebServerImpl::on_completed(void*, MHD_Connection*, void** kept, MHD_RequestTerminationCode why) {
  if (*kept == nullptr) return;
  auto* exchange = static_cast<KeptExchange*>(*kept);
  if (why == MHD_REQUEST_TERMINATED_COMPLETED_OK) (*exchange)->all_sent();
  (*exchange)->connection_ended();
  delete exchange;
  *kept = nullptr;
}

}  // namespace

std::string_view WebRequest::header(const std::string& name) const {
  auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

Result<std::unique_ptr<WebServer>> WebServer::start(const HttpAddress& address, WebOptions options, WebHandler handler,
                                                    WebHeadCheck check) {
  auto server = std::make_unique<WebServerImpl>(options, std::move(handler), std::move(check));
  WARREN_TRY(server->open(address));
  return std::unique_ptr<WebServer>(std::move(server));
}

}  // namespace warren::net
