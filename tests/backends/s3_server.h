// A real S3 server for tests: Ceph's gateway over a cluster of one monitor and one store in memory, which starts in a
// few seconds and checks signatures; or MinIO, if WARREN_MINIO names its program (minio.py).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/servers.h"
#include "testing/temp_dir.h"

namespace warren::testing {

class S3Server {
 public:
  static constexpr const char* kAccessKey = "WARRENTESTACCESSKEY";
  static constexpr const char* kSecretKey = "geheim/Key+1";  // with the characters that have to be encoded

  S3Server();  // throws if it does not start
  ~S3Server();

  std::uint16_t port() const { return port_; }
  std::string new_bucket();  // its name
  // "s3://ACCESSKEY:SECRET@BUCKET?endpoint=…&MORE". `port`: of a proxy.
  std::string address(const std::string& place, const std::string& more = "", std::uint16_t port = 0) const;

  static bool is_minio();  // its names of objects are paths of files

  void kill();   // with SIGKILL; of Ceph the gateway. What it has acknowledged stays
  void start();  // again, on the same port

 private:
  void write_settings();
  void start_cluster();
  std::vector<std::string> command() const;

  TempDir dir_;
  std::uint16_t monitor_port_ = 0;
  std::uint16_t port_ = 0;
  int bucket_count_ = 0;
  std::vector<ServerProcess> cluster_;
  std::vector<ServerProcess> server_;  // at most one
};

}  // namespace warren::testing
