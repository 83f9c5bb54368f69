// Servers that a test starts for itself, each on a free port of 127.0.0.1 and in a temporary directory, and that end
// with it. What cannot start throws, which fails the test.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "testing/temp_dir.h"

namespace warren::testing {

std::uint16_t free_port();

// A program that runs until kill() or the destructor.
class ServerProcess {
 public:
  enum class As { kSelf, kNobody };  // kNobody changes nothing unless we are root

  ServerProcess(std::vector<std::string> words, const std::string& log, As as = As::kSelf);
  ~ServerProcess();
  ServerProcess(ServerProcess&& other) noexcept;
  ServerProcess& operator=(ServerProcess&& other) noexcept;

  bool is_running();
  void kill(int signal);  // and waits for its end

 private:
  pid_t pid_ = -1;
};

// Runs a program to its end; throws if it fails.
void run_program(std::vector<std::string> words, const std::string& log,
                 ServerProcess::As as = ServerProcess::As::kSelf);

// Sends `request` and returns what comes back first, or nothing.
std::string ask_port(std::uint16_t port, const std::string& request);

std::string read_text(const std::string& path);

class RedisServer {
 public:
  explicit RedisServer(std::vector<std::string> arguments = {});
  ~RedisServer();

  std::uint16_t port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  void kill(int signal = SIGKILL);
  void start();  // again, on the same port and directory

  // The first line of the answer to an inline command.
  std::string ask(const std::string& command) const { return ask_port(port_, command + "\r\n"); }

 private:
  TempDir dir_;
  std::vector<std::string> arguments_;
  std::uint16_t port_ = 0;
  std::vector<ServerProcess> process_;  // at most one
};

// Role "warren" may do everything without a password; role "other" needs the password "geheim".
class PostgresServer {
 public:
  PostgresServer();
  ~PostgresServer();

  std::uint16_t port() const { return port_; }
  std::string url(const std::string& database, const std::string& login = "warren") const;
  std::string new_database();  // its name
  std::string query(const std::string& database, const std::string& sql);
  void kill(int signal = SIGKILL);
  void start();

 private:
  TempDir dir_;
  std::string programs_;
  std::uint16_t port_ = 0;
  int database_count_ = 0;
  std::vector<ServerProcess> process_;
};

}  // namespace warren::testing
