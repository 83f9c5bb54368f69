// Names: lookup, creation, linking and removal.
#include "conformance/file_system_fixture.h"

#include "base/limits.h"

namespace warren::testing {
namespace {

const Inode kUnknown{987'654'321};

TEST_P(FileSystemTest, ANewFilesystemHasAnEmptyRoot) {
  Attributes root = attributes(kRootInode);
  EXPECT_TRUE(root.is_directory());
  EXPECT_EQ(root.nlink, 2U);
  EXPECT_TRUE(names(kRootInode).empty());
}

TEST_P(FileSystemTest, WhatWasMadeIsFound) {
  Attributes made = must(fs_.make_node(kRootInode, "f", {.mode = S_IFREG | 0640, .owner = {.uid = 5, .gid = 6}}));
  EXPECT_EQ(must(fs_.lookup(kRootInode, "f")), made);
  EXPECT_EQ(must(fs_.get_attributes(made.inode)), made);
  EXPECT_EQ(made.mode, S_IFREG | 0640U);
  EXPECT_EQ(made.nlink, 1U);
  EXPECT_EQ(made.size, 0U);
  EXPECT_EQ(made.owner, (Owner{.uid = 5, .gid = 6}));
  EXPECT_EQ(made.mtime, clock_.now());
}

TEST_P(FileSystemTest, AMissingNameIsNotFound) {
  EXPECT_EQ(error_of(fs_.lookup(kRootInode, "none")), Code::kNotFound);
  EXPECT_EQ(error_of(fs_.unlink(kRootInode, "none")), Code::kNotFound);
  EXPECT_EQ(error_of(fs_.remove_dir(kRootInode, "none")), Code::kNotFound);
}

TEST_P(FileSystemTest, NamesAreBytes) {
  for (std::string name :
       {"\xff\xfe\x80", "new\nline", "\x01", "grün", "grun\xcc\x88", " ", "...", "a\\b", "'", "%s"}) {
    Inode made = make_file(name, name);
    EXPECT_EQ(must(fs_.lookup(kRootInode, name)).inode, made);
    EXPECT_EQ(names(kRootInode), std::vector<std::string>{name});
    EXPECT_OK(fs_.unlink(kRootInode, name));
  }
}

TEST_P(FileSystemTest, NamesThatDifferInOneByteAreDifferent) {
  Inode lower = make_file("a");
  Inode upper = make_file("A");
  Inode spaced = make_file("a ");
  EXPECT_NE(lower, upper);
  EXPECT_NE(lower, spaced);
  EXPECT_EQ(must(fs_.lookup(kRootInode, "a")).inode, lower);
}

TEST_P(FileSystemTest, ANameHasAtMost255Bytes) {
  std::string longest(255, 'n');
  Inode made = make_file(longest);
  EXPECT_EQ(must(fs_.lookup(kRootInode, longest)).inode, made);
  std::string over(256, 'n');
  EXPECT_EQ(error_of(fs_.lookup(kRootInode, over)), Code::kNameTooLong);
  EXPECT_EQ(error_of(fs_.make_node(kRootInode, over, {})), Code::kNameTooLong);
  EXPECT_EQ(error_of(fs_.make_dir(kRootInode, over, {})), Code::kNameTooLong);
  EXPECT_EQ(error_of(fs_.make_symlink(kRootInode, over, "t", {})), Code::kNameTooLong);
  EXPECT_EQ(error_of(fs_.create(kRootInode, over, {})), Code::kNameTooLong);
  EXPECT_EQ(error_of(fs_.link(made, kRootInode, over)), Code::kNameTooLong);
  EXPECT_EQ(error_of(fs_.unlink(kRootInode, over)), Code::kNameTooLong);
  EXPECT_EQ(error_of(fs_.remove_dir(kRootInode, over)), Code::kNameTooLong);
  EXPECT_EQ(error_of(fs_.rename(kRootInode, longest, kRootInode, over, RenameMode::kReplace)), Code::kNameTooLong);
  EXPECT_EQ(names(kRootInode), std::vector<std::string>{longest});
}

TEST_P(FileSystemTest, ABadNameIsRefusedBeforeAnythingElse) {
  struct Case {
    std::string_view name;
    Code code;
  };
  for (Case bad : {Case{"", Code::kNotFound}, Case{".", Code::kInvalid}, Case{"..", Code::kInvalid},
                   Case{"a/b", Code::kInvalid}, Case{std::string_view("a\0b", 3), Code::kInvalid}}) {
    EXPECT_EQ(error_of(fs_.lookup(kUnknown, bad.name)), bad.code);
    EXPECT_EQ(error_of(fs_.make_node(kUnknown, bad.name, {})), bad.code);
    EXPECT_EQ(error_of(fs_.make_dir(kUnknown, bad.name, {})), bad.code);
    EXPECT_EQ(error_of(fs_.make_symlink(kUnknown, bad.name, "t", {})), bad.code);
    EXPECT_EQ(error_of(fs_.create(kUnknown, bad.name, {})), bad.code);
    EXPECT_EQ(error_of(fs_.link(kUnknown, kUnknown, bad.name)), bad.code);
    EXPECT_EQ(error_of(fs_.unlink(kUnknown, bad.name)), bad.code);
    EXPECT_EQ(error_of(fs_.remove_dir(kUnknown, bad.name)), bad.code);
    EXPECT_EQ(error_of(fs_.rename(kUnknown, bad.name, kUnknown, "x", RenameMode::kReplace)), bad.code);
    EXPECT_EQ(error_of(fs_.rename(kUnknown, "x", kUnknown, bad.name, RenameMode::kReplace)), bad.code);
  }
}

TEST_P(FileSystemTest, AnUnknownParentIsStale) {
  Inode file = make_file("f");
  EXPECT_EQ(error_of(fs_.lookup(kUnknown, "x")), Code::kStale);
  EXPECT_EQ(error_of(fs_.make_node(kUnknown, "x", {})), Code::kStale);
  EXPECT_EQ(error_of(fs_.make_dir(kUnknown, "x", {})), Code::kStale);
  EXPECT_EQ(error_of(fs_.make_symlink(kUnknown, "x", "t", {})), Code::kStale);
  EXPECT_EQ(error_of(fs_.create(kUnknown, "x", {})), Code::kStale);
  EXPECT_EQ(error_of(fs_.link(file, kUnknown, "x")), Code::kStale);
  EXPECT_EQ(error_of(fs_.unlink(kUnknown, "x")), Code::kStale);
  EXPECT_EQ(error_of(fs_.remove_dir(kUnknown, "x")), Code::kStale);
  EXPECT_EQ(error_of(fs_.rename(kUnknown, "x", kRootInode, "y", RenameMode::kReplace)), Code::kStale);
  EXPECT_EQ(error_of(fs_.rename(kRootInode, "f", kUnknown, "y", RenameMode::kReplace)), Code::kStale);
  EXPECT_EQ(error_of(fs_.open_dir(kUnknown)), Code::kStale);
}

TEST_P(FileSystemTest, AParentThatIsNotADirectoryIsRefused) {
  for (Inode parent : {make_file("f"), make_symlink("l", "/"), make_fifo("p")}) {
    EXPECT_EQ(error_of(fs_.lookup(parent, "x")), Code::kNotDirectory);
    EXPECT_EQ(error_of(fs_.make_node(parent, "x", {})), Code::kNotDirectory);
    EXPECT_EQ(error_of(fs_.make_dir(parent, "x", {})), Code::kNotDirectory);
    EXPECT_EQ(error_of(fs_.make_symlink(parent, "x", "t", {})), Code::kNotDirectory);
    EXPECT_EQ(error_of(fs_.create(parent, "x", {})), Code::kNotDirectory);
    EXPECT_EQ(error_of(fs_.link(parent, parent, "x")), Code::kNotDirectory);
    EXPECT_EQ(error_of(fs_.unlink(parent, "x")), Code::kNotDirectory);
    EXPECT_EQ(error_of(fs_.remove_dir(parent, "x")), Code::kNotDirectory);
    EXPECT_EQ(error_of(fs_.rename(parent, "x", kRootInode, "y", RenameMode::kReplace)), Code::kNotDirectory);
    EXPECT_EQ(error_of(fs_.rename(kRootInode, "f", parent, "y", RenameMode::kReplace)), Code::kNotDirectory);
    EXPECT_EQ(error_of(fs_.open_dir(parent)), Code::kNotDirectory);
  }
}

TEST_P(FileSystemTest, NothingIsMadeOverAnExistingName) {
  make_file("f", "kept");
  make_dir("d");
  make_symlink("l", "nowhere");
  for (std::string_view name : {"f", "d", "l"}) {
    EXPECT_EQ(error_of(fs_.make_node(kRootInode, name, {})), Code::kExists);
    EXPECT_EQ(error_of(fs_.make_dir(kRootInode, name, {})), Code::kExists);
    EXPECT_EQ(error_of(fs_.make_symlink(kRootInode, name, "t", {})), Code::kExists);
    EXPECT_EQ(error_of(fs_.create(kRootInode, name, {})), Code::kExists);
    EXPECT_EQ(error_of(fs_.link(must(fs_.lookup(kRootInode, "f")).inode, kRootInode, name)), Code::kExists);
  }
  EXPECT_EQ(read(must(fs_.lookup(kRootInode, "f")).inode), "kept");
}

TEST_P(FileSystemTest, EveryTypeOfNodeCanBeMade) {
  for (std::uint32_t type : {S_IFREG, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK}) {
    Attributes made = must(fs_.make_node(kRootInode, "n", {.mode = type | 0604, .rdev = 0x0102}));
    EXPECT_EQ(made.mode, type | 0604);
    EXPECT_EQ(made.rdev, type == S_IFCHR || type == S_IFBLK ? 0x0102U : 0U);
    EXPECT_EQ(attributes(made.inode), made);
    EXPECT_OK(fs_.unlink(kRootInode, "n"));
  }
}

TEST_P(FileSystemTest, NoTypeMeansARegularFile) {
  EXPECT_EQ(must(fs_.make_node(kRootInode, "n", {.mode = 0600})).mode, S_IFREG | 0600U);
}

TEST_P(FileSystemTest, DirectoriesAndLinksAreNotMadeAsNodes) {
  EXPECT_EQ(error_of(fs_.make_node(kRootInode, "n", {.mode = S_IFDIR | 0755})), Code::kInvalid);
  EXPECT_EQ(error_of(fs_.make_node(kRootInode, "n", {.mode = S_IFLNK | 0777})), Code::kInvalid);
  EXPECT_EQ(error_of(fs_.make_node(kRootInode, "n", {.mode = S_IFMT | 0755})), Code::kInvalid);
  EXPECT_TRUE(names(kRootInode).empty());
}

TEST_P(FileSystemTest, OnlyTheTwelvePermissionBitsOfAModeAreTaken) {
  EXPECT_EQ(must(fs_.create(kRootInode, "f", {.mode = 0xFFFF0000U | S_IFDIR | 07654})).mode, S_IFREG | 07654U);
  EXPECT_EQ(must(fs_.make_dir(kRootInode, "d", {.mode = 0xFFFF0000U | S_IFREG | 01777})).mode, S_IFDIR | 01777U);
}

TEST_P(FileSystemTest, ASymlinkKeepsItsTarget) {
  std::string target = "../\xff/" + std::string(4000, 'x') + "//";
  Attributes made = must(fs_.make_symlink(kRootInode, "l", target, {.uid = 1, .gid = 2}));
  EXPECT_EQ(made.mode, S_IFLNK | 0777U);
  EXPECT_EQ(made.size, target.size());
  EXPECT_EQ(made.owner, (Owner{.uid = 1, .gid = 2}));
  EXPECT_EQ(must(fs_.read_link(made.inode)), target);
  EXPECT_EQ(attributes(made.inode), made);
}

TEST_P(FileSystemTest, ASymlinkWithABadTargetIsRefused) {
  EXPECT_EQ(error_of(fs_.make_symlink(kRootInode, "l", "", {})), Code::kNotFound);
  EXPECT_EQ(error_of(fs_.make_symlink(kRootInode, "l", std::string(4096, 't'), {})), Code::kNameTooLong);
  EXPECT_EQ(error_of(fs_.make_symlink(kRootInode, "l", std::string_view("a\0b", 3), {})), Code::kInvalid);
  EXPECT_OK(fs_.make_symlink(kRootInode, "l", std::string(4095, 't'), {}));
}

TEST_P(FileSystemTest, OnlyASymlinkHasATarget) {
  for (Inode node : {make_file("f"), make_dir("d"), make_fifo("p")}) {
    EXPECT_EQ(error_of(fs_.read_link(node)), Code::kInvalid);
  }
  EXPECT_EQ(error_of(fs_.read_link(kUnknown)), Code::kStale);
}

TEST_P(FileSystemTest, UnlinkIsForFilesAndRemoveDirForDirectories) {
  Inode dir = make_dir("d");
  make_file("f");
  make_symlink("l", "d");
  EXPECT_EQ(error_of(fs_.unlink(kRootInode, "d")), Code::kIsDirectory);
  EXPECT_EQ(error_of(fs_.remove_dir(kRootInode, "f")), Code::kNotDirectory);
  EXPECT_EQ(error_of(fs_.remove_dir(kRootInode, "l")), Code::kNotDirectory);
  make_file("inside", "", dir);
  EXPECT_EQ(error_of(fs_.remove_dir(kRootInode, "d")), Code::kNotEmpty);
  EXPECT_OK(fs_.unlink(dir, "inside"));
  EXPECT_OK(fs_.remove_dir(kRootInode, "d"));
  EXPECT_OK(fs_.unlink(kRootInode, "f"));
  EXPECT_OK(fs_.unlink(kRootInode, "l"));
  EXPECT_TRUE(names(kRootInode).empty());
}

TEST_P(FileSystemTest, ANodeWithoutNamesIsGone) {
  Inode file = make_file("f", "x");
  Inode dir = make_dir("d");
  EXPECT_OK(fs_.unlink(kRootInode, "f"));
  EXPECT_OK(fs_.remove_dir(kRootInode, "d"));
  EXPECT_EQ(error_of(fs_.get_attributes(file)), Code::kStale);
  EXPECT_EQ(error_of(fs_.get_attributes(dir)), Code::kStale);
  EXPECT_EQ(error_of(fs_.lookup(dir, "x")), Code::kStale);
  EXPECT_EQ(error_of(fs_.open(file)), Code::kStale);
}

TEST_P(FileSystemTest, ALinkIsAnotherNameOfTheSameFile) {
  Inode file = make_file("f", "shared");
  Inode dir = make_dir("d");
  Attributes linked = must(fs_.link(file, dir, "g"));
  EXPECT_EQ(linked.inode, file);
  EXPECT_EQ(linked.nlink, 2U);
  EXPECT_OK(fs_.unlink(kRootInode, "f"));
  EXPECT_EQ(must(fs_.lookup(dir, "g")).nlink, 1U);
  EXPECT_EQ(read(file), "shared");
}

TEST_P(FileSystemTest, SymlinksAndSpecialFilesCanBeLinkedToo) {
  EXPECT_EQ(must(fs_.link(make_symlink("l", "t"), kRootInode, "l2")).nlink, 2U);
  EXPECT_EQ(must(fs_.link(make_fifo("p"), kRootInode, "p2")).nlink, 2U);
}

TEST_P(FileSystemTest, ADirectoryHasOneName) {
  Inode dir = make_dir("d");
  EXPECT_EQ(error_of(fs_.link(dir, kRootInode, "e")), Code::kNotPermitted);
  EXPECT_EQ(error_of(fs_.link(kRootInode, dir, "e")), Code::kNotPermitted);
  EXPECT_EQ(error_of(fs_.link(kUnknown, kRootInode, "e")), Code::kStale);
}

TEST_P(FileSystemTest, AFileHasABoundedNumberOfNames) {
  Inode file = make_file("0");
  auto unit = must(fs_.begin(UnitAccess::kWrite));
  for (std::uint32_t i = 1; i < limits::kLinks; ++i) must(fs_.link(file, kRootInode, std::to_string(i)));
  EXPECT_EQ(error_of(fs_.link(file, kRootInode, "one more")), Code::kTooManyLinks);
  EXPECT_EQ(attributes(file).nlink, limits::kLinks);
  EXPECT_OK(unit->commit());
}

TEST_P(FileSystemTest, ADirectoryCountsItsSubdirectories) {
  Inode dir = make_dir("d");
  EXPECT_EQ(attributes(kRootInode).nlink, 3U);
  make_dir("a", dir);
  Inode b = make_dir("b", dir);
  make_file("f", "", dir);
  make_symlink("l", "a", dir);
  EXPECT_EQ(attributes(dir).nlink, 4U);
  EXPECT_EQ(must(fs_.lookup(kRootInode, "d")).nlink, 4U);
  EXPECT_OK(fs_.rename(dir, "b", kRootInode, "b", RenameMode::kReplace));
  EXPECT_EQ(attributes(dir).nlink, 3U);
  EXPECT_EQ(attributes(kRootInode).nlink, 4U);
  EXPECT_EQ(attributes(b).nlink, 2U);
  EXPECT_OK(fs_.remove_dir(kRootInode, "b"));
  EXPECT_EQ(attributes(kRootInode).nlink, 3U);
}

TEST_P(FileSystemTest, ASetgidDirectoryPassesItsGroupOn) {
  Inode shared = must(fs_.make_dir(kRootInode, "s", {.mode = 02775, .owner = {.uid = 1, .gid = 77}})).inode;
  NewNode mine{.mode = 0600, .owner = {.uid = 5, .gid = 6}};
  Attributes dir = must(fs_.make_dir(shared, "d", mine));
  EXPECT_EQ(dir.owner, (Owner{.uid = 5, .gid = 77}));
  EXPECT_EQ(dir.mode, S_IFDIR | 02600U);
  Attributes file = must(fs_.make_node(shared, "f", mine));
  EXPECT_EQ(file.owner, (Owner{.uid = 5, .gid = 77}));
  EXPECT_EQ(file.mode, S_IFREG | 0600U);
  EXPECT_EQ(must(fs_.create(shared, "c", mine)).owner.gid, 77U);
  Attributes link = must(fs_.make_symlink(shared, "l", "t", mine.owner));
  EXPECT_EQ(link.owner.gid, 77U);
  EXPECT_EQ(link.mode, S_IFLNK | 0777U);
}

TEST_P(FileSystemTest, StatsCountNodes) {
  std::uint64_t before = must(fs_.stats(kRootInode)).used_inodes;
  make_file("f");
  make_dir("d");
  EXPECT_EQ(must(fs_.stats(kRootInode)).used_inodes, before + 2);
  EXPECT_GT(must(fs_.stats(kRootInode)).block_bytes, 0U);
}

TEST_P(FileSystemTest, UnitsNestAndSeeTheirOwnChanges) {
  auto outer = must(fs_.begin(UnitAccess::kWrite));
  make_file("a");
  {
    auto inner = must(fs_.begin(UnitAccess::kWrite));
    make_file("b");
    EXPECT_OK(inner->commit());
  }
  {
    auto reading = must(fs_.begin(UnitAccess::kRead));
    EXPECT_TRUE(has_name(kRootInode, "a"));
  }
  EXPECT_OK(outer->commit());
  outer.reset();
  EXPECT_TRUE(has_name(kRootInode, "a"));
  EXPECT_TRUE(has_name(kRootInode, "b"));
}

TEST_P(FileSystemTest, AnInnerUnitThatWasNotCommittedFailsTheOuterOne) {
  make_file("old");
  {
    auto outer = must(fs_.begin(UnitAccess::kWrite));
    make_file("a");
    {
      auto inner = must(fs_.begin(UnitAccess::kWrite));
      make_file("b");
    }
    EXPECT_EQ(error_of(outer->commit()), Code::kIo);
  }
  EXPECT_FALSE(has_name(kRootInode, "a"));
  EXPECT_FALSE(has_name(kRootInode, "b"));
  {
    auto outer = must(fs_.begin(UnitAccess::kWrite));
    make_file("c");
    { auto inner = must(fs_.begin(UnitAccess::kWrite)); }  // changes nothing
    EXPECT_OK(outer->commit());
  }
  EXPECT_TRUE(has_name(kRootInode, "c"));
  EXPECT_TRUE(has_name(kRootInode, "old"));
}

TEST_P(FileSystemTest, AFailedCallInAUnitDoesNotSpoilTheRest) {
  auto unit = must(fs_.begin(UnitAccess::kWrite));
  make_file("a");
  EXPECT_EQ(error_of(fs_.make_dir(kRootInode, "a", {})), Code::kExists);
  EXPECT_EQ(error_of(fs_.rename(kRootInode, "none", kRootInode, "b", RenameMode::kReplace)), Code::kNotFound);
  make_file("b");
  EXPECT_OK(unit->commit());
  unit.reset();
  EXPECT_TRUE(has_name(kRootInode, "a"));
  EXPECT_TRUE(has_name(kRootInode, "b"));
}

WARREN_EACH_FILE_SYSTEM(FileSystemTest);

}  // namespace
}  // namespace warren::testing
