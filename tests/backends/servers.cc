#include "backends/servers.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "os/fd.h"

namespace warren::testing {
namespace {

constexpr int kStartTries = 3000;  // of 20 ms each
constexpr std::chrono::milliseconds kStartPause{20};

void in_child(const std::vector<std::string>& words, const std::string& log, ServerProcess::As as) {
  int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  ::dup2(out, 1);
  ::dup2(out, 2);
  if (as == ServerProcess::As::kNobody && ::getuid() == 0) {
    const passwd* nobody = ::getpwnam("nobody");
    if (nobody == nullptr || ::setgid(nobody->pw_gid) != 0 || ::setuid(nobody->pw_uid) != 0) ::_exit(126);
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::chdir("/") != 0) ::_exit(126);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

pid_t start_program(const std::vector<std::string>& words, const std::string& log, ServerProcess::As as) {
  pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("cannot fork");
  if (pid == 0) in_child(words, log, as);
  return pid;
}

void give_to_nobody(const std::string& path) {
  const passwd* nobody = ::getpwnam("nobody");
  if (::getuid() == 0 && nobody != nullptr && ::chown(path.c_str(), nobody->pw_uid, nobody->pw_gid) != 0) {
    throw std::runtime_error("cannot chown " + path);
  }
}

std::string find_postgres() {
  std::string found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/usr/lib/postgresql", ignored)) {
    std::string bin = entry.path().string() + "/bin/";
    if (std::filesystem::exists(bin + "postgres")) found = std::max(found, bin);
  }
  return found;  // otherwise by PATH
}

}  // namespace

std::uint16_t free_port() {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no free port");
  }
  return ntohs(address.sin_port);
}

ServerProcess::ServerProcess(std::vector<std::string> words, const std::string& log, As as)
    : pid_(start_program(words, log, as)) {}

ServerProcess::~ServerProcess() { kill(SIGKILL); }

ServerProcess::ServerProcess(ServerProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

ServerProcess& ServerProcess::operator=(ServerProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  return *this;
}

bool ServerProcess::is_running() {
  if (pid_ < 0) return false;
  if (::waitpid(pid_, nullptr, WNOHANG) == 0) return true;
  pid_ = -1;
  return false;
}

void ServerProcess::kill(int signal) {
  if (pid_ < 0) return;
  ::kill(pid_, signal);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void run_program(std::vector<std::string> words, const std::string& log, ServerProcess::As as) {
  int status = 0;
  pid_t pid = start_program(words, log, as);
  ::waitpid(pid, &status, 0);
  if (status != 0) throw std::runtime_error(fmt::format("{} failed: {}", words[0], read_text(log)));
}

std::string ask_port(std::uint16_t port, const std::string& request) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return {};
  char buffer[4096];
  pollfd one{fd.get(), POLLIN, 0};
  if (::poll(&one, 1, 5000) <= 0) return {};
  ssize_t got = ::recv(fd.get(), buffer, sizeof buffer, 0);
  return got <= 0 ? std::string() : std::string(buffer, static_cast<std::size_t>(got));
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

RedisServer::RedisServer(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {
  for (int tries = 0;; ++tries) {
    port_ = free_port();
    try {
      start();
      return;
    } catch (const std::runtime_error&) {  // somebody else took the port
      if (tries == 4) throw;
    }
  }
}

RedisServer::~RedisServer() { process_.clear(); }

void RedisServer::kill(int signal) {
  if (!process_.empty()) process_.back().kill(signal);
  process_.clear();
}

void RedisServer::start() {
  process_.clear();
  std::vector<std::string> words{
      "redis-server", "--bind", "127.0.0.1",   "--port", std::to_string(port_), "--dir", dir_.path(),
      "--save",       "",       "--daemonize", "no"};
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  process_.emplace_back(words, dir_.file("log"));
  for (int i = 0; i < kStartTries; ++i) {
    std::string answer = ask("PING");
    if (answer.starts_with("+PONG") || answer.starts_with("-NOAUTH")) return;
    if (!process_.back().is_running()) break;
    std::this_thread::sleep_for(kStartPause);
  }
  throw std::runtime_error("redis-server does not start: " + read_text(dir_.file("log")));
}

PostgresServer::PostgresServer() : programs_(find_postgres()) {
  give_to_nobody(dir_.path());
  run_program({programs_ + "initdb", "-D", dir_.file("data"), "-U", "warren", "-A", "trust", "-E", "UTF8", "--locale=C",
               "--no-instructions"},
              dir_.file("initdb.log"), ServerProcess::As::kNobody);
  std::ofstream(dir_.file("data/pg_hba.conf")) << "local all all trust\n"
                                                  "host all warren 127.0.0.1/32 trust\n"
                                                  "host all all 127.0.0.1/32 scram-sha-256\n";
  port_ = free_port();
  start();
  query("postgres", "CREATE ROLE other LOGIN SUPERUSER PASSWORD 'geheim'");
}

PostgresServer::~PostgresServer() { kill(SIGINT); }

void PostgresServer::kill(int signal) {
  if (!process_.empty()) process_.back().kill(signal);
  process_.clear();
}

// After a kill the new server ends again until the old one's processes have noticed and are gone.
void PostgresServer::start() {
  std::string log = dir_.file("log");
  for (int i = 0; i < kStartTries; ++i) {
    if (process_.empty()) {
      process_.emplace_back(std::vector<std::string>{programs_ + "postgres", "-D", dir_.file("data"), "-k", dir_.path(),
                                                     "-p", std::to_string(port_), "-c", "listen_addresses=127.0.0.1"},
                            log, ServerProcess::As::kNobody);
    }
    pid_t pid = ::fork();
    if (pid == 0)
      in_child({programs_ + "pg_isready", "-q", "-h", "127.0.0.1", "-p", std::to_string(port_)}, "/dev/null",
               ServerProcess::As::kSelf);
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (status == 0) return;
    if (!process_.back().is_running()) process_.clear();
    std::this_thread::sleep_for(kStartPause * 5);
    if (process_.empty() && read_text(log).find("is still in use") == std::string::npos) break;
  }
  throw std::runtime_error("PostgreSQL does not start: " + read_text(log));
}

std::string PostgresServer::url(const std::string& database, const std::string& login) const {
  return fmt::format("postgres://{}@127.0.0.1:{}/{}", login, port_, database);
}

std::string PostgresServer::new_database() {
  std::string name = fmt::format("blobs{}", ++database_count_);
  query("postgres", "CREATE DATABASE " + name);
  return name;
}

std::string PostgresServer::query(const std::string& database, const std::string& sql) {
  std::string out = dir_.file("query.out");
  std::filesystem::remove(out);
  run_program({programs_ + "psql", "-X", "-h", "127.0.0.1", "-p", std::to_string(port_), "-U", "warren", "-d", database,
               "-v", "ON_ERROR_STOP=1", "-Atqc", sql},
              out);
  std::string text = read_text(out);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace warren::testing
