// One message through a queue server, unpipelined: put in, taken out, acknowledged, each answer awaited.
#pragma once

#include <cstdint>
#include <string>

namespace bench {

class Connection {
 public:
  explicit Connection(std::uint16_t port);  // of this machine
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void send(const std::string& text);
  std::string read_line();  // without its CRLF
  std::string read_bytes(std::size_t count);

 private:
  void fill();

  int socket_;
  std::string received_;
  std::size_t at_ = 0;
};

// XADD, XREADGROUP, XACK of a stream of its own.
class RedisCycle {
 public:
  RedisCycle(std::uint16_t port, std::size_t client);
  void run(const std::string& body);

 private:
  std::string call(std::initializer_list<std::string> words);

  Connection connection_;
  std::string stream_;
};

// put, reserve, delete in a tube of its own.
class BeanstalkCycle {
 public:
  BeanstalkCycle(std::uint16_t port, std::size_t client);
  void run(const std::string& body);

 private:
  Connection connection_;
};

}  // namespace bench
