#include "host/host.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/running.h"
#include "base/base64.h"
#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "os/unix_socket.h"

namespace warren {
namespace {

constexpr std::size_t kIdentifyBytes = 4096;  // of the message by which a client says who it is
constexpr std::size_t kChallengeBytes = 32;
constexpr int kBacklog = 4096;
constexpr int kControlBacklog = 8;
constexpr std::chrono::milliseconds kErrorTime{2'000};

std::string lock_path(const std::string& socket) { return socket + ".lock"; }

// Whoever can rename in the folder can put another socket in the place of ours.
Status check_socket_folder(const std::string& socket) {
  std::string folder(directory_of(socket));
  std::optional<struct stat> there = WARREN_TRY(find_host_file(folder));
  if (!there) return Error(Code::kNotFound, fmt::format("there is no folder {} for the socket", quote(folder)));
  bool is_ours = there->st_uid == ::geteuid() || there->st_uid == 0;
  bool is_open = (there->st_mode & (S_IWGRP | S_IWOTH)) != 0 && (there->st_mode & S_ISVTX) == 0;
  if (is_ours && !is_open) return Ok{};
  return Error(Code::kDenied,
               fmt::format("others could replace a socket in {}: {}", quote(folder),
                           is_ours ? "others than its owner can write there" : "it belongs to another user"),
               "choose a folder of yours with --socket PATH");
}

// kBusy if another process has it. The holder removes the file when it ends, so what was locked may be gone by then.
Result<Fd> take_lock(const std::string& socket) {
  std::string path = lock_path(socket);
  for (;;) {
    Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!lock.is_open()) return system_error(errno, fmt::format("open {}", quote(path)));
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return system_error(errno, fmt::format("lock {}", quote(path)));
      return Error(Code::kBusy, fmt::format("a host is running at {}", quote(socket)),
                   "`warren host down` ends it; `--socket PATH` chooses another place");
    }
    struct stat locked {};
    struct stat there {};
    bool is_same = ::fstat(lock.get(), &locked) == 0 && ::stat(path.c_str(), &there) == 0 &&
                   locked.st_dev == there.st_dev && locked.st_ino == there.st_ino;
    if (is_same) return lock;
  }
}

Result<std::string> new_challenge() {
  std::string bytes(kChallengeBytes, '\0');
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return system_error(errno, "get random bytes");
  }
  return encode_base64(as_bytes(bytes));
}

// A connection is a descriptor.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // otherwise fewer connections are possible
}

Error busy_with_large_messages() { return Error(Code::kBusy, "the host is busy with large messages", "try again"); }

// Best effort: the other side may be gone, and the connection ends anyway.
void send_error(FrameSocket& socket, const Error& error, std::chrono::milliseconds at_most) {
  socket.write(error_head(error), {}, at_most).ignore("the connection ends anyway");
}

}  // namespace

Status HostUse::add_connection(const std::string& agent) {
  std::lock_guard lock(mutex_);
  Used& used = agents_[agent];
  if (used.connections >= limits_.connections_of_agent) {
    return Error(Code::kLimit, fmt::format("an agent has at most {} connections", limits_.connections_of_agent),
                 "close some, or use one for several requests");
  }
  ++used.connections;
  return Ok{};
}

void HostUse::remove_connection(const std::string& agent) {
  std::lock_guard lock(mutex_);
  if (--agents_[agent].connections == 0) agents_.erase(agent);
}

Status HostUse::add_sent(const std::string& agent, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  Used& used = agents_[agent];
  if (bytes_ + bytes > limits_.all_bytes) return busy_with_large_messages();
  if (used.sent + bytes > limits_.sent_bytes) {
    return Error(Code::kBusy, fmt::format("an agent has at most {} bytes on their way at once", limits_.sent_bytes),
                 "wait for the answers to other requests");
  }
  used.sent += bytes;
  bytes_ += bytes;
  return Ok{};
}

void HostUse::remove_sent(const std::string& agent, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  agents_[agent].sent -= bytes;
  bytes_ -= bytes;
}

Status HostUse::add_answer(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes_ + bytes > limits_.all_bytes) return busy_with_large_messages();
  bytes_ += bytes;
  return Ok{};
}

void HostUse::remove_answer(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  bytes_ -= bytes;
}

Status HostUse::begin_request(const std::string& agent) {
  std::unique_lock lock(mutex_);
  Used& used = agents_[agent];  // it stays: this connection is one of its
  auto is_free = [&] { return used.requests < limits_.requests_of_agent; };
  if (!request_ended_.wait_for(lock, limits_.message, is_free)) {
    return Error(Code::kBusy, fmt::format("{} requests of this agent are being answered", limits_.requests_of_agent),
                 "take their answers, and try again");
  }
  ++used.requests;
  return Ok{};
}

void HostUse::end_request(const std::string& agent) {
  std::lock_guard lock(mutex_);
  --agents_[agent].requests;
  request_ended_.notify_all();
}

Result<std::string> host_control_path(std::int64_t pid) {
  std::string folder = WARREN_TRY(runtime_folder());
  return fmt::format("{}/host-{}.sock", folder, pid);
}

Host::Host(HostOptions options, Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      trust_(TrustFile(options_.trust_folder)),
      agents_(options_.folder, options_.only, options_.namespace_of, clock),
      requests_(agents_, trust_, options_.threshold, clock),
      use_(options_.limits) {}

Result<std::unique_ptr<Host>> Host::open(HostOptions options, Clock& clock) {
  std::unique_ptr<Host> host(new Host(std::move(options), clock));
  WARREN_TRY(host->trust_.current());  // a damaged file is reported now, not by refusing everybody
  raise_descriptor_limit();
  WARREN_TRY(host->take_socket());
  host->started_at_ = clock.now().seconds;
  return host;
}

// Whoever has the lock may replace the socket: it was left by a host that was killed.
Status Host::take_socket() {
  WARREN_TRY(check_socket_folder(options_.socket));
  lock_ = WARREN_TRY(take_lock(options_.socket));
  listener_ = WARREN_TRY(listen_unix(options_.socket, options_.users.empty() ? 0600 : 0666, kBacklog));
  control_path_ = WARREN_TRY(host_control_path(::getpid()));
  control_ = WARREN_TRY(listen_unix(control_path_, 0600, kControlBacklog));
  return Ok{};
}

Host::~Host() {
  end_connections();
  if (!lock_.is_open()) return;
  if (listener_.is_open()) ::unlink(options_.socket.c_str());
  if (control_.is_open()) ::unlink(control_path_.c_str());
  ::unlink(lock_path(options_.socket).c_str());
}

Status Host::serve(int stop_fd) {
  for (;;) {
    remove_done();
    std::array<pollfd, 3> waiting{{{.fd = stop_fd, .events = POLLIN, .revents = 0},
                                   {.fd = listener_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = control_.get(), .events = POLLIN, .revents = 0}}};
    int ready = ::poll(waiting.data(), waiting.size(), 1000);  // now and then, to remove threads that have ended
    if (ready < 0 && errno != EINTR) return system_error(errno, "wait for connections");
    if (ready <= 0) continue;
    if (waiting[0].revents != 0) break;
    if (waiting[1].revents != 0) accept_one();
    if (waiting[2].revents != 0) answer_control();
  }
  end_connections();
  return Ok{};
}

std::vector<std::string> Host::take_checkpoints() {
  std::vector<std::string> problems;
  for (const std::string& id : agents_.list_open()) {
    Result<std::shared_ptr<HostedAgent>> agent = agents_.get(id);
    if (!agent.ok() && agent.error().code() == Code::kNotFound) continue;  // deleted meanwhile
    std::vector<std::string> lines;
    if (agent.ok()) lines = (*agent)->take_checkpoint();
    else lines.push_back(fmt::format("no checkpoint was taken: {}", agent.error().message()));
    for (const std::string& line : lines) problems.push_back(fmt::format("agent {}: {}", quote(id), line));
  }
  return problems;
}

bool Host::is_allowed_user(uid_t uid) const {
  if (uid == 0 || uid == ::geteuid()) return true;
  return std::ranges::find(options_.users, uid) != options_.users.end();
}

void Host::accept_one() {
  Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.is_open()) return pause_without_descriptors();
  auto connection = std::make_unique<Connection>(std::move(fd));
  Result<PeerProcess> peer = peer_process(connection->socket.fd());
  if (!peer.ok() || !is_allowed_user(peer->uid)) {
    ++refused_clients_;
    send_error(connection->socket, Error(Code::kDenied, "this host does not serve your user"), kErrorTime);
    return;
  }
  make_room_for_unidentified();
  if (connections_.size() >= options_.limits.connections) {
    ++refused_clients_;
    send_error(connection->socket, Error(Code::kLimit, "the host has too many connections", "try again later"),
               kErrorTime);
    return;
  }
  Connection& made = *connection;
  connections_.push_back(std::move(connection));
  try {
    made.thread = std::thread([this, &made] {
      serve_connection(made);
      made.is_done = true;
    });
  } catch (const std::system_error&) {
    send_error(made.socket, Error(Code::kLimit, "the host cannot start a thread", "try again later"), kErrorTime);
    connections_.pop_back();
  }
}

// Whoever proves at once who it is gets in, however many others do not: the oldest of those that have not makes room.
void Host::make_room_for_unidentified() {
  Connection* oldest = nullptr;
  std::size_t count = 0;
  for (const auto& one : connections_) {
    if (one->is_identified || one->is_done || one->is_dropped) continue;
    if (oldest == nullptr) oldest = one.get();
    ++count;
  }
  if (count < options_.limits.unidentified) return;
  ++refused_clients_;
  oldest->is_dropped = true;
  oldest->socket.close_both();
}

// After accept4(): the connection stays in the queue, and poll() would return at once.
void Host::pause_without_descriptors() {
  if (errno != EMFILE && errno != ENFILE && errno != ENOMEM) return;
  remove_done();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

void Host::remove_done() {
  std::erase_if(connections_, [](const std::unique_ptr<Connection>& one) {
    if (!one->is_done) return false;
    one->thread.join();
    return true;
  });
}

// What is being answered may be answered; who does not take the answer in time is cut off.
void Host::end_connections() {
  is_ending_ = true;
  for (const auto& one : connections_) one->socket.interrupt();
  auto until = std::chrono::steady_clock::now() + options_.limits.grace;
  while (!connections_.empty() && std::chrono::steady_clock::now() < until) {
    remove_done();
    if (!connections_.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (const auto& one : connections_) one->socket.close_both();
  for (const auto& one : connections_) one->thread.join();
  connections_.clear();
}

Json Host::status() {
  auto identified = std::ranges::count_if(connections_, [](const auto& one) { return one->is_identified.load(); });
  return {{"ok", true},
          {"pid", ::getpid()},
          {"socket", options_.socket},
          {"folder", options_.folder},
          {"threshold", options_.threshold},
          {"started_at", started_at_},
          {"open_agents", agents_.open_count()},
          {"connections", connections_.size()},
          {"identified", identified},
          {"requests", served_requests_.load()},
          {"refused", refused_clients_.load()},
          {"trust_is_readable", trust_.current().ok()}};
}

void Host::answer_control() {
  Fd fd(::accept4(control_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.is_open()) return pause_without_descriptors();
  FrameSocket socket(std::move(fd));
  Json found = status();
  socket.write(found, {}, kErrorTime).ignore("whoever asked is gone");
}

void Host::serve_connection(Connection& connection) {
  HostClientIdentity client;
  Status served = greet(connection, client);
  if (served.ok()) {
    served = serve_requests(connection, client);
    use_.remove_connection(client.agent);
  } else {
    ++refused_clients_;
  }
  if (!served.ok()) send_error(connection.socket, served.error(), kErrorTime);
  connection.socket.close_both();
}

Status Host::greet(Connection& connection, HostClientIdentity& client) {
  std::string challenge = WARREN_TRY(new_challenge());
  auto time = options_.limits.identify;
  WARREN_TRY(connection.socket.write({{"warren_host", kHostProtocol}, {"challenge", challenge}}, {}, time));
  std::optional<Frame> frame = WARREN_TRY(
      connection.socket.read({.head_bytes = kIdentifyBytes, .body_bytes = 0, .first_byte = time, .rest = time}));
  if (!frame) return Error(Code::kInvalid, "the connection was closed before the agent was named");
  auto text = [&](const char* name) {
    auto member = frame->head.find(name);
    return member != frame->head.end() && member->is_string() ? member->get<std::string>() : std::string();
  };
  std::optional<Ed25519Signature> signature = Ed25519Signature::parse(text("signature"));
  if (text("op") != "identify" || !signature) {
    return Error(Code::kInvalid,
                 "the first message must be 'identify', with 'agent' and 'signature' (64 bytes in base64)");
  }
  client = WARREN_TRY(requests_.identify(text("agent"), *signature, challenge));
  WARREN_TRY(use_.add_connection(client.agent));
  connection.is_identified = true;
  Status answered = connection.socket.write({{"ok", true}}, {}, options_.limits.message);
  if (!answered.ok()) use_.remove_connection(client.agent);
  return answered;
}

Status Host::serve_requests(Connection& connection, const HostClientIdentity& client) {
  for (;;) {
    std::size_t admitted = 0;
    FrameSocket::ReadLimits limits{.rest = options_.limits.message};
    limits.admit = [&](std::size_t bytes) -> Status {
      WARREN_TRY(requests_.check_standing(client));
      WARREN_TRY(use_.add_sent(client.agent, bytes));
      admitted = bytes;
      return Ok{};
    };
    Result<std::optional<Frame>> frame = connection.socket.read(limits);
    if (is_ending_ && frame.ok()) frame = std::optional<Frame>();  // it was sent before we stopped reading
    Status answered = Ok{};
    if (!frame.ok()) answered = std::move(frame).take_error();
    else if (*frame) answered = answer_one(connection, client, **frame);
    use_.remove_sent(client.agent, admitted);
    WARREN_TRY(std::move(answered));
    if (!*frame) return Ok{};
  }
}

// An error ends the connection; one of the request alone is an answer.
Status Host::answer_one(Connection& connection, const HostClientIdentity& client, const Frame& request) {
  Status begun = use_.begin_request(client.agent);
  if (!begun.ok()) return connection.socket.write(error_head(begun.error()), {}, options_.limits.message);
  Status answered = requests_.check_standing(client);
  if (answered.ok()) answered = send_answer(connection, requests_.run(client, request));
  use_.end_request(client.agent);
  return answered;
}

Status Host::send_answer(Connection& connection, const Result<Frame>& answer) {
  ++served_requests_;
  auto time = options_.limits.message;
  if (!answer.ok()) return connection.socket.write(error_head(answer.error()), {}, time);
  Status admitted = use_.add_answer(answer->body.size());
  if (!admitted.ok()) return connection.socket.write(error_head(admitted.error()), {}, time);
  Status sent = connection.socket.write(answer->head, answer->body, time);
  use_.remove_answer(answer->body.size());
  return sent;
}

}  // namespace warren
