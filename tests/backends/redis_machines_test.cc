// The Redis store where Redis runs on several machines: sentinels and clusters of real servers.
#include <atomic>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/blob/blob_suite_testing.h"
#include "backends/open_backend.h"
#include "backends/servers.h"
#include "testing/matchers.h"

namespace warren::testing {
namespace {

using std::chrono::milliseconds;

SystemClock& machine_clock() {
  static SystemClock clock;
  return clock;
}

std::unique_ptr<BlobStore> open_on_machines(const std::string& address) {
  Result<std::unique_ptr<BlobStore>> store = open_blob_store(address, {.clock = machine_clock()});
  EXPECT_OK(store);
  return store.ok() ? std::move(store).take_value() : nullptr;
}

// Until `is_so`; throws when it does not become so.
void wait_until(const std::string& what, const std::function<bool()>& is_so) {
  for (int i = 0; i < 3000; ++i) {
    if (is_so()) return;
    std::this_thread::sleep_for(milliseconds(20));
  }
  throw std::runtime_error("does not happen: " + what);
}

std::string redis_cli(std::uint16_t port, std::vector<std::string> words) {
  TempDir dir;
  std::vector<std::string> all{"redis-cli", "-h", "127.0.0.1", "-p", std::to_string(port)};
  all.insert(all.end(), words.begin(), words.end());
  run_program(all, dir.file("out"));
  return read_text(dir.file("out"));
}

// A master, a replica and three sentinels.
class Sentinels {
 public:
  Sentinels() : replica_({"--replicaof", "127.0.0.1", std::to_string(master_.port())}) {
    wait_until("the replica is in step",
               [&] { return master_.ask("INFO replication").find("state=online") != std::string::npos; });
    for (std::uint16_t& port : ports_) {
      port = free_port();
      std::string config = dir_.file(fmt::format("sentinel{}.conf", port));
      std::string text = fmt::format(
          "bind 127.0.0.1\nport {}\ndir {}\nsentinel monitor fleet 127.0.0.1 {} 2\n"
          "sentinel down-after-milliseconds fleet 500\nsentinel failover-timeout fleet 3000\n",
          port, dir_.path(), master_.port());
      std::ofstream(config) << text;
      processes_.emplace_back(std::vector<std::string>{"redis-server", config, "--sentinel"}, config + ".log");
    }
    for (std::uint16_t port : ports_) {
      wait_until("the sentinels know each other and the replica", [port] {
        std::string about = ask_port(port, "INFO sentinel\r\n");
        return about.find("slaves=1,sentinels=3") != std::string::npos;
      });
    }
  }

  std::string address() const {
    return fmt::format("redis+sentinel://127.0.0.1:{},127.0.0.1:{},127.0.0.1:{}/fleet/0", ports_[0], ports_[1],
                       ports_[2]);
  }
  RedisServer& master() { return master_; }
  RedisServer& replica() { return replica_; }
  void kill_sentinel(std::size_t index) { processes_[index].kill(SIGKILL); }

 private:
  RedisServer master_;
  RedisServer replica_;
  TempDir dir_;
  std::uint16_t ports_[3] = {};
  std::vector<ServerProcess> processes_;
};

TEST(RedisSentinel, FollowsTheMasterAfterAFailover) {
  Sentinels sentinels;
  auto store = open_on_machines(sentinels.address());
  ASSERT_OK(store->put("a", as_bytes("before")));
  wait_until("the replica has it", [&] { return sentinels.replica().ask("GET warren:a") == "$6\r\nbefore\r\n"; });
  sentinels.kill_sentinel(0);
  sentinels.master().kill();
  Result<BlobInfo> put = store->put("b", as_bytes("after"));
  wait_until("another master", [&] {
    if (put.ok()) return true;
    EXPECT_EQ(put.error().code(), Code::kUnavailable) << put.error().message();
    put = store->put("b", as_bytes("after"));
    return put.ok();
  });
  auto blob = store->get("a");
  ASSERT_OK(blob);
  ASSERT_TRUE(*blob);
  EXPECT_EQ((*blob)->content, "before");
  EXPECT_EQ(sentinels.replica().ask("GET warren:b"), "$5\r\nafter\r\n");
}

TEST(RedisSentinel, AnUnknownMasterIsNamed) {
  Sentinels sentinels;
  std::string address = sentinels.address();
  address.replace(address.find("fleet"), 5, "wrong");
  auto store = open_on_machines(address);
  auto got = store->get("a");
  ASSERT_EQ(error_of(got), Code::kNotFound);
  EXPECT_NE(got.error().message().find("wrong"), std::string::npos);
}

// Three masters, with all slots.
class Cluster {
 public:
  Cluster() {
    std::vector<std::string> words{"--cluster", "create"};
    for (RedisServer& node : nodes_) words.push_back(node.address());
    words.insert(words.end(), {"--cluster-replicas", "0", "--cluster-yes"});
    redis_cli(nodes_[0].port(), words);
    for (RedisServer& node : nodes_) {
      wait_until("the cluster is up",
                 [&] { return node.ask("CLUSTER INFO").find("cluster_state:ok") != std::string::npos; });
    }
  }

  RedisServer& operator[](std::size_t index) { return nodes_[index]; }
  std::string address(const std::string& prefix) const {
    return fmt::format("redis+cluster://{},{}?prefix={}", nodes_[0].address(), nodes_[1].address(), prefix);
  }
  // Which node has the slot of a prefix.
  std::size_t owner(const std::string& prefix) {
    for (std::size_t i = 0; i < 3; ++i) {
      if (!nodes_[i].ask(fmt::format("GET {{{}}}:x", prefix)).starts_with("-MOVED")) return i;
    }
    throw std::runtime_error("no node has the slot");
  }

 private:
  // The bus port is 10000 above the port, which must not exceed 65535.
  static std::vector<std::string> arguments() {
    return {"--cluster-enabled",        "yes", "--cluster-node-timeout", "2000", "--cluster-port",
            std::to_string(free_port())};
  }
  RedisServer nodes_[3] = {RedisServer(arguments()), RedisServer(arguments()), RedisServer(arguments())};
};

Cluster& shared_cluster() {
  static Cluster cluster;
  return cluster;
}

int cluster_count = 0;

INSTANTIATE_TEST_SUITE_P(
    RedisCluster, BlobStoreTest,
    ::testing::Values(BlobSuiteCase{
        .name = "cluster",
        .make =
            [] {
              ++cluster_count;
              return open_on_machines(shared_cluster().address(fmt::format("t{}", cluster_count)));
            },
        .open_again = [] { return open_on_machines(shared_cluster().address(fmt::format("t{}", cluster_count))); },
        .many_keys = 2000}),
    name_of_case);

TEST(RedisCluster, EachPrefixIsServedByTheNodeThatHasIt) {
  Cluster& cluster = shared_cluster();
  std::size_t nodes_used[3] = {};
  for (int i = 0; i < 12; ++i) {
    std::string prefix = fmt::format("agent{}", i);
    auto store = open_on_machines(cluster.address(prefix));
    ASSERT_OK(store->put("x", as_bytes(prefix)));
    std::size_t owner = cluster.owner(prefix);
    ++nodes_used[owner];
    EXPECT_EQ(cluster[owner].ask(fmt::format("GET {{{}}}:x", prefix)),
              fmt::format("${}\r\n{}\r\n", prefix.size(), prefix));
  }
  for (std::size_t used : nodes_used) EXPECT_GT(used, 0U);
}

TEST(RedisCluster, ASlotThatMovesIsFollowed) {
  Cluster& cluster = shared_cluster();
  // While the slot moves, writes wait; on a busy machine longer than usual.
  auto store = open_on_machines(cluster.address("mover") + "&timeout=5m");
  for (int i = 0; i < 50; ++i) ASSERT_OK(store->put(fmt::format("k{}", i), as_bytes("x")));
  std::size_t from = cluster.owner("mover");
  std::size_t to = (from + 1) % 3;
  std::string slot = redis_cli(cluster[from].port(), {"CLUSTER", "KEYSLOT", "{mover}:x"});
  slot = slot.substr(0, slot.find('\n'));
  auto id = [&](std::size_t node) { return redis_cli(cluster[node].port(), {"CLUSTER", "MYID"}).substr(0, 40); };
  std::atomic<bool> is_over = false;
  std::atomic<int> done = 0;
  std::thread writer([&] {
    for (int n = 0; !is_over || done == 0; ++n) {
      Result<BlobInfo> put = store->put(fmt::format("w{}", n), as_bytes("y"));
      EXPECT_OK(put);
      if (!put.ok()) return;
      ++done;
    }
  });
  redis_cli(cluster[to].port(), {"CLUSTER", "SETSLOT", slot, "IMPORTING", id(from)});
  redis_cli(cluster[from].port(), {"CLUSTER", "SETSLOT", slot, "MIGRATING", id(to)});
  for (;;) {
    std::string keys = redis_cli(cluster[from].port(), {"CLUSTER", "GETKEYSINSLOT", slot, "100"});
    std::vector<std::string> words{"MIGRATE", "127.0.0.1", std::to_string(cluster[to].port()), "", "0", "5000", "KEYS"};
    std::istringstream lines(keys);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) words.push_back(line);
    }
    if (words.size() == 7) break;
    redis_cli(cluster[from].port(), words);
  }
  for (std::size_t node : {to, from, (from + 2) % 3}) {
    redis_cli(cluster[node].port(), {"CLUSTER", "SETSLOT", slot, "NODE", id(to)});
  }
  is_over = true;
  writer.join();
  EXPECT_EQ(cluster.owner("mover"), to);
  ASSERT_OK(store->put("last", as_bytes("z")));
  std::size_t count = 0;
  ListOptions options;
  do {
    auto page = store->list(options);
    ASSERT_OK(page);
    count += page->blobs.size();
    options.after = page->next;
  } while (!options.after.empty());
  EXPECT_EQ(count, 51U + static_cast<std::size_t>(done));
}

TEST(RedisCluster, ANodeOfItAsAPlainServerIsRefusedWithTheRightAddress) {
  auto store = open_on_machines(fmt::format("redis://{}", shared_cluster()[0].address()));
  Result<std::optional<Blob>> got = store->get("a");
  ASSERT_EQ(error_of(got), Code::kInvalid);
  EXPECT_NE(got.error().hint().find("redis+cluster://"), std::string::npos);
}

}  // namespace
}  // namespace warren::testing
