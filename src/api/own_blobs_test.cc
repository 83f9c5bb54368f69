#include "api/own_blobs.h"

#include <map>
#include <mutex>
#include <stdexcept>

#include "backends/blob/blob_suite_testing.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"

namespace warren::testing {
namespace {

FakeClock& own_clock() {
  static FakeClock clock;
  return clock;
}

// A store as a user of the library would write it.
class Shelf : public v1::BlobStore {
 public:
  std::string name() const override { return "shelf"; }
  v1::BlobAbilities abilities() const override {
    return {.conditional_puts = true, .time_to_live = true, .lasts = false};
  }

  Result<std::optional<v1::Blob>> get(std::string_view key) override {
    std::lock_guard lock(mutex_);
    auto found = find_live(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

  Result<v1::BlobInfo> put(std::string_view key, std::string_view content, const v1::PutOptions& options) override {
    std::lock_guard lock(mutex_);
    auto found = find_live(key);
    bool exists = found != values_.end();
    if (options.if_absent && exists) return Error(Code::kExists, "it has a value");
    if (options.if_match && (!exists || found->second.info.version != *options.if_match)) {
      return Error(Code::kConflict, "another writer was faster");
    }
    v1::BlobInfo info{.key = std::string(key), .size = content.size(), .version = std::to_string(++last_version_)};
    info.modified_ms = now_ms();
    if (options.time_to_live) {
      std::int64_t at = 0;
      bool is_never = __builtin_add_overflow(now_ms(), std::int64_t{options.time_to_live->count()}, &at);
      if (!is_never) info.expires_at_ms = at;
    }
    values_.insert_or_assign(std::string(key), v1::Blob{.info = info, .content = std::string(content)});
    return info;
  }

  Result<bool> remove(std::string_view key) override {
    std::lock_guard lock(mutex_);
    auto found = find_live(key);
    if (found == values_.end()) return false;
    values_.erase(found);
    return true;
  }

  Result<std::vector<v1::BlobInfo>> list(std::string_view prefix, std::string_view from, std::size_t limit) override {
    std::lock_guard lock(mutex_);
    std::vector<v1::BlobInfo> found;
    for (auto it = values_.lower_bound(from < prefix ? prefix : from); it != values_.end(); ++it) {
      if (!it->first.starts_with(prefix) || found.size() == limit) break;
      if (is_live(it->second)) found.push_back(it->second.info);
    }
    return found;
  }

 private:
  using Values = std::map<std::string, v1::Blob, std::less<>>;

  static std::int64_t now_ms() { return own_clock().now_us() / 1000; }
  static bool is_live(const v1::Blob& blob) { return !blob.info.expires_at_ms || *blob.info.expires_at_ms > now_ms(); }
  Values::iterator find_live(std::string_view key) {
    auto found = values_.find(key);
    return found == values_.end() || is_live(found->second) ? found : values_.end();
  }

  std::mutex mutex_;
  Values values_;
  std::uint64_t last_version_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Own, BlobStoreTest,
                         ::testing::Values(BlobSuiteCase{
                             .name = "own",
                             .make = [] { return std::make_unique<v1::OwnBlobs>(std::make_shared<Shelf>()); },
                             .let_pass =
                                 [](std::chrono::milliseconds time) {
                                   own_clock().advance_ns(std::chrono::nanoseconds(time).count());
                                 }}),
                         name_of_case);

// Answers that no store may give.
class BadShelf final : public Shelf {
 public:
  Result<std::optional<v1::Blob>> get(std::string_view key) override {
    if (key == "throws") throw std::runtime_error("broken pipe");
    throw 7;
  }
  Result<std::optional<v1::Blob>> get_range(std::string_view, std::uint64_t, std::uint64_t) override {
    return std::optional(v1::Blob{.info = {.size = 3, .version = "1"}, .content = "longer"});
  }
  Result<std::vector<v1::BlobInfo>> list(std::string_view, std::string_view, std::size_t) override {
    std::vector<v1::BlobInfo> backwards(2);
    backwards[0].key = "b";
    backwards[1].key = "a";
    return backwards;
  }
};

TEST(OwnBlobs, WhatTheUsersCodeThrowsIsAnErrorOfTheCall) {
  v1::OwnBlobs store(std::make_shared<BadShelf>());
  Result<std::optional<Blob>> got = store.get("throws");
  ASSERT_EQ(error_of(got), Code::kIo);
  EXPECT_EQ(got.error().message(), "the store 'shelf' threw 'broken pipe'");
  EXPECT_EQ(error_of(store.get("throws an int")), Code::kIo);
  EXPECT_EQ(error_of(store.find("throws")), Code::kIo);
}

TEST(OwnBlobs, AnAnswerThatCannotBeRightIsRefused) {
  v1::OwnBlobs store(std::make_shared<BadShelf>());
  EXPECT_EQ(error_of(store.get_range("k", 0, 100)), Code::kIo);
  Result<BlobPage> page = store.list({});
  ASSERT_EQ(error_of(page), Code::kIo);
  EXPECT_EQ(page.error().message(), "the store 'shelf' listed 'a' out of turn");
}

}  // namespace
}  // namespace warren::testing
