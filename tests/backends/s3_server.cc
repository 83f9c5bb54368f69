#include "backends/s3_server.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>

#include "backends/blob/s3_api.h"
#include "base/percent.h"

namespace warren::testing {
namespace {

constexpr int kServerTries = 600;  // of 100 ms each

std::string new_uuid() { return read_text("/proc/sys/kernel/random/uuid").substr(0, 36); }

}  // namespace

S3Server::S3Server() {
  ::setenv("no_proxy", "127.0.0.1", 1);  // whatever the tester's environment says
  port_ = free_port();
  if (is_minio()) {
    ::setenv("MINIO_ROOT_USER", kAccessKey, 1);
    ::setenv("MINIO_ROOT_PASSWORD", kSecretKey, 1);
    ::setenv("MINIO_BROWSER", "off", 1);
    ::setenv("MINIO_UPDATE", "off", 1);
    start();
    return;
  }
  monitor_port_ = free_port();
  write_settings();
  start_cluster();
  start();
  run_program(
      {"radosgw-admin", "-c", dir_.file("ceph.conf"), "-n", "client.rgw", "user", "create", "--uid=test",
       "--display-name=test", fmt::format("--access-key={}", kAccessKey), fmt::format("--secret-key={}", kSecretKey)},
      dir_.file("user.log"));
}

S3Server::~S3Server() {
  server_.clear();
  while (!cluster_.empty()) cluster_.pop_back();
}

bool S3Server::is_minio() { return std::getenv("WARREN_MINIO") != nullptr; }

std::vector<std::string> S3Server::command() const {
  if (!is_minio()) return {"radosgw", "-c", dir_.file("ceph.conf"), "-n", "client.rgw", "-f"};
  return {std::getenv("WARREN_MINIO"), "server", "--quiet", "--address", fmt::format("127.0.0.1:{}", port_),
          dir_.file("objects")};
}

// The intervals of the monitor are short, because each of the gateway's pools costs it a few rounds.
void S3Server::write_settings() {
  std::ofstream(dir_.file("ceph.conf")) << fmt::format(
      "[global]\nfsid = {0}\nmon host = v2:127.0.0.1:{1}\nmon initial members = a\nkeyring = {2}/keyring\n"
      "mon data = {2}/mon\nosd data = {2}/osd\nrun dir = {2}\nadmin socket =\npid file =\nlog file = {2}/$name.log\n"
      "auth cluster required = cephx\nauth service required = cephx\nauth client required = cephx\n"
      "ms bind ipv6 = false\nosd pool default size = 1\nosd pool default min size = 1\nosd pool default pg num = 1\n"
      "osd pool default pgp num = 1\nosd pool default pg autoscale mode = off\nosd crush chooseleaf type = 0\n"
      "mon allow pool size one = true\nmon max pg per osd = 1000\nmon warn on pool no redundancy = false\n"
      "paxos propose interval = 0.02\npaxos min wait = 0.01\nmon tick interval = 1\nosd heartbeat interval = 1\n"
      "osd client watch timeout = 2\n"
      "osd objectstore = memstore\nmemstore device bytes = 2147483648\n"
      "[client.rgw]\nrgw frontends = beast endpoint=127.0.0.1:{3} tcp_nodelay=1\nrgw thread pool size = 32\n",
      new_uuid(), monitor_port_, dir_.path(), port_);
}

void S3Server::start_cluster() {
  std::string settings = dir_.file("ceph.conf");
  std::string keys = dir_.file("keyring");
  std::string log = dir_.file("setup.log");
  std::string store_id = new_uuid();
  for (const char* name : {"mon.", "client.admin", "osd.0", "client.rgw"}) {
    run_program({"ceph-authtool", "--create-keyring", keys + "." + name, "--gen-key", "-n", name, "--cap", "mon",
                 "allow *", "--cap", "osd", "allow *"},
                log);
    std::ofstream(keys, std::ios::app) << read_text(keys + "." + name);
  }
  std::filesystem::create_directory(dir_.file("mon"));
  std::filesystem::create_directory(dir_.file("osd"));
  run_program({"ceph-mon", "-c", settings, "-i", "a", "--mkfs", "--keyring", keys}, log);
  cluster_.emplace_back(std::vector<std::string>{"ceph-mon", "-c", settings, "-i", "a", "-f"}, dir_.file("mon.out"));
  run_program({"ceph", "-c", settings, "--connect-timeout", "60", "osd", "new", store_id, "0"}, log);
  run_program({"ceph-osd", "-c", settings, "-i", "0", "--mkfs", "--osd-uuid", store_id, "--keyring", keys}, log);
  cluster_.emplace_back(std::vector<std::string>{"ceph-osd", "-c", settings, "-i", "0", "-f"}, dir_.file("osd.out"));
}

void S3Server::kill() {
  if (!server_.empty()) server_.back().kill(SIGKILL);
  server_.clear();
}

void S3Server::start() {
  server_.clear();
  server_.emplace_back(command(), dir_.file("server.out"));
  for (int i = 0; i < kServerTries; ++i) {
    // MinIO answers before it is ready.
    std::string answer = ask_port(
        port_, is_minio() ? "GET /minio/health/cluster HTTP/1.0\r\nHost: localhost\r\n\r\n" : "GET / HTTP/1.0\r\n\r\n");
    if (answer.starts_with("HTTP/1.") && (!is_minio() || answer.find(" 200 ") != std::string::npos)) return;
    if (!server_.back().is_running()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  throw std::runtime_error("the S3 server does not start: " + read_text(dir_.file("server.out")));
}

std::string S3Server::address(const std::string& place, const std::string& more, std::uint16_t port) const {
  return fmt::format("s3://{}:{}@{}?endpoint=http://127.0.0.1:{}{}{}", kAccessKey, encode_percent(kSecretKey), place,
                     port == 0 ? port_ : port, more.empty() ? "" : "&", more);
}

std::string S3Server::new_bucket() {
  std::string name = fmt::format("bucket-{}", ++bucket_count_);
  SystemClock clock;
  S3Api api(
      read_s3_settings({.address = address(name), .timeout = std::chrono::seconds(60)}, process_environment()).value(),
      HttpClient::open().value(), clock);
  Result<S3Answer> answer = api.send({.method = "PUT", .key = {}}, api.deadline_for(0));
  if (!answer.ok()) throw std::runtime_error("no bucket: " + answer.error().message());
  if (!answer->is_success()) throw std::runtime_error("no bucket: " + api.failure(*answer).message());
  return name;
}

}  // namespace warren::testing
