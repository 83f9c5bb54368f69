// A real server for tests in other languages: `backend_server redis|postgres|s3`.
//
// Prints a JSON object with its address for `--mount`, in which ${STORE_SECRET} stands for the password and {} for the
// test's own prefix. Then it obeys the lines "kill" (with SIGKILL) and "start", and answers each with "done". It ends
// with its input, and the server with it.
#include <fmt/format.h>

#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>

#include "backends/s3_server.h"
#include "backends/servers.h"
#include "base/json.h"

namespace warren::testing {
namespace {

void obey(const Json& facts, const std::function<void()>& kill, const std::function<void()>& start) {
  std::cout << facts.dump() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "kill") kill();
    else if (line == "start") start();
    else throw std::runtime_error("unknown word " + line);
    std::cout << "done" << std::endl;
  }
}

void serve_redis() {
  RedisServer server({"--appendonly", "yes", "--appendfsync", "always", "--requirepass", "geheim"});
  Json facts{{"address", fmt::format("redis://:${{STORE_SECRET}}@{}/0?prefix={{}}&timeout=5s", server.address())},
             {"secret", "geheim"},
             {"port", server.port()}};
  obey(
      facts, [&] { server.kill(); }, [&] { server.start(); });
}

void serve_postgres() {
  PostgresServer server;
  std::string database = server.new_database();
  Json facts{{"address", server.url(database, "other:${STORE_SECRET}") + "?prefix={}&timeout=5s"},
             {"secret", "geheim"},
             {"port", server.port()},
             {"place", database}};
  obey(
      facts, [&] { server.kill(); }, [&] { server.start(); });
}

void serve_s3() {
  S3Server server;
  std::string bucket = server.new_bucket();
  Json facts{{"address", fmt::format("s3://{}:${{STORE_SECRET}}@{}/{{}}?endpoint=http://127.0.0.1:{}&timeout=5s",
                                     S3Server::kAccessKey, bucket, server.port())},
             {"secret", S3Server::kSecretKey},
             {"port", server.port()},
             {"place", bucket},
             {"user", S3Server::kAccessKey}};
  obey(
      facts, [&] { server.kill(); }, [&] { server.start(); });
}

}  // namespace
}  // namespace warren::testing

int main(int argc, char** argv) {
  std::string kind = argc == 2 ? argv[1] : "";
  try {
    if (kind == "redis") warren::testing::serve_redis();
    else if (kind == "postgres") warren::testing::serve_postgres();
    else if (kind == "s3") warren::testing::serve_s3();
    else throw std::runtime_error("usage: backend_server redis|postgres|s3");
  } catch (const std::exception& failure) {
    std::cerr << "backend_server: " << failure.what() << "\n";
    return 1;
  }
  return 0;
}
