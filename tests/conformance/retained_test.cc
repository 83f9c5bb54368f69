// Nodes that outlive their last name.
#include "conformance/file_system_fixture.h"

namespace warren::testing {
namespace {

class RetainedTest : public FileSystemTest {};

TEST_P(RetainedTest, AnUnlinkedFileLivesUntilItIsForgotten) {
  Inode file = make_file("f", "still here");
  must(fs_.retain(file));
  must(fs_.unlink(kRootInode, "f"));
  EXPECT_FALSE(has_name(kRootInode, "f"));
  EXPECT_EQ(attributes(file).nlink, 0U);
  EXPECT_EQ(read(file), "still here");
  write(file, 10, "!");
  EXPECT_EQ(read(file), "still here!");
  EXPECT_OK(fs_.set_attributes(file, {.mode = 0600, .size = 5}));
  EXPECT_OK(fs_.set_xattr(file, "user.x", as_bytes("v"), XattrMode::kAny));
  EXPECT_EQ(must(fs_.get_xattr(file, "user.x")), "v");
  EXPECT_OK(fs_.open(file));
  fs_.release(file);
  fs_.forget(file, 1);
  EXPECT_EQ(error_of(fs_.get_attributes(file)), Code::kStale);
  EXPECT_EQ(error_of(fs_.write(file, 0, as_bytes("x"))), Code::kStale);
  EXPECT_EQ(error_of(fs_.retain(file)), Code::kStale);
}

TEST_P(RetainedTest, UnlinkingMovesTheCtimeOfARetainedNode) {
  Inode file = make_file("f");
  must(fs_.retain(file));
  Timestamp now = tick();
  must(fs_.unlink(kRootInode, "f"));
  EXPECT_EQ(attributes(file).ctime, now);
}

TEST_P(RetainedTest, ANodeIsForgottenAsOftenAsItWasRetained) {
  Inode file = make_file("f");
  for (int i = 0; i < 5; ++i) must(fs_.retain(file));
  must(fs_.unlink(kRootInode, "f"));
  fs_.forget(file, 2);
  fs_.forget(file, 2);
  EXPECT_OK(fs_.get_attributes(file));
  fs_.forget(file, 1);
  EXPECT_EQ(error_of(fs_.get_attributes(file)), Code::kStale);
}

TEST_P(RetainedTest, ForgettingTooMuchOrTheUnknownIsHarmless) {
  Inode file = make_file("f", "x");
  fs_.forget(file, 100);
  fs_.forget(Inode{987'654'321}, 1);
  fs_.release(Inode{987'654'321});
  fs_.forget(kRootInode, 100);
  EXPECT_EQ(read(file), "x");
  must(fs_.retain(file));
  fs_.forget(file, UINT64_MAX);
  EXPECT_EQ(read(file), "x");
  must(fs_.retain(file));
  must(fs_.unlink(kRootInode, "f"));
  EXPECT_OK(fs_.get_attributes(file));
  fs_.forget(file, 1);
  EXPECT_EQ(error_of(fs_.get_attributes(file)), Code::kStale);
}

TEST_P(RetainedTest, RetainingTheUnknownIsStale) {
  EXPECT_EQ(error_of(fs_.retain(Inode{987'654'321})), Code::kStale);
  EXPECT_EQ(error_of(fs_.open(Inode{987'654'321})), Code::kStale);
}

TEST_P(RetainedTest, CreateAndOpenRetain) {
  Inode file = must(fs_.create(kRootInode, "f", {.mode = 0644})).inode;
  must(fs_.open(file));
  must(fs_.unlink(kRootInode, "f"));
  fs_.release(file);
  write(file, 0, "x");
  EXPECT_EQ(read(file), "x");
  fs_.release(file);
  EXPECT_EQ(error_of(fs_.get_attributes(file)), Code::kStale);
}

TEST_P(RetainedTest, ARemovedFileGetsNoNewName) {
  Inode file = must(fs_.create(kRootInode, "f", {})).inode;
  must(fs_.unlink(kRootInode, "f"));
  EXPECT_EQ(error_of(fs_.link(file, kRootInode, "g")), Code::kNotFound);
  fs_.release(file);
}

TEST_P(RetainedTest, AReplacedFileLivesUntilItIsForgotten) {
  Inode old = must(fs_.create(kRootInode, "f", {})).inode;
  write(old, 0, "old");
  make_file("g", "new");
  must(fs_.rename(kRootInode, "g", kRootInode, "f", RenameMode::kReplace));
  EXPECT_EQ(attributes(old).nlink, 0U);
  EXPECT_EQ(read(old), "old");
  fs_.release(old);
  EXPECT_EQ(error_of(fs_.get_attributes(old)), Code::kStale);
}

TEST_P(RetainedTest, NothingIsMadeOrFoundInARemovedDirectory) {
  Inode dir = make_dir("d");
  Inode file = make_file("f");
  must(fs_.retain(dir));
  must(fs_.remove_dir(kRootInode, "d"));
  EXPECT_EQ(attributes(dir).nlink, 0U);
  EXPECT_TRUE(attributes(dir).is_directory());
  EXPECT_EQ(error_of(fs_.lookup(dir, "x")), Code::kNotFound);
  EXPECT_EQ(error_of(fs_.make_node(dir, "x", {})), Code::kNotFound);
  EXPECT_EQ(error_of(fs_.make_dir(dir, "x", {})), Code::kNotFound);
  EXPECT_EQ(error_of(fs_.make_symlink(dir, "x", "t", {})), Code::kNotFound);
  EXPECT_EQ(error_of(fs_.create(dir, "x", {})), Code::kNotFound);
  EXPECT_EQ(error_of(fs_.link(file, dir, "x")), Code::kNotFound);
  EXPECT_EQ(error_of(fs_.unlink(dir, "x")), Code::kNotFound);
  EXPECT_EQ(error_of(fs_.remove_dir(dir, "x")), Code::kNotFound);
  EXPECT_TRUE(names(dir).empty());
  EXPECT_OK(fs_.set_attributes(dir, {.mode = 0700}));
  fs_.forget(dir, 1);
  EXPECT_EQ(error_of(fs_.lookup(dir, "x")), Code::kStale);
}

TEST_P(RetainedTest, ARetainedNodeWithANameStaysWhenForgotten) {
  Inode dir = make_dir("d");
  must(fs_.retain(dir));
  fs_.forget(dir, 1);
  EXPECT_OK(fs_.get_attributes(dir));
  EXPECT_TRUE(has_name(kRootInode, "d"));
}

WARREN_EACH_FILE_SYSTEM(RetainedTest);

}  // namespace
}  // namespace warren::testing
