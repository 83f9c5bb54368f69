// Attributes, times that change automatically, and extended attributes.
#include "conformance/file_system_fixture.h"

#include "base/limits.h"

namespace warren::testing {
namespace {

class AttributesTest : public FileSystemTest {
 protected:
  Status set_xattr(Inode node, std::string_view name, std::string_view value, XattrMode mode = XattrMode::kAny) {
    return fs_.set_xattr(node, name, as_bytes(value), mode);
  }
  std::vector<Inode> one_of_each_type() {
    return {make_file("f"), make_dir("d"), make_symlink("l", "t"), make_fifo("p"), kRootInode};
  }
};

TEST_P(AttributesTest, WhatIsSetIsReturnedAndStays) {
  for (Inode node : one_of_each_type()) {
    Attributes before = attributes(node);
    Timestamp now = tick();
    Timestamp at{.seconds = -5, .nanoseconds = 999'999'999};
    Attributes after = must(fs_.set_attributes(
        node, {.mode = 06123, .uid = 4'000'000'000U, .gid = 9, .atime = SetTime::to(at), .mtime = SetTime::now()}));
    EXPECT_EQ(after.mode, (before.mode & S_IFMT) | 06123);
    EXPECT_EQ(after.owner, (Owner{.uid = 4'000'000'000U, .gid = 9}));
    EXPECT_EQ(after.atime, at);
    EXPECT_EQ(after.mtime, now);
    EXPECT_EQ(after.ctime, now);
    EXPECT_EQ(after.size, before.size);
    EXPECT_EQ(attributes(node), after);
  }
}

TEST_P(AttributesTest, WhatIsNotSetStays) {
  Inode file = make_file("f", "x");
  Attributes want = attributes(file);
  want.ctime = tick();
  want.owner.gid = 7;
  EXPECT_EQ(must(fs_.set_attributes(file, {.gid = 7})), want);
  want.ctime = tick();
  want.mode = S_IFREG | 0111;
  EXPECT_EQ(must(fs_.set_attributes(file, {.mode = 0111})), want);
  want.ctime = tick();
  want.mtime = {.seconds = 1, .nanoseconds = 2};
  EXPECT_EQ(must(fs_.set_attributes(file, {.mtime = SetTime::to(want.mtime)})), want);
}

TEST_P(AttributesTest, NoChangesChangeNothing) {
  Inode file = make_file("f", "x");
  Attributes before = attributes(file);
  tick();
  EXPECT_EQ(must(fs_.set_attributes(file, {})), before);
  EXPECT_EQ(attributes(file), before);
}

TEST_P(AttributesTest, TheTypeInAModeIsIgnored) {
  Inode file = make_file("f");
  EXPECT_EQ(must(fs_.set_attributes(file, {.mode = S_IFDIR | 0700})).mode, S_IFREG | 0700U);
}

TEST_P(AttributesTest, TimesOutsideASecondAreRefused) {
  Inode file = make_file("f", "x");
  Attributes before = attributes(file);
  tick();
  for (std::int32_t bad : {-1, 1'000'000'000}) {
    SetTime at = SetTime::to({.seconds = 1, .nanoseconds = bad});
    EXPECT_EQ(error_of(fs_.set_attributes(file, {.mode = 0, .size = 0, .atime = at})), Code::kInvalid);
    EXPECT_EQ(error_of(fs_.set_attributes(file, {.uid = 1, .mtime = at})), Code::kInvalid);
  }
  EXPECT_EQ(attributes(file), before);
}

TEST_P(AttributesTest, SettingTheSizeMovesTheTimesEvenToTheSameSize) {
  Inode file = make_file("f", "abc");
  for (std::uint64_t to : {3UL, 1UL, 10'000UL, 10'000UL}) {
    Timestamp old = attributes(file).atime;
    Timestamp now = tick();
    Attributes after = must(fs_.set_attributes(file, {.size = to}));
    EXPECT_EQ(after.size, to);
    EXPECT_EQ(after.mtime, now);
    EXPECT_EQ(after.ctime, now);
    EXPECT_EQ(after.atime, old);
  }
}

TEST_P(AttributesTest, ASizeAndAGivenMtimeGoTogether) {
  Inode file = make_file("f", "abc");
  Timestamp at{.seconds = 12, .nanoseconds = 34};
  tick();
  EXPECT_EQ(must(fs_.set_attributes(file, {.size = 1, .mtime = SetTime::to(at)})).mtime, at);
}

TEST_P(AttributesTest, ARefusedTruncateLeavesALargeFileUnchanged) {
  Inode file = make_file("f", "head");
  std::uint64_t size = limits::kShrinkBytes * 4;
  must(fs_.set_attributes(file, {.size = size}));
  SetTime bad = SetTime::to({.seconds = 1, .nanoseconds = 1'000'000'000});
  EXPECT_EQ(error_of(fs_.set_attributes(file, {.size = 1, .mtime = bad})), Code::kInvalid);
  EXPECT_EQ(fs_.get_attributes(file)->size, size);
}

TEST_P(AttributesTest, OnlyRegularFilesHaveASizeToSet) {
  EXPECT_EQ(error_of(fs_.set_attributes(make_dir("d"), {.mode = 0, .size = 0})), Code::kIsDirectory);
  EXPECT_EQ(error_of(fs_.set_attributes(make_symlink("l", "t"), {.mode = 0, .size = 0})), Code::kInvalid);
  EXPECT_EQ(error_of(fs_.set_attributes(make_fifo("p"), {.mode = 0, .size = 0})), Code::kInvalid);
  EXPECT_EQ(must(fs_.lookup(kRootInode, "d")).mode, S_IFDIR | 0755U);
}

TEST_P(AttributesTest, AnUnknownNodeIsStale) {
  Inode unknown{987'654'321};
  EXPECT_EQ(error_of(fs_.get_attributes(unknown)), Code::kStale);
  EXPECT_EQ(error_of(fs_.set_attributes(unknown, {.mode = 0})), Code::kStale);
  EXPECT_EQ(error_of(fs_.set_attributes(unknown, {})), Code::kStale);
  EXPECT_EQ(error_of(fs_.get_xattr(unknown, "user.x")), Code::kStale);
  EXPECT_EQ(error_of(fs_.list_xattrs(unknown)), Code::kStale);
  EXPECT_EQ(error_of(set_xattr(unknown, "user.x", "")), Code::kStale);
  EXPECT_EQ(error_of(fs_.remove_xattr(unknown, "user.x")), Code::kStale);
}

TEST_P(AttributesTest, MakingANameMovesTheDirectorysTimes) {
  Inode dir = make_dir("d");
  auto expect_moved = [&](const char* what) {
    Attributes now = attributes(dir);
    EXPECT_EQ(now.mtime, clock_.now()) << what;
    EXPECT_EQ(now.ctime, clock_.now()) << what;
    EXPECT_LT(now.atime, clock_.now()) << what;
  };
  tick();
  Inode file = make_file("f", "", dir);
  expect_moved("make_node");
  tick();
  make_dir("e", dir);
  expect_moved("make_dir");
  tick();
  make_symlink("l", "t", dir);
  expect_moved("make_symlink");
  tick();
  fs_.release(must(fs_.create(dir, "c", {})).inode);
  expect_moved("create");
  tick();
  must(fs_.link(file, dir, "g"));
  expect_moved("link");
  tick();
  must(fs_.unlink(dir, "g"));
  expect_moved("unlink");
  tick();
  must(fs_.remove_dir(dir, "e"));
  expect_moved("remove_dir");
}

TEST_P(AttributesTest, ChangesBelowADirectoryDoNotTouchIt) {
  Inode dir = make_dir("d");
  Inode file = make_file("f", "", dir);
  Attributes before = attributes(dir);
  tick();
  write(file, 0, "x");
  must(fs_.set_attributes(file, {.mode = 0}));
  make_file("g", "", make_dir("elsewhere"));
  EXPECT_EQ(attributes(dir), before);
}

TEST_P(AttributesTest, LinkingAndUnlinkingMoveTheNodesCtimeOnly) {
  Inode file = make_file("f", "x");
  Attributes want = attributes(file);
  want.ctime = tick();
  want.nlink = 2;
  EXPECT_EQ(must(fs_.link(file, kRootInode, "g")), want);
  want.ctime = tick();
  want.nlink = 1;
  must(fs_.unlink(kRootInode, "f"));
  EXPECT_EQ(attributes(file), want);
}

TEST_P(AttributesTest, WritingMovesMtimeAndCtimeAndReadingMovesNothing) {
  Inode file = make_file("f", "x");
  Attributes want = attributes(file);
  tick();
  read(file);
  names(kRootInode);
  must(fs_.lookup(kRootInode, "f"));
  must(fs_.open(file));
  fs_.release(file);
  EXPECT_EQ(attributes(file), want);
  want.mtime = want.ctime = tick();
  write(file, 0, "y");
  EXPECT_EQ(attributes(file), want);
  want.mtime = want.ctime = tick();
  want.size = 2;
  must(fs_.append(file, as_bytes("z")));
  EXPECT_EQ(attributes(file), want);
}

TEST_P(AttributesTest, AllocatingMovesTheTimesOnlyWhenItChangesSomething) {
  Inode file = make_file("f", "abc");
  struct Case {
    AllocateMode mode;
    std::uint64_t length;
    bool moves;
  };
  for (Case each : {Case{AllocateMode::kAllocate, 3, false}, Case{AllocateMode::kKeepSize, 9000, false},
                    Case{AllocateMode::kPunchHole, 1, true}, Case{AllocateMode::kZeroRangeKeepSize, 1, true},
                    Case{AllocateMode::kZeroRange, 1, true}, Case{AllocateMode::kAllocate, 4, true}}) {
    Attributes before = attributes(file);
    Timestamp now = tick();
    must(fs_.allocate(file, each.mode, 0, each.length));
    EXPECT_EQ(attributes(file).mtime, each.moves ? now : before.mtime);
    EXPECT_EQ(attributes(file).ctime, each.moves ? now : before.ctime);
  }
}

TEST_P(AttributesTest, AFailedCallMovesNoTimes) {
  Inode dir = make_dir("d");
  make_file("f", "", dir);
  Attributes root = attributes(kRootInode);
  Attributes before = attributes(dir);
  tick();
  EXPECT_EQ(error_of(fs_.make_dir(dir, "f", {})), Code::kExists);
  EXPECT_EQ(error_of(fs_.remove_dir(kRootInode, "d")), Code::kNotEmpty);
  EXPECT_EQ(error_of(fs_.unlink(kRootInode, "d")), Code::kIsDirectory);
  EXPECT_EQ(error_of(fs_.link(dir, dir, "g")), Code::kNotPermitted);
  EXPECT_EQ(attributes(dir), before);
  EXPECT_EQ(attributes(kRootInode), root);
}

TEST_P(AttributesTest, ExtendedAttributesAreKeptOnEveryType) {
  std::string value("\0\xff binary", 9);
  for (Inode node : one_of_each_type()) {
    EXPECT_TRUE(must(fs_.list_xattrs(node)).empty());
    EXPECT_OK(set_xattr(node, "user.b", value));
    EXPECT_OK(set_xattr(node, "user.a", ""));
    EXPECT_OK(set_xattr(node, "\xff", "x"));
    EXPECT_EQ(must(fs_.get_xattr(node, "user.b")), value);
    EXPECT_EQ(must(fs_.get_xattr(node, "user.a")), "");
    EXPECT_EQ(must(fs_.list_xattrs(node)), (std::vector<std::string>{"user.a", "user.b", "\xff"}));
    EXPECT_OK(set_xattr(node, "user.b", "other"));
    EXPECT_EQ(must(fs_.get_xattr(node, "user.b")), "other");
    EXPECT_OK(fs_.remove_xattr(node, "user.b"));
    EXPECT_EQ(error_of(fs_.get_xattr(node, "user.b")), Code::kNoData);
    EXPECT_EQ(error_of(fs_.remove_xattr(node, "user.b")), Code::kNoData);
  }
}

TEST_P(AttributesTest, ExtendedAttributesCanBeCreatedOrReplacedOnly) {
  Inode file = make_file("f");
  EXPECT_EQ(error_of(set_xattr(file, "user.x", "1", XattrMode::kReplace)), Code::kNoData);
  EXPECT_OK(set_xattr(file, "user.x", "1", XattrMode::kCreate));
  EXPECT_EQ(error_of(set_xattr(file, "user.x", "2", XattrMode::kCreate)), Code::kExists);
  EXPECT_EQ(must(fs_.get_xattr(file, "user.x")), "1");
  EXPECT_OK(set_xattr(file, "user.x", "3", XattrMode::kReplace));
  EXPECT_EQ(must(fs_.get_xattr(file, "user.x")), "3");
}

TEST_P(AttributesTest, ExtendedAttributesHaveLimits) {
  Inode file = make_file("f");
  EXPECT_EQ(error_of(set_xattr(file, "", "x")), Code::kInvalid);
  EXPECT_EQ(error_of(set_xattr(file, std::string_view("a\0b", 3), "x")), Code::kInvalid);
  EXPECT_EQ(error_of(set_xattr(file, std::string(limits::kXattrNameBytes + 1, 'n'), "x")), Code::kRange);
  EXPECT_EQ(error_of(set_xattr(file, "user.x", std::string(limits::kXattrValueBytes + 1, 'v'))), Code::kTooLarge);
  EXPECT_TRUE(must(fs_.list_xattrs(file)).empty());
  std::string name(limits::kXattrNameBytes, 'n');
  std::string value(limits::kXattrValueBytes, 'v');
  EXPECT_OK(set_xattr(file, name, value));
  EXPECT_EQ(must(fs_.get_xattr(file, name)), value);
}

TEST_P(AttributesTest, ExtendedAttributesMoveCtimeOnly) {
  Inode file = make_file("f", "x");
  Attributes want = attributes(file);
  want.ctime = tick();
  must(set_xattr(file, "user.x", "1"));
  EXPECT_EQ(attributes(file), want);
  tick();
  must(fs_.get_xattr(file, "user.x"));
  EXPECT_EQ(error_of(set_xattr(file, "user.x", "1", XattrMode::kCreate)), Code::kExists);
  EXPECT_EQ(error_of(fs_.remove_xattr(file, "user.none")), Code::kNoData);
  EXPECT_EQ(attributes(file), want);
  want.ctime = tick();
  must(fs_.remove_xattr(file, "user.x"));
  EXPECT_EQ(attributes(file), want);
}

TEST_P(AttributesTest, ANewFileInheritsNoExtendedAttributesOfAnOldOne) {
  Inode old = make_file("f");
  must(set_xattr(old, "user.x", "1"));
  must(fs_.unlink(kRootInode, "f"));
  EXPECT_TRUE(must(fs_.list_xattrs(make_file("f"))).empty());
}

WARREN_EACH_FILE_SYSTEM(AttributesTest);

}  // namespace
}  // namespace warren::testing
