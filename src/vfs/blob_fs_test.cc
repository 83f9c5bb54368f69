#include "vfs/blob_fs.h"

#include <functional>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/blob/memory_blobs.h"
#include "base/no_wait.h"
#include "fs/expiry.h"
#include "fs/file.h"
#include "fs/path_ops.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"

namespace warren {
namespace {

using ::warren::testing::error_of;
using ::warren::testing::FakeClock;

// A store whose next puts do what a test wants.
class TestBlobs final : public BlobStore {
 public:
  explicit TestBlobs(Clock& clock) : inner_(clock) {}

  std::string name() const override { return "test:"; }
  BlobAbilities abilities() const override { return abilities_; }
  Result<std::optional<Blob>> get(std::string_view key) override { return inner_.get(key); }
  Result<std::optional<Blob>> get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) override {
    return inner_.get_range(key, offset, length);
  }
  Result<std::optional<BlobInfo>> find(std::string_view key) override { return inner_.find(key); }
  Result<BlobInfo> put(std::string_view key, Bytes content, const PutOptions& options) override {
    ++puts_;
    if (before_put_) std::exchange(before_put_, nullptr)();
    if (is_down_) return Error(Code::kUnavailable, "the store is down");
    Result<BlobInfo> done = inner_.put(key, content, options);
    if (loses_answers_) return Error(Code::kUnavailable, "the answer was lost");
    return done;
  }
  Result<bool> remove(std::string_view key) override { return inner_.remove(key); }
  Result<BlobPage> list(const ListOptions& options) override { return inner_.list(options); }
  Status apply(std::span<const BlobChange> changes) override {
    if (before_apply_) std::exchange(before_apply_, nullptr)();
    return inner_.apply(changes);
  }

  MemoryBlobs inner_;
  BlobAbilities abilities_;
  std::function<void()> before_put_;
  std::function<void()> before_apply_;
  bool is_down_ = false;
  bool loses_answers_ = false;
  int puts_ = 0;
};

class BlobFsTest : public ::testing::Test {
 protected:
  std::optional<std::string> value_of(const std::string& key) {
    Result<std::optional<Blob>> blob = store_.inner_.get(key);
    if (!blob.ok() || !*blob) return std::nullopt;
    return (*blob)->content;
  }
  void put(const std::string& key, std::string_view content) {
    ASSERT_OK(store_.inner_.put(key, as_bytes(content), {}));
  }
  std::unique_ptr<File> open(const std::string& path, Append append = Append::kNo) {
    Result<std::unique_ptr<File>> file =
        File::open(fs_, path, {.access = FileAccess::kReadWrite, .create = Create::kIfMissing, .append = append});
    EXPECT_OK(file);
    return std::move(file).take_value();
  }

  FakeClock clock_;
  TestBlobs store_{clock_};
  BlobFs fs_{store_, clock_};
};

TEST_F(BlobFsTest, DirectoriesFollowFromKeys) {
  put("a/b/c.txt", "x");
  EXPECT_EQ(read_dir(fs_, "/").value(), std::vector<std::string>{"a"});
  EXPECT_EQ(read_dir(fs_, "/a/b").value(), std::vector<std::string>{"c.txt"});
  EXPECT_TRUE(stat(fs_, "/a/b")->is_directory());
  ASSERT_OK(unlink(fs_, "/a/b/c.txt"));
  EXPECT_EQ(read_dir(fs_, "/a/b").value(), std::vector<std::string>{}) << "it stays when its last file goes";
  EXPECT_EQ(value_of("a/b/.warren-dir"), "");
  ASSERT_OK(remove_dir(fs_, "/a/b"));
  EXPECT_EQ(read_dir(fs_, "/a").value(), std::vector<std::string>{});
}

TEST_F(BlobFsTest, TheMarkersNameIsReserved) {
  ASSERT_OK(make_dir(fs_, "/d"));
  EXPECT_EQ(error_of(write_file(fs_, "/d/.warren-dir", as_bytes("x"))), Code::kInvalid);
  EXPECT_EQ(error_of(read_file(fs_, "/d/.warren-dir")), Code::kNotFound);
  EXPECT_EQ(error_of(make_dir(fs_, "/.warren-dir")), Code::kInvalid);
}

TEST_F(BlobFsTest, ADirectoryThatAnotherMakesMeanwhileIsUsed) {
  store_.before_put_ = [&] { put("d/.warren-dir", ""); };
  ASSERT_OK(write_file(fs_, "/d/f", as_bytes("x")));
  EXPECT_EQ(value_of("d/f"), "x");
  store_.before_put_ = [&] { put("e/.warren-dir", ""); };
  ASSERT_OK(make_dirs(fs_, "/e"));
  store_.before_put_ = [&] { put("g/.warren-dir", ""); };
  Result<Attributes> made = make_dir(fs_, "/g");
  EXPECT_EQ(error_of(made), Code::kExists);
  EXPECT_EQ(made.error().message().find(".warren-dir"), std::string::npos) << made.error().message();
}

TEST_F(BlobFsTest, WritesAreGatheredAndPutWhenTheFileIsClosed) {
  auto file = open("/f");
  int before = store_.puts_;
  for (int i = 0; i < 100; ++i) ASSERT_OK(file->write_at(static_cast<std::uint64_t>(i), as_bytes("x")));
  EXPECT_EQ(store_.puts_, before);
  EXPECT_EQ(read_file(fs_, "/f").value(), std::string(100, 'x')) << "readers here see it";
  ASSERT_OK(file->close());
  EXPECT_EQ(store_.puts_, before + 1);
  EXPECT_EQ(value_of("f"), std::string(100, 'x'));
}

TEST_F(BlobFsTest, APathFunctionPutsOnce) {
  ASSERT_OK(write_file(fs_, "/d/e/f", as_bytes("content")));
  EXPECT_EQ(value_of("d/e/f"), "content");
  int before = store_.puts_;
  ASSERT_OK(write_file(fs_, "/d/e/f", as_bytes("other")));
  ASSERT_OK(append_file(fs_, "/d/e/f", as_bytes(" end")));
  EXPECT_EQ(store_.puts_, before + 2);
  EXPECT_EQ(value_of("d/e/f"), "other end");
}

TEST_F(BlobFsTest, AFailedPutIsAnErrorOfCloseAndOfSync) {
  auto file = open("/f");
  ASSERT_OK(file->write_at(0, as_bytes("kept")));
  store_.is_down_ = true;
  EXPECT_EQ(error_of(file->sync()), Code::kUnavailable);
  EXPECT_EQ(error_of(file->close()), Code::kUnavailable);
  store_.is_down_ = false;
  ASSERT_OK(fs_.sync(kRootInode)) << "it is put later";
  EXPECT_EQ(value_of("f"), "kept");
}

TEST_F(BlobFsTest, AFailedPathFunctionLeavesNothing) {
  store_.is_down_ = true;
  EXPECT_EQ(error_of(write_file(fs_, "/f", as_bytes("x"))), Code::kUnavailable);
  store_.is_down_ = false;
  EXPECT_EQ(exists(fs_, "/f").value(), false);
  ASSERT_OK(fs_.sync(kRootInode));
  EXPECT_EQ(value_of("f"), std::nullopt);
}

TEST_F(BlobFsTest, APutWhoseAnswerWasLostIsRecognised) {
  auto file = open("/f");
  ASSERT_OK(file->write_at(0, as_bytes("mine")));
  store_.loses_answers_ = true;
  EXPECT_EQ(error_of(file->sync()), Code::kUnavailable);
  store_.loses_answers_ = false;
  ASSERT_OK(file->sync()) << "the version is another one, the content is ours";
  EXPECT_EQ(value_of("f"), "mine");
}

TEST_F(BlobFsTest, ANewFileOfAUnitIsOnlyPutByTheUnitAndReplacesNothing) {
  auto unit = fs_.begin(UnitAccess::kWrite).value();
  Attributes made = fs_.make_node(kRootInode, "f", {.mode = S_IFREG | 0600U}).value();
  put("f", "theirs");
  std::thread([&] { ASSERT_OK(fs_.flush(made.inode)); }).join();  // as who has just closed the other file
  ASSERT_OK(fs_.write(made.inode, 0, as_bytes("ours")));
  Status ended = unit->commit();
  EXPECT_FALSE(ended.ok());
  unit.reset();
  EXPECT_EQ(value_of("f"), "theirs");
  EXPECT_EQ(read_file(fs_, "/f").value(), "theirs");
}

TEST_F(BlobFsTest, OfTwoWritersTheLaterGetsAConflict) {
  put("f", "old");
  auto file = open("/f");
  ASSERT_OK(file->write_at(0, as_bytes("ours")));
  put("f", "theirs");
  EXPECT_EQ(error_of(file->close()), Code::kConflict);
  EXPECT_EQ(value_of("f"), "theirs");
  EXPECT_EQ(read_file(fs_, "/f").value(), "theirs");
  store_.before_put_ = [&] { put("f", "again theirs"); };
  EXPECT_EQ(error_of(write_file(fs_, "/f", as_bytes("ours"))), Code::kConflict);
  EXPECT_EQ(value_of("f"), "again theirs");
}

TEST_F(BlobFsTest, AFileThatAnotherOneMadeMeanwhileIsNotReplaced) {
  store_.before_put_ = [&] { put("f", "theirs"); };
  EXPECT_EQ(error_of(write_file(fs_, "/f", as_bytes("ours"))), Code::kConflict);
  EXPECT_EQ(value_of("f"), "theirs");
}

TEST_F(BlobFsTest, AppendsOfTwoWritersAreBothKept) {
  put("log", "1\n");
  auto file = open("/log", Append::kYes);
  ASSERT_OK(file->append(as_bytes("3\n")));
  put("log", "1\n2\n");
  ASSERT_OK(file->close());
  EXPECT_EQ(value_of("log"), "1\n2\n3\n");
  store_.before_put_ = [&] { put("log", "1\n2\n3\n4\n"); };
  ASSERT_OK(append_file(fs_, "/log", as_bytes("5\n")));
  EXPECT_EQ(value_of("log"), "1\n2\n3\n4\n5\n");
}

TEST_F(BlobFsTest, WithoutConditionalPutsTheLastWriterWins) {
  store_.abilities_.conditional_puts = false;
  BlobFs fs(store_, clock_);
  put("f", "old");
  auto file = File::open(fs, "/f", {.access = FileAccess::kWrite});
  ASSERT_OK(file);
  ASSERT_OK((*file)->write_at(0, as_bytes("ours")));
  put("f", "theirs");
  ASSERT_OK((*file)->close());
  EXPECT_EQ(value_of("f"), "ours");
}

TEST_F(BlobFsTest, WhatAUnitHasSeenDoesNotChangeUnderIt) {
  put("f", "four");
  auto unit = fs_.begin(UnitAccess::kWrite);
  ASSERT_OK(unit);
  Result<Attributes> node = fs_.lookup(kRootInode, "f");
  ASSERT_OK(node);
  put("f", "others content");
  EXPECT_EQ(fs_.get_attributes(node->inode)->size, 4U);
  ASSERT_OK(fs_.write(node->inode, 4, as_bytes("+")));
  EXPECT_EQ(error_of((*unit)->commit()), Code::kConflict);
  EXPECT_EQ(value_of("f"), "others content");
}

TEST_F(BlobFsTest, AUnitThatIsNotCommittedPutsNothing) {
  put("f", "old");
  {
    auto unit = fs_.begin(UnitAccess::kWrite);
    ASSERT_OK(unit);
    Inode node = fs_.lookup(kRootInode, "f")->inode;
    ASSERT_OK(fs_.write(node, 0, as_bytes("new")));
    ASSERT_OK(fs_.make_node(kRootInode, "g", {.mode = S_IFREG | 0644}));
    EXPECT_EQ(read_dir(fs_, "/").value(), (std::vector<std::string>{"f", "g"}));
  }
  EXPECT_EQ(value_of("f"), "old");
  EXPECT_EQ(value_of("g"), std::nullopt);
  EXPECT_EQ(read_file(fs_, "/f").value(), "old");
  EXPECT_EQ(read_dir(fs_, "/").value(), std::vector<std::string>{"f"});
}

TEST_F(BlobFsTest, AFileThatOthersRemovedIsStale) {
  put("f", "x");
  Inode node = fs_.lookup(kRootInode, "f")->inode;
  ASSERT_OK(store_.inner_.remove("f"));
  EXPECT_EQ(error_of(fs_.get_attributes(node)), Code::kStale);
  std::string out(1, ' ');
  EXPECT_EQ(error_of(fs_.read(node, 0, as_mutable_bytes(out))), Code::kStale);
  EXPECT_EQ(error_of(fs_.lookup(kRootInode, "f")), Code::kNotFound);
}

TEST_F(BlobFsTest, ARenamedFileKeepsItsNumberAndItsTimeToLive) {
  ASSERT_OK(store_.inner_.put("f", as_bytes("x"), {.ttl = std::chrono::milliseconds(10'000)}));
  Inode node = fs_.lookup(kRootInode, "f")->inode;
  ASSERT_OK(rename(fs_, "/f", "/g"));
  EXPECT_EQ(fs_.lookup(kRootInode, "g")->inode, node);
  EXPECT_EQ(value_of("f"), std::nullopt);
  EXPECT_EQ(value_of("g"), "x");
  ASSERT_OK(append_file(fs_, "/g", as_bytes("y")));
  clock_.advance_ns(11'000'000'000);
  EXPECT_EQ(value_of("g"), std::nullopt);
}

TEST_F(BlobFsTest, AFileThatWasReplacedWithinASecondHasAnotherChangeTime) {
  put("f", "one");
  Attributes before = fs_.lookup(kRootInode, "f").value();
  EXPECT_EQ(fs_.get_attributes(before.inode)->ctime, before.ctime);
  EXPECT_EQ(read_dir_plus(fs_, "/").value().front().attributes.ctime, before.ctime);
  put("f", "two");
  Attributes after = fs_.lookup(kRootInode, "f").value();
  EXPECT_EQ(after.mtime, before.mtime) << "the clock stands";
  EXPECT_NE(after.ctime, before.ctime);
}

TEST_F(BlobFsTest, AFileExpiresByItsAttribute) {
  std::int64_t at_ms = clock_.now_us() / 1000 + 5000;
  ASSERT_OK(write_file(fs_, "/f", as_bytes("x"), {.expires_at_ms = at_ms}));
  EXPECT_EQ(get_xattr(fs_, "/f", kExpiryXattr).value(), format_expiry(at_ms));
  ASSERT_OK(append_file(fs_, "/f", as_bytes("y")));
  EXPECT_EQ(list_xattrs(fs_, "/f").value(), std::vector<std::string>{std::string(kExpiryXattr)})
      << "appending keeps it";
  ASSERT_OK(write_file(fs_, "/g", as_bytes("x"), {.expires_at_ms = at_ms}));
  ASSERT_OK(write_file(fs_, "/g", as_bytes("replaced")));
  clock_.advance_ns(6'000'000'000);
  EXPECT_EQ(exists(fs_, "/f").value(), false);
  EXPECT_EQ(read_file(fs_, "/g").value(), "replaced") << "replacing drops it";
  store_.abilities_.ttl = false;
  BlobFs fs(store_, clock_);
  EXPECT_EQ(error_of(write_file(fs, "/h", as_bytes("x"), {.expires_at_ms = at_ms + 10'000})), Code::kUnsupported);
}

TEST_F(BlobFsTest, ADirectoryIsMovedByCopying) {
  put("a/f", "x");
  EXPECT_EQ(error_of(rename(fs_, "/a", "/b")), Code::kCrossDevice);
  EXPECT_EQ(error_of(rename(fs_, "/a", "/ab")), Code::kCrossDevice);
  EXPECT_EQ(value_of("a/f"), "x");
}

TEST_F(BlobFsTest, ADirectoryIsNotMovedIntoItself) {
  put("a/b/f", "x");
  EXPECT_EQ(error_of(rename(fs_, "/a", "/a/c")), Code::kInvalid);
  EXPECT_EQ(error_of(rename(fs_, "/a", "/a/b/c")), Code::kInvalid);
  EXPECT_EQ(value_of("a/b/f"), "x");
}

TEST_F(BlobFsTest, ARenameMovesWhatAnotherWriterPutMeanwhile) {
  store_.abilities_ = {.conditional_removals = true, .whole_batches = true};
  BlobFs at_once(store_, clock_);
  put("f", "x");
  store_.before_apply_ = [&] { put("f", "theirs"); };
  ASSERT_OK(rename(at_once, "/f", "/g"));
  EXPECT_EQ(value_of("f"), std::nullopt);
  EXPECT_EQ(value_of("g"), "theirs");

  store_.abilities_ = {.conditional_removals = true};
  BlobFs one_by_one(store_, clock_);
  put("h", "x");
  store_.before_apply_ = [&] { put("h", "theirs"); };
  ASSERT_OK(rename(one_by_one, "/h", "/i", RenameMode::kNoReplace));
  EXPECT_EQ(value_of("h"), std::nullopt);
  EXPECT_EQ(value_of("i"), "theirs");
}

TEST_F(BlobFsTest, AStoreWithoutConditionalRemovalsIsAskedBeforeARenameRemoves) {
  put("f", "x");
  store_.before_put_ = [&] { put("f", "theirs"); };
  ASSERT_OK(rename(fs_, "/f", "/g"));
  EXPECT_EQ(value_of("f"), std::nullopt);
  EXPECT_EQ(value_of("g"), "theirs");
}

TEST_F(BlobFsTest, AUnitRemovesAFileOnlyAsItSawIt) {
  for (bool has_conditions : {true, false}) {
    store_.abilities_ = {.conditional_removals = has_conditions};
    BlobFs fs(store_, clock_);
    put("f", "x");
    auto unit = fs.begin(UnitAccess::kWrite).take_value();
    Inode node = fs.lookup(kRootInode, "f")->inode;
    put("f", "theirs");
    EXPECT_EQ(error_of(fs.unlink(kRootInode, "f")), Code::kConflict) << has_conditions;
    EXPECT_EQ(value_of("f"), "theirs");
    unit.reset();
    EXPECT_EQ(fs.lookup(kRootInode, "f")->inode, node);
    ASSERT_OK(unlink(fs, "/f"));
    EXPECT_EQ(value_of("f"), std::nullopt);
  }
}

TEST_F(BlobFsTest, AFileThatAnotherRemovedFirstIsNotFoundInAUnit) {
  store_.abilities_ = {.conditional_removals = true};
  BlobFs fs(store_, clock_);
  put("f", "x");
  auto unit = fs.begin(UnitAccess::kWrite).take_value();
  ASSERT_OK(fs.lookup(kRootInode, "f"));
  ASSERT_OK(store_.inner_.remove("f"));
  EXPECT_EQ(error_of(fs.unlink(kRootInode, "f")), Code::kNotFound);
}

TEST_F(BlobFsTest, AFileIsNoLargerThanTheStoreTakes) {
  store_.abilities_.largest = 10;
  BlobFs fs(store_, clock_);
  EXPECT_EQ(error_of(write_file(fs, "/f", as_bytes("12345678901"))), Code::kTooLarge);
  ASSERT_OK(write_file(fs, "/f", as_bytes("1234567890")));
  EXPECT_EQ(error_of(append_file(fs, "/f", as_bytes("1"))), Code::kTooLarge);
  EXPECT_EQ(error_of(truncate(fs, "/f", 11)), Code::kTooLarge);
  EXPECT_EQ(value_of("f"), "1234567890");
}

TEST_F(BlobFsTest, AThreadThatMustNotWaitIsToldSoWithNothingChanged) {
  put("f", "x");
  Inode node = fs_.lookup(kRootInode, "f")->inode;
  NoWait no_wait;
  EXPECT_EQ(error_of(fs_.lookup(kRootInode, "f")), Code::kBusy);
  EXPECT_EQ(error_of(fs_.write(node, 0, as_bytes("y"))), Code::kBusy);
  EXPECT_EQ(error_of(fs_.begin(UnitAccess::kWrite)), Code::kBusy);
  EXPECT_TRUE(no_wait.was_hit());
}

TEST_F(BlobFsTest, WhatNobodyClosesIsPutAfterAWhile) {
  SystemClock clock;
  BlobFs fs(store_, clock, {.owner = {}, .write_back = std::chrono::milliseconds(10)});
  put("f", "old");
  Inode node = fs.lookup(kRootInode, "f")->inode;
  ASSERT_OK(fs.write(node, 0, as_bytes("new")));
  for (int i = 0; i < 10'000 && value_of("f") != "new"; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(value_of("f"), "new");
}

TEST_F(BlobFsTest, ManyNodesAreForgottenAndFoundAgain) {
  BlobFs fs(store_, clock_, {.owner = {}, .nodes = 50});
  for (int i = 0; i < 1000; ++i) put(fmt::format("d{}/f", i), "x");
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(read_file(fs, fmt::format("/d{}/f", i)).value(), "x");
  EXPECT_EQ(read_dir(fs, "/")->size(), 1000U);
}

TEST_F(BlobFsTest, ANewFileReplacesNothingInAStoreWithoutConditions) {
  TestBlobs plain(clock_);
  plain.abilities_.conditional_puts = false;
  BlobFs fs(plain, clock_);
  auto unit = fs.begin(UnitAccess::kWrite).take_value();
  ASSERT_OK(write_file(fs, "/f", as_bytes("ours")));
  ASSERT_OK(plain.inner_.put("f", as_bytes("theirs"), {}));
  EXPECT_EQ(error_of(unit->commit()), Code::kConflict);
  EXPECT_EQ(plain.inner_.get("f").value()->content, "theirs");
}

TEST_F(BlobFsTest, ADirectoryThatOthersMadeInPlaceOfAFileIsListed) {
  put("r/d", "file");
  ASSERT_OK(stat(fs_, "/r/d"));
  ASSERT_OK(store_.inner_.remove("r/d"));
  put("r/d/a", "x");
  std::vector<NamedAttributes> listed = read_dir_plus(fs_, "/r").value();
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].name, "d");
  EXPECT_TRUE(listed[0].attributes.is_directory());
  EXPECT_EQ(read_dir(fs_, "/r/d").value(), std::vector<std::string>{"a"});
  put("r/d", "again");
  ASSERT_OK(stat(fs_, "/r/d"));
  listed = read_dir_plus(fs_, "/r").value();
  ASSERT_EQ(listed.size(), 1U) << "the file is shown, and not its folder too";
  EXPECT_TRUE(listed[0].attributes.is_file());
}

}  // namespace
}  // namespace warren
