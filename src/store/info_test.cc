#include "store/info.h"

#include <gtest/gtest.h>

#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/record/tool_calls.h"
#include "store/tables/kv.h"
#include "store/tables/usage.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::testing {
namespace {

class Info : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = Store::open(dir_.file("a.db"), {.mode = OpenMode::kCreate}, clock_);
    ASSERT_OK(store);
    store_ = std::move(store).value();
  }

  AgentInfo describe() {
    auto info = describe_agent(*store_);
    EXPECT_OK(info);
    return info.ok() ? *info : AgentInfo{};
  }

  TempDir dir_;
  FakeClock clock_;
  std::unique_ptr<Store> store_;
};

TEST_F(Info, ANewAgentHasARootAndNothingElse) {
  AgentInfo info = describe();
  EXPECT_EQ(info.path, dir_.file("a.db"));
  EXPECT_EQ(info.schema_version, "0.4");
  EXPECT_EQ(info.chunk_bytes, 4096U);
  EXPECT_EQ(info.page_bytes, 4096U);
  EXPECT_EQ(info.directories, 1U);
  EXPECT_EQ(info.files, 0U);
  EXPECT_EQ(info.chunks, 0U);
  EXPECT_EQ(info.fragmentation, 0.0);
  EXPECT_EQ(info.quota_bytes, std::nullopt);
}

TEST_F(Info, NodesAreCountedByKindAndBytesBySizeAndByStorage) {
  ASSERT_OK(write_file(store_->fs(), "/d/a", as_bytes(std::string(5000, 'x'))));
  ASSERT_OK(write_file(store_->fs(), "/sparse", as_bytes("x")));
  ASSERT_OK(truncate(store_->fs(), "/sparse", 1'000'000));
  ASSERT_OK(make_symlink(store_->fs(), "/d/a", "/l"));
  ASSERT_OK(make_node(store_->fs(), "/p", {.mode = S_IFIFO | 0600, .owner = {}, .rdev = 0}));
  AgentInfo info = describe();
  EXPECT_EQ(info.files, 2U);
  EXPECT_EQ(info.directories, 2U);
  EXPECT_EQ(info.symlinks, 1U);
  EXPECT_EQ(info.other, 1U);
  EXPECT_EQ(info.content_bytes, 1'005'000U);
  EXPECT_EQ(info.chunks, 3U);
  EXPECT_GE(info.stored_bytes, 5001U);
  EXPECT_LE(info.stored_bytes, 5000U + 4096U);
}

TEST_F(Info, KeysCallsAndJournalRowsAreCounted) {
  ASSERT_OK(store_->kv().set("a", "1"));
  ASSERT_OK(store_->kv().set("b", "1"));
  ASSERT_OK(store_->tools().start("slow", std::nullopt));
  CallRecord call;
  call.name = "t";
  ASSERT_OK(store_->tools().record(call));
  AgentInfo info = describe();
  EXPECT_EQ(info.keys, 2U);
  EXPECT_EQ(info.tool_calls, 2U);
  EXPECT_EQ(info.pending_calls, 1U);
  EXPECT_EQ(info.journal_rows, 4U);
}

TEST_F(Info, AFileWrittenAtOnceIsNotFragmented) {
  ASSERT_OK(write_file(store_->fs(), "/a", as_bytes(std::string(20 * 4096, 'x'))));
  EXPECT_EQ(describe().fragmentation, 0.0);
}

TEST_F(Info, FilesWrittenInTurnsAreFragmented) {
  ASSERT_OK(write_file(store_->fs(), "/a", {}));
  ASSERT_OK(write_file(store_->fs(), "/b", {}));
  std::string chunk(4096, 'x');
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK(append_file(store_->fs(), "/a", as_bytes(chunk)));
    ASSERT_OK(append_file(store_->fs(), "/b", as_bytes(chunk)));
  }
  EXPECT_EQ(describe().fragmentation, 1.0);
}

TEST_F(Info, TheQuotaIsReported) {
  {
    auto change = store_->begin_write();
    ASSERT_OK(change);
    ASSERT_OK(store_->usage().set_quota({.bytes = 1000, .inodes = 7}));
    ASSERT_OK(change->commit());
  }
  AgentInfo info = describe();
  EXPECT_EQ(info.quota_bytes, 1000U);
  EXPECT_EQ(info.quota_inodes, 7U);
}

TEST_F(Info, FreedSpaceIsReportedAsFree) {
  ASSERT_OK(write_file(store_->fs(), "/a", as_bytes(std::string(100 * 4096, 'x'))));
  ASSERT_OK(unlink(store_->fs(), "/a"));
  EXPECT_GE(describe().free_bytes, 90U * 4096U);
  EXPECT_GT(describe().file_bytes + describe().wal_bytes, 0U);
}

}  // namespace
}  // namespace warren::testing
