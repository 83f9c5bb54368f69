#include "fs/memory/memory_fs.h"

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fs/expiry.h"
#include "fs/path_ops.h"
#include "testing/fake_clock.h"

namespace warren {
namespace {

Code code_of(const Status& status) { return status.ok() ? Code::kInternal : status.error().code(); }

TEST(MemoryFs, ALimitCountsContentNamesAndAttributesAndIsFreedAgain) {
  testing::FakeClock clock;
  MemoryFs fs(clock, 4096, 64 * 1024);
  std::string big(40'000, 'x');
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(write_file(fs, "/a", as_bytes(big)).ok()) << round;
    EXPECT_EQ(code_of(write_file(fs, "/b", as_bytes(big))), Code::kNoSpace);
    EXPECT_TRUE(write_file(fs, "/a", as_bytes(big)).ok()) << "overwriting takes no more";
    Inode a = lstat(fs, "/a").value().inode;
    EXPECT_EQ(code_of(fs.set_xattr(a, "user.x", as_bytes(big), XattrMode::kAny)), Code::kNoSpace);
    ASSERT_TRUE(remove(fs, "/a").ok());
    EXPECT_FALSE(exists(fs, "/b").value());
  }
  int made = 0;
  while (made < 1000 && write_file(fs, "/" + std::to_string(made), {}).ok()) ++made;
  EXPECT_GT(made, 50);
  EXPECT_LT(made, 200);
  EXPECT_LE(fs.stats(kRootInode).value().used_bytes, 64U * 1024);
}

TEST(MemoryFs, WhatIsRemovedWhileItIsOpenCountsUntilItIsReleased) {
  testing::FakeClock clock;
  MemoryFs fs(clock, 4096, 64 * 1024);
  Attributes open = fs.create(kRootInode, "a", {.mode = 0644}).value();
  std::string big(40'000, 'x');
  ASSERT_TRUE(fs.write(open.inode, 0, as_bytes(big)).ok());
  ASSERT_TRUE(fs.unlink(kRootInode, "a").ok());
  EXPECT_EQ(code_of(write_file(fs, "/b", as_bytes(big))), Code::kNoSpace);
  fs.release(open.inode);
  EXPECT_TRUE(write_file(fs, "/b", as_bytes(big)).ok());
}

TEST(MemoryFs, AUnitThatEndsWithoutCommitHasChangedNothing) {
  testing::FakeClock clock;
  MemoryFs fs(clock, 4096, 256 * 1024);
  ASSERT_TRUE(write_file(fs, "/dir/file", as_bytes("precious")).ok());
  ASSERT_TRUE(make_symlink(fs, "dir/file", "/link").ok());
  ASSERT_TRUE(write_file(fs, "/other", as_bytes("other"), {.expires_at_ms = 4'000'000'000'000}).ok());
  FileSystemStats before = fs.stats(kRootInode).value();
  Attributes file = stat(fs, "/dir/file").value();
  {
    auto unit = fs.begin(UnitAccess::kWrite).take_value();
    std::string big(20'000, 'x');
    EXPECT_TRUE(write_file(fs, "/dir/file", as_bytes(big)).ok());
    EXPECT_TRUE(write_file(fs, "/new/deep/file", as_bytes(big)).ok());
    EXPECT_TRUE(rename(fs, "/other", "/dir/file").ok());
    EXPECT_TRUE(rename(fs, "/dir", "/link", RenameMode::kExchange).ok());
    EXPECT_TRUE(unlink(fs, "/dir").ok());
    EXPECT_TRUE(set_xattr(fs, "/link", "user.a", as_bytes("b")).ok());
    EXPECT_TRUE(remove(fs, "/link", {.recursive = Recursive::kYes}).ok());
    EXPECT_TRUE(make_dir(fs, "/dir").ok());
    EXPECT_TRUE(write_file(fs, "/dir/file", {}).ok());
  }
  EXPECT_EQ(read_file(fs, "/dir/file").value(), "precious");
  EXPECT_EQ(stat(fs, "/dir/file").value(), file);
  EXPECT_EQ(read_link(fs, "/link").value(), "dir/file");
  EXPECT_EQ(read_file(fs, "/other").value(), "other");
  EXPECT_EQ(get_xattr(fs, "/other", kExpiryXattr).value(), "4000000000.000");
  EXPECT_EQ(read_dir(fs, "/").value(), (std::vector<std::string>{"dir", "link", "other"}));
  EXPECT_EQ(fs.stats(kRootInode).value().used_bytes, before.used_bytes);
  EXPECT_EQ(fs.stats(kRootInode).value().used_inodes, before.used_inodes);
  ASSERT_TRUE(write_file(fs, "/dir/file", as_bytes("changed")).ok());
  EXPECT_EQ(read_file(fs, "/dir/file").value(), "changed");
}

TEST(MemoryFs, AWriteThatFailsLeavesTheFileAsItWas) {
  testing::FakeClock clock;
  MemoryFs fs(clock, 4096, 64 * 1024);
  ASSERT_TRUE(write_file(fs, "/a", as_bytes("precious")).ok());
  std::string big(100'000, 'x');
  EXPECT_EQ(code_of(write_file(fs, "/a", as_bytes(big))), Code::kNoSpace);
  EXPECT_EQ(read_file(fs, "/a").value(), "precious");
  EXPECT_EQ(code_of(write_file(fs, "/new/b", as_bytes(big))), Code::kNoSpace);
  EXPECT_FALSE(exists(fs, "/new").value());
}

TEST(MemoryFs, OnlyTheOutermostUnitDecides) {
  testing::FakeClock clock;
  MemoryFs fs(clock);
  {
    auto reading = fs.begin(UnitAccess::kRead).take_value();
    auto writing = fs.begin(UnitAccess::kWrite).take_value();
    { auto inner = fs.begin(UnitAccess::kWrite).take_value(); }
    ASSERT_TRUE(write_file(fs, "/a", as_bytes("x")).ok());
    ASSERT_TRUE(writing->commit().ok());
  }
  EXPECT_TRUE(exists(fs, "/a").value());
}

class NamesGone final : public ChangeListener {
 public:
  void entry_changed(Inode, std::string_view name) override {
    std::lock_guard lock(mutex_);
    names_.emplace(name);
  }
  void node_changed(Inode) override {}
  void everything_changed() override {}
  std::size_t count() {
    std::lock_guard lock(mutex_);
    return names_.size();
  }

 private:
  std::mutex mutex_;
  std::set<std::string> names_;
};

// Under the thread sanitizer this is about the thread that reports (./check --full).
TEST(MemoryFs, FilesThatExpireWhileOthersWorkAreReportedEach) {
  constexpr int kThreads = 3;
  constexpr int kFiles = 100;
  SystemClock clock;
  MemoryFs fs(clock);
  NamesGone gone;
  ASSERT_TRUE(fs.listen(&gone).ok());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kFiles; ++i) {
        std::string path = fmt::format("/{}-{}", thread, i);
        std::int64_t soon = expiry_after(clock, std::chrono::milliseconds(1 + i % 3)).value();
        EXPECT_TRUE(write_file(fs, path, as_bytes("x"), {.expires_at_ms = soon}).ok());
        read_file(fs, path).ignore("it may be gone already");
        read_dir(fs, "/").ignore("only to be in the way");
        EXPECT_TRUE(write_file(fs, "/kept", as_bytes("y")).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (gone.count() < kThreads * kFiles) std::this_thread::yield();
  EXPECT_EQ(read_dir(fs, "/").value(), std::vector<std::string>{"kept"});
  std::int64_t later = expiry_after(clock, std::chrono::hours(1)).value();
  ASSERT_TRUE(write_file(fs, "/later", as_bytes("x"), {.expires_at_ms = later}).ok());
  ASSERT_TRUE(fs.listen(nullptr).ok()) << "it ends while it waits for the next one";
}

}  // namespace
}  // namespace warren
