#include "backends/blob_faults.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "testing/matchers.h"

namespace warren::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Instant = std::chrono::steady_clock::time_point;

constexpr seconds kSoon{30};  // far above any timeout here, and far below for ever, on however slow a machine

// A store with a short timeout may need more than one attempt on a busy machine.
template <class Call>
auto eventually(const Call& call) {
  auto result = call();
  Instant until = std::chrono::steady_clock::now() + kSoon;
  while (error_of(result) == Code::kUnavailable && std::chrono::steady_clock::now() < until) result = call();
  return result;
}

std::optional<std::string> text_of(BlobStore& store, const std::string& key) {
  Result<std::optional<Blob>> blob = eventually([&] { return store.get(key); });
  EXPECT_OK(blob);
  if (!blob.ok() || !*blob) return std::nullopt;
  return (*blob)->content;
}

Result<BlobInfo> put_text(BlobStore& store, const std::string& key, const std::string& text) {
  return eventually([&] { return store.put(key, as_bytes(text)); });
}

// Every call fails as unavailable, and in time.
void expect_unavailable(BlobStore& store, const std::string& doubtful) {
  Instant begin = std::chrono::steady_clock::now();
  Result<BlobInfo> put = store.put("doubtful", as_bytes(doubtful));
  EXPECT_EQ(error_of(put), Code::kUnavailable) << (put.ok() ? "it was put" : put.error().message());
  EXPECT_EQ(error_of(store.get("kept")), Code::kUnavailable);
  EXPECT_EQ(error_of(store.get_range("kept", 1, 2)), Code::kUnavailable);
  EXPECT_EQ(error_of(store.find("kept")), Code::kUnavailable);
  EXPECT_EQ(error_of(store.list({})), Code::kUnavailable);
  std::vector<BlobChange> changes{{.key = "doubtful", .content = as_bytes(doubtful), .options = {}}};
  EXPECT_EQ(error_of(store.apply(changes)), Code::kUnavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kSoon);
}

}  // namespace

void expect_faults_are_bounded(BlobStore& store, FaultyProxy& proxy) {
  struct Row {
    const char* name;
    FaultyProxy::Mode mode;
  };
  std::set<std::optional<std::string>> possible{std::nullopt};
  for (const Row& row : {Row{"cut", FaultyProxy::Mode::kCut}, Row{"reset", FaultyProxy::Mode::kReset},
                         Row{"half", FaultyProxy::Mode::kHalf}, Row{"mute", FaultyProxy::Mode::kMute},
                         Row{"hang", FaultyProxy::Mode::kHang}}) {
    SCOPED_TRACE(row.name);
    std::string kept = fmt::format("kept before {}", row.name);
    ASSERT_OK(put_text(store, "kept", kept));
    proxy.set(row.mode);
    std::string doubtful = fmt::format("put during {}", row.name);
    possible.insert(doubtful);
    expect_unavailable(store, doubtful);
    proxy.set(FaultyProxy::Mode::kPass);
    EXPECT_EQ(text_of(store, "kept"), kept);
    EXPECT_TRUE(possible.contains(text_of(store, "doubtful"))) << "whole, or not at all";
    EXPECT_OK(put_text(store, "after", row.name));
    EXPECT_EQ(text_of(store, "after"), row.name);
  }
}

void expect_slow_answers_are_right(BlobStore& store, FaultyProxy& proxy) {
  std::string content(5000, 'x');
  ASSERT_OK(put_text(store, "slow", content));
  proxy.set_pace(1000, milliseconds(1));
  proxy.set(FaultyProxy::Mode::kSlow);
  EXPECT_EQ(text_of(store, "slow"), content);
  proxy.set_pace(1, milliseconds(100));  // each piece arrives in time, the whole would take minutes
  Instant begin = std::chrono::steady_clock::now();
  EXPECT_EQ(error_of(store.get("slow")), Code::kUnavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kSoon);
  proxy.set(FaultyProxy::Mode::kPass);
  EXPECT_EQ(text_of(store, "slow"), content);
}

void expect_nothing_acknowledged_is_lost(const MakeStore& open, const std::function<void()>& kill,
                                         const std::function<void()>& restart) {
  constexpr int kWriters = 4;
  std::unique_ptr<BlobStore> store = open();
  ASSERT_NE(store, nullptr);
  std::atomic<bool> is_over = false;
  std::atomic<int> acknowledged_count = 0;
  std::vector<std::vector<std::string>> acknowledged(kWriters);
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([&, i] {
      for (int n = 0; !is_over; ++n) {
        std::string key = fmt::format("writer{}/{}", i, n);
        Result<BlobInfo> put = store->put(key, as_bytes(key));
        if (put.ok()) {
          acknowledged[static_cast<std::size_t>(i)].push_back(key);
          ++acknowledged_count;
        } else {
          EXPECT_EQ(put.error().code(), Code::kUnavailable) << put.error().message();
          std::this_thread::sleep_for(milliseconds(5));
        }
      }
    });
  }
  auto wait_for = [&](int count) {
    Instant until = std::chrono::steady_clock::now() + kSoon * 2;
    while (acknowledged_count < count && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_GE(acknowledged_count, count) << "it does not work (again)";
  };
  wait_for(100);
  kill();
  int before = acknowledged_count;
  restart();
  wait_for(before + 100);
  is_over = true;
  for (std::thread& writer : writers) writer.join();
  std::unique_ptr<BlobStore> reader = open();
  ASSERT_NE(reader, nullptr);
  for (const auto& keys : acknowledged) {
    for (const std::string& key : keys) ASSERT_EQ(text_of(*reader, key), key);
  }
}

void expect_two_processes_count(const MakeStore& open, int rounds) {
  ASSERT_OK(open()->put("counter", as_bytes("0")));
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid > 0) {
      children.push_back(pid);
      continue;
    }
    std::unique_ptr<BlobStore> store = open();
    for (int done = 0; done < rounds;) {
      Result<std::optional<Blob>> blob = store->get("counter");
      if (!blob.ok() || !*blob) ::_exit(1);
      std::string next = std::to_string(std::stoi((*blob)->content) + 1);
      Result<BlobInfo> put = store->put("counter", as_bytes(next), {.if_match = (*blob)->info.version});
      if (put.ok()) ++done;
      else if (put.error().code() != Code::kConflict) ::_exit(2);
    }
    ::_exit(0);
  }
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(text_of(*open(), "counter"), std::to_string(2 * rounds));
}

}  // namespace warren::testing
