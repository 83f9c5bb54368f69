#include "rivals.h"

#include <array>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "files.h"

namespace bench {
namespace {

[[noreturn]] void fail(const std::string& answer) {
  fmt::print(stderr, "the server answered: {}\n", answer);
  std::exit(1);
}

// The leaves of an answer in Redis's protocol, in their order.
void read_redis(Connection& from, std::vector<std::string>& leaves) {
  std::string line = from.read_line();
  std::string rest = line.substr(std::min<std::size_t>(1, line.size()));
  if (line.starts_with('+') || line.starts_with(':')) {
    leaves.push_back(rest);
  } else if (line.starts_with('$') && rest != "-1") {
    leaves.push_back(from.read_bytes(std::stoul(rest)));
    from.read_line();
  } else if (line.starts_with('*') && rest != "-1") {
    for (std::size_t left = std::stoul(rest); left > 0; --left) read_redis(from, leaves);
  } else {
    fail(line);
  }
}

}  // namespace

Connection::Connection(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  must(socket_ >= 0, "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  must(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "connect");
  int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Connection::~Connection() { ::close(socket_); }

void Connection::send(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    ssize_t sent = ::send(socket_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    must(sent > 0, "send");
    done += static_cast<std::size_t>(sent);
  }
}

void Connection::fill() {
  received_.erase(0, at_);
  at_ = 0;
  std::array<char, 16'384> buffer;
  ssize_t got = ::recv(socket_, buffer.data(), buffer.size(), 0);
  must(got > 0, "receive");
  received_.append(buffer.data(), static_cast<std::size_t>(got));
}

std::string Connection::read_line() {
  std::size_t end = received_.find("\r\n", at_);
  while (end == received_.npos) {
    fill();
    end = received_.find("\r\n", at_);
  }
  std::string line = received_.substr(at_, end - at_);
  at_ = end + 2;
  return line;
}

std::string Connection::read_bytes(std::size_t count) {
  while (received_.size() - at_ < count) fill();
  std::string bytes = received_.substr(at_, count);
  at_ += count;
  return bytes;
}

RedisCycle::RedisCycle(std::uint16_t port, std::size_t client)
    : connection_(port), stream_(fmt::format("stream{}", client)) {
  call({"XGROUP", "CREATE", stream_, "group", "$", "MKSTREAM"});
}

// The second leaf of the answer, or the only one: the id, of an entry that was read.
std::string RedisCycle::call(std::initializer_list<std::string> words) {
  std::string text = fmt::format("*{}\r\n", words.size());
  for (const std::string& word : words) text += fmt::format("${}\r\n{}\r\n", word.size(), word);
  connection_.send(text);
  std::vector<std::string> leaves;
  read_redis(connection_, leaves);
  if (leaves.empty()) fail("nothing");
  return leaves[std::min<std::size_t>(1, leaves.size() - 1)];
}

void RedisCycle::run(const std::string& body) {
  std::string added = call({"XADD", stream_, "*", "body", body});
  std::string read = call({"XREADGROUP", "GROUP", "group", "me", "COUNT", "1", "BLOCK", "0", "STREAMS", stream_, ">"});
  if (read != added) fail("another message than the one that was sent");
  if (call({"XACK", stream_, "group", read}) != "1") fail("not acknowledged");
}

BeanstalkCycle::BeanstalkCycle(std::uint16_t port, std::size_t client) : connection_(port) {
  connection_.send(fmt::format("use tube{0}\r\nwatch tube{0}\r\nignore default\r\n", client));
  for (int answer = 0; answer < 3; ++answer) connection_.read_line();
}

void BeanstalkCycle::run(const std::string& body) {
  connection_.send(fmt::format("put 100 0 60 {}\r\n{}\r\n", body.size(), body));
  std::string put = connection_.read_line();
  if (!put.starts_with("INSERTED ")) fail(put);
  connection_.send("reserve\r\n");
  std::string reserved = connection_.read_line();
  if (!reserved.starts_with("RESERVED ")) fail(reserved);
  connection_.read_bytes(body.size());
  connection_.read_line();
  connection_.send(fmt::format("delete {}\r\n", put.substr(9)));
  std::string deleted = connection_.read_line();
  if (deleted != "DELETED") fail(deleted);
}

}  // namespace bench
