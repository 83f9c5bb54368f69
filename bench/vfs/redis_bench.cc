// Values of 1 KiB in Redis: through our store, and by a bare loop of hiredis beside it. Rounds take turns; the median
// counts.
//
//   redis_bench PORT [OPERATIONS]
#include <hiredis/hiredis.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "backends/blob/redis_blobs.h"

namespace {

constexpr int kRounds = 9;
constexpr int kKeys = 1000;

[[noreturn]] void fail(const std::string& why) {
  fmt::print(stderr, "redis_bench: {}\n", why);
  std::exit(1);
}

// Microseconds for each call of `work`.
double time_of(int count, const std::function<void(int)>& work) {
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) work(i);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / count;
}

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

void compare(const char* name, int count, const std::function<void(int)>& ours, const std::function<void(int)>& bare) {
  std::vector<double> our_times;
  std::vector<double> bare_times;
  for (int round = 0; round < kRounds; ++round) {
    bare_times.push_back(time_of(count, bare));
    our_times.push_back(time_of(count, ours));
  }
  fmt::print("{:<24} {:>8.1f} us {:>8.1f} us {:>6.2f}\n", name, median(our_times), median(bare_times),
             median(our_times) / median(bare_times));
}

void check(redisContext& redis, void* reply) {
  if (reply == nullptr) fail(redis.errstr);
  freeReplyObject(reply);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) fail("usage: redis_bench PORT [OPERATIONS]");
  int port = std::atoi(argv[1]);
  int count = argc > 2 ? std::atoi(argv[2]) : 5000;
  redisContext* redis = redisConnect("127.0.0.1", port);
  if (redis == nullptr || redis->err != 0) fail("cannot connect");
  auto url = warren::parse_url(fmt::format("redis://127.0.0.1:{}?prefix=bench", port));
  warren::SystemClock clock;
  auto store = warren::RedisBlobs::open(*url, std::chrono::seconds(10), clock);
  if (!store.ok()) fail(store.error().message());

  std::string value(1024, 'v');
  auto key = [](int i) { return fmt::format("folder/key{}", i % kKeys); };
  auto bare_put = [&](int i) {
    std::string name = "bare:" + key(i);
    check(*redis, redisCommand(redis, "SET %b %b", name.data(), name.size(), value.data(), value.size()));
  };
  auto bare_get = [&](int i) {
    std::string name = "bare:" + key(i);
    check(*redis, redisCommand(redis, "GET %b", name.data(), name.size()));
  };
  // What our put sends, without our code.
  auto bare_transaction = [&](int i) {
    std::string name = key(i);
    std::string set = "bare:" + name;
    std::string info = "bare;v:" + name;
    std::string about = fmt::format("{:016x}-{:x} 1024 1700000000000000 0", 12345, i);
    redisAppendCommand(redis, "MULTI");
    redisAppendCommand(redis, "MSET %b %b %b %b", set.data(), set.size(), value.data(), value.size(), info.data(),
                       info.size(), about.data(), about.size());
    redisAppendCommand(redis, "ZADD bare;index 0 %b", name.data(), name.size());
    redisAppendCommand(redis, "EXEC");
    for (int replies = 0; replies < 4; ++replies) {
      void* reply = nullptr;
      if (redisGetReply(redis, &reply) != REDIS_OK) fail(redis->errstr);
      check(*redis, reply);
    }
  };
  auto our_put = [&](int i) {
    auto put = (*store)->put(key(i), warren::as_bytes(value));
    if (!put.ok()) fail(put.error().message());
  };
  std::vector<std::string> versions(kKeys);
  auto our_put_if_match = [&](int i) {
    std::string& version = versions[static_cast<std::size_t>(i % kKeys)];
    warren::PutOptions options;
    if (!version.empty()) options.if_match = version;
    auto put = (*store)->put(key(i), warren::as_bytes(value), options);
    if (!put.ok()) fail(put.error().message());
    version = put->version;
  };
  auto our_get = [&](int i) {
    auto got = (*store)->get(key(i));
    if (!got.ok() || !*got) fail("get failed");
  };
  fmt::print("{:<24} {:>11} {:>11} {:>6}\n", "redis, 1 KiB", "warren", "hiredis", "ratio");
  for (int i = 0; i < kKeys; ++i) {
    bare_put(i);
    our_put(i);
  }
  compare("put", count, our_put, bare_put);
  compare("put, same commands", count, our_put, bare_transaction);
  compare("get", count, our_get, bare_get);
  compare("put, only if unchanged", count, our_put_if_match, bare_put);
  redisFree(redis);
  return 0;
}
