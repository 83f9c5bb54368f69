// Large files of the base of which an agent has copied only parts, while the host works on the base.
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/limits.h"
#include "fs/host/host_fs.h"
#include "fs/overlay/overlay_fs.h"
#include "fs/path_ops.h"
#include "store/overlay/apply_log.h"
#include "store/overlay/overlay_rows.h"
#include "store/overlay/overlay_schema.h"
#include "store/store.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

constexpr std::uint64_t kWholeBytes = std::uint64_t{1} << 20;
constexpr std::size_t kPartsBytes = 3'000'000;
constexpr std::uint64_t kOwnAt = 1'500'000;  // where the agent writes

// Is notified of a change of the base when the overlay has dealt with it.
class Awaited final : public ChangeListener {
 public:
  void entry_changed(Inode, std::string_view name) override { note(name == "large"); }
  void node_changed(Inode) override {}
  void everything_changed() override { note(true); }
  bool wait() {
    std::unique_lock lock(mutex_);
    return heard_.wait_for(lock, std::chrono::seconds(30), [&] { return has_heard_; });
  }

 private:
  void note(bool is_it) {
    std::lock_guard guard(mutex_);
    has_heard_ = has_heard_ || is_it;
    heard_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable heard_;
  bool has_heard_ = false;
};

class OverlayPartsTest : public ::testing::Test {
 protected:
  OverlayPartsTest() {
    EXPECT_EQ(::mkdir(base_.c_str(), 0755), 0);
    put("/large", large_);
    expected_.replace(kOwnAt, 5, "AGENT");
    open(OpenMode::kCreate);
  }
  ~OverlayPartsTest() override { close(); }

  void open(OpenMode mode, std::uint64_t whole_bytes = kWholeBytes, Commits commits = Commits::kEach) {
    StoreOptions options{.mode = mode, .durability = Durability::kProcess, .commits = commits};
    store_ = Store::open(dir_.file("a.db"), options, clock_).value();
    if (mode == OpenMode::kCreate) {
      ASSERT_OK(make_overlay(*store_, base_));
    }
    rows_ = OverlayRows::open(*store_).value();
    host_ = HostFs::open(base_).value();
    overlay_ = OverlayFs::open(*rows_, *host_, whole_bytes).value();
  }
  void close() {
    overlay_.reset();
    host_.reset();
    rows_.reset();
    store_.reset();
  }
  std::string path(std::string_view name) { return base_ + std::string(name); }
  void put(std::string_view name, std::string_view text) { std::ofstream(path(name), std::ios::binary) << text; }
  void put_at_end(std::string_view name, std::string_view text) {
    std::ofstream(path(name), std::ios::binary | std::ios::app) << text;
  }
  void change() { ASSERT_OK(write_at(*overlay_, "/large", kOwnAt, as_bytes("AGENT"))); }
  // Returns when the overlay knows of it.
  void replace_while_listening(Awaited& listener) {
    close();
    open(OpenMode::kReadWrite, kWholeBytes, Commits::kGrouped);
    EXPECT_TRUE(lstat(*host_, "/large").ok());  // as whoever serves an agent looks at the base first
    ASSERT_OK(overlay_->listen(&listener));
    EXPECT_EQ(read_own(), "AGENT");  // looks at the base
    put("/draft", "of the host");
    std::filesystem::rename(path("/draft"), path("/large"));
    ASSERT_TRUE(listener.wait());
  }
  std::string read() { return read_file(*overlay_, "/large").value(); }
  std::string read_own() {
    std::string own(5, '\0');
    EXPECT_EQ(read_at(*overlay_, "/large", kOwnAt, as_mutable_bytes(own)).value(), 5U);
    return own;
  }
  std::size_t count_ranges() {
    auto unit = rows_->begin(UnitAccess::kRead).value();
    Inode node = lookup_own();
    return rows_->list_base_ranges(node).value().size();
  }
  Inode lookup_own() { return lstat(rows_->fs(), "/large").value().inode; }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  std::string base_ = dir_.file("base");
  std::string large_ = [] {
    std::string text(kPartsBytes, '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i / 1000 % 26);
    return text;
  }();
  std::string expected_ = large_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<OverlayRows> rows_;
  std::unique_ptr<HostFs> host_;
  std::unique_ptr<OverlayFs> overlay_;
};

TEST_F(OverlayPartsTest, AFileUpToTheUsualSizeIsCopiedWholeAndNeedsItsBaseNoMore) {
  close();
  open(OpenMode::kReadWrite, limits::kCopyWholeBytes);
  change();
  EXPECT_EQ(count_ranges(), 0U);
  put_at_end("/large", "by the host");
  EXPECT_EQ(read(), expected_);
}

TEST_F(OverlayPartsTest, WhatLeavesTheContentAloneIsHarmless) {
  change();
  ASSERT_EQ(::chmod(path("/large").c_str(), 0600), 0);
  EXPECT_EQ(read(), expected_);
  ASSERT_EQ(::link(path("/large").c_str(), path("/second").c_str()), 0);
  ASSERT_EQ(::setxattr(path("/large").c_str(), "user.x", "1", 1, 0), 0);
  close();
  open(OpenMode::kReadWrite);
  EXPECT_EQ(read(), expected_);
  ASSERT_OK(write_at(*overlay_, "/large", 0, as_bytes("A")));
}

TEST_F(OverlayPartsTest, AFileThatIsMovedReplacedOrRemovedIsReadWhileItIsHeld) {
  change();
  std::filesystem::rename(path("/large"), path("/moved"));
  EXPECT_EQ(read(), expected_);
  put("/large", std::string(kPartsBytes, '!'));  // another file
  EXPECT_EQ(read(), expected_);
  std::filesystem::remove(path("/large"));
  std::filesystem::remove(path("/moved"));
  ASSERT_OK(append_file(*overlay_, "/large", as_bytes("more")));
  ASSERT_OK(write_at(*overlay_, "/large", 0, as_bytes("A")));
  expected_[0] = 'A';
  EXPECT_EQ(read(), expected_ + "more");
  EXPECT_EQ(overlay_->seek_data(lstat(*overlay_, "/large")->inode, 200'000).value(), 200'000U);
  ASSERT_OK(write_file(*overlay_, "/target", {}));
  Inode target = lstat(*overlay_, "/target")->inode;
  EXPECT_EQ(overlay_->copy_range(lstat(*overlay_, "/large")->inode, 0, target, 0, kPartsBytes).value(), kPartsBytes);
  EXPECT_EQ(read_file(*overlay_, "/target").value(), expected_);
}

TEST_F(OverlayPartsTest, TheRestOfAFileThatTheHostReplacesIsCopied) {
  change();
  Awaited listener;
  replace_while_listening(listener);
  EXPECT_EQ(count_ranges(), 0U);
  ASSERT_OK(overlay_->listen(nullptr));
  close();
  open(OpenMode::kReadWrite);
  EXPECT_EQ(read(), expected_);
}

TEST_F(OverlayPartsTest, TheRestOfAFileIsCopiedAtTheEndIfTheHostHasJustReplacedIt) {
  change();
  close();
  open(OpenMode::kReadWrite, kWholeBytes, Commits::kGrouped);
  Awaited listener;
  ASSERT_OK(overlay_->listen(&listener));
  EXPECT_EQ(read_own(), "AGENT");
  ASSERT_OK(host_->listen(nullptr));  // no event comes in time
  std::filesystem::remove(path("/large"));
  ASSERT_OK(overlay_->listen(nullptr));
  close();
  open(OpenMode::kReadWrite);
  EXPECT_EQ(read(), expected_);
}

TEST_F(OverlayPartsTest, ARangeThatIsNoneIsAnErrorAndNeverALoop) {
  change();
  Inode node = lookup_own();
  for (std::vector<ByteRange> wrong : {std::vector<ByteRange>{{0, 0}},
                                       {{kPartsBytes, kPartsBytes}},
                                       {{std::uint64_t{0} - 4096, std::uint64_t{0} - 1}},
                                       {{0, std::uint64_t{1} << 63}},
                                       {{0, 5000}, {4096, 8192}}}) {
    {
      auto unit = rows_->begin(UnitAccess::kWrite).value();
      ASSERT_OK(rows_->set_base_ranges(node, wrong));
      ASSERT_OK(unit->commit());
    }
    close();
    open(OpenMode::kReadWrite);
    EXPECT_EQ(error_of(overlay_->seek_hole(lstat(*overlay_, "/large")->inode, 0)), Code::kCorrupt) << wrong[0].begin;
    EXPECT_EQ(error_of(read_file(*overlay_, "/large")), Code::kCorrupt) << wrong[0].begin;
  }
}

TEST_F(OverlayPartsTest, AFileBehindALinkThatReplacesItsDirectoryIsNotFollowed) {
  std::filesystem::create_directory(path("/sub"));
  put("/sub/large", large_);
  ASSERT_EQ(::setxattr(path("/sub/large").c_str(), "user.x", "1", 1, 0), 0);
  // Refused after it was copied: an untouched copy.
  Inode node = lstat(*overlay_, "/sub/large")->inode;
  ASSERT_EQ(error_of(overlay_->set_xattr(node, "user.x", as_bytes("2"), XattrMode::kCreate)), Code::kExists);
  std::filesystem::rename(path("/sub"), path("/away"));
  std::filesystem::create_directory(path("/other"));
  put("/other/large", "elsewhere");
  std::filesystem::create_directory_symlink("other", path("/sub"));
  close();
  open(OpenMode::kReadWrite);
  EXPECT_EQ(error_of(read_file(*overlay_, "/sub/large")), Code::kIo);
}

TEST_F(OverlayPartsTest, NothingIsCopiedBecauseAnApplyReplacesTheFile) {
  change();
  ASSERT_OK(put_apply_intent(*store_, as_bytes("an apply")));
  Awaited listener;
  replace_while_listening(listener);
  EXPECT_EQ(count_ranges(), 2U);
  EXPECT_EQ(read(), expected_);
  ASSERT_OK(overlay_->listen(nullptr));
}

TEST_F(OverlayPartsTest, WhatWasNotCopiedIsMissingAfterAnEditInPlaceAndTheRestIsNot) {
  change();
  put_at_end("/large", "by the host");
  EXPECT_EQ(read_own(), "AGENT");
  Result<std::string> all = read_file(*overlay_, "/large");
  ASSERT_EQ(error_of(all), Code::kIo);
  EXPECT_NE(all.error().message().find("bytes 0 to 1441791, 1507328 to 2999999 are lost"), std::string::npos)
      << all.error().message();
  EXPECT_EQ(overlay_->seek_data(lstat(*overlay_, "/large")->inode, 0).value(), 0U);
}

TEST_F(OverlayPartsTest, AFileWithMissingPartsIsNotWrittenUnlessItBecomesWhole) {
  change();
  put_at_end("/large", "by the host");
  EXPECT_EQ(error_of(write_at(*overlay_, "/large", kOwnAt, as_bytes("again"))), Code::kIo);
  EXPECT_EQ(error_of(append_file(*overlay_, "/large", as_bytes("more"))), Code::kIo);
  EXPECT_EQ(error_of(truncate(*overlay_, "/large", kOwnAt + 5)), Code::kIo);
  EXPECT_EQ(error_of(truncate(*overlay_, "/large", kPartsBytes + 5)), Code::kIo);
  Inode node = lstat(*overlay_, "/large")->inode;
  EXPECT_EQ(error_of(overlay_->allocate(node, AllocateMode::kPunchHole, kOwnAt, 5)), Code::kIo);
  EXPECT_EQ(read_own(), "AGENT");
  ASSERT_OK(write_file(*overlay_, "/large", as_bytes("anew")));
  EXPECT_EQ(read(), "anew");
}

}  // namespace
}  // namespace warren
