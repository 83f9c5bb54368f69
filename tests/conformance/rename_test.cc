#include "conformance/file_system_fixture.h"

namespace warren::testing {
namespace {

class RenameTest : public FileSystemTest {
 protected:
  Status rename(std::string_view from, std::string_view to, RenameMode mode = RenameMode::kReplace) {
    return fs_.rename(kRootInode, from, kRootInode, to, mode);
  }
  Inode at(std::string_view name, Inode parent = kRootInode) { return must(fs_.lookup(parent, name)).inode; }
};

TEST_P(RenameTest, ANodeKeepsEverythingButItsName) {
  Inode file = make_file("a", "text");
  must(fs_.set_xattr(file, "user.x", as_bytes("v"), XattrMode::kAny));
  Attributes before = attributes(file);
  EXPECT_OK(rename("a", "b"));
  EXPECT_FALSE(has_name(kRootInode, "a"));
  EXPECT_EQ(must(fs_.lookup(kRootInode, "b")), before);
  EXPECT_EQ(read(file), "text");
  EXPECT_EQ(must(fs_.get_xattr(file, "user.x")), "v");
}

TEST_P(RenameTest, ANodeAtTheNewNameIsReplaced) {
  Inode moved = make_file("a", "new");
  Inode replaced = make_file("b", "old");
  EXPECT_OK(rename("a", "b"));
  EXPECT_EQ(at("b"), moved);
  EXPECT_EQ(error_of(fs_.get_attributes(replaced)), Code::kStale);
  EXPECT_EQ(names(kRootInode), std::vector<std::string>{"b"});
}

TEST_P(RenameTest, AReplacedFileKeepsItsOtherNames) {
  make_file("a");
  Inode replaced = make_file("b", "old");
  must(fs_.link(replaced, kRootInode, "c"));
  Timestamp now = tick();
  EXPECT_OK(rename("a", "b"));
  EXPECT_EQ(attributes(replaced).nlink, 1U);
  EXPECT_EQ(attributes(replaced).ctime, now);
  EXPECT_EQ(read(at("c")), "old");
}

TEST_P(RenameTest, AMissingNameIsNotFound) {
  make_file("b");
  EXPECT_EQ(error_of(rename("a", "b")), Code::kNotFound);
  EXPECT_EQ(error_of(rename("a", "a")), Code::kNotFound);
  EXPECT_EQ(error_of(rename("a", "b", RenameMode::kNoReplace)), Code::kNotFound);
  EXPECT_EQ(error_of(rename("a", "b", RenameMode::kExchange)), Code::kNotFound);
  EXPECT_EQ(error_of(rename("b", "a", RenameMode::kExchange)), Code::kNotFound);
  EXPECT_TRUE(has_name(kRootInode, "b"));
}

TEST_P(RenameTest, NoReplaceLeavesWhatIsThere) {
  make_file("a");
  make_file("b", "kept");
  EXPECT_EQ(error_of(rename("a", "b", RenameMode::kNoReplace)), Code::kExists);
  EXPECT_EQ(error_of(rename("a", "a", RenameMode::kNoReplace)), Code::kExists);
  EXPECT_EQ(read(at("b")), "kept");
  EXPECT_OK(rename("a", "c", RenameMode::kNoReplace));
  EXPECT_TRUE(has_name(kRootInode, "c"));
}

TEST_P(RenameTest, TwoNamesOfOneFileStayAsTheyAre) {
  Inode file = make_file("a");
  must(fs_.link(file, kRootInode, "b"));
  Attributes file_before = attributes(file);
  Attributes root_before = attributes(kRootInode);
  tick();
  EXPECT_OK(rename("a", "b"));
  EXPECT_OK(rename("a", "a"));
  EXPECT_OK(rename("a", "b", RenameMode::kExchange));
  EXPECT_EQ(error_of(rename("a", "b", RenameMode::kNoReplace)), Code::kExists);
  EXPECT_EQ(attributes(file), file_before);
  EXPECT_EQ(attributes(kRootInode), root_before);
  EXPECT_TRUE(has_name(kRootInode, "a"));
}

TEST_P(RenameTest, ADirectoryMovesWithAllItHolds) {
  Inode a = make_dir("a");
  Inode inside = make_dir("inside", a);
  make_file("f", "deep", inside);
  Inode b = make_dir("b");
  EXPECT_OK(fs_.rename(kRootInode, "a", b, "c", RenameMode::kReplace));
  EXPECT_EQ(at("c", b), a);
  EXPECT_EQ(read(at("f", at("inside", a))), "deep");
  EXPECT_EQ(attributes(kRootInode).nlink, 3U);
  EXPECT_EQ(attributes(b).nlink, 3U);
}

TEST_P(RenameTest, ADirectoryCannotMoveIntoItself) {
  Inode a = make_dir("a");
  Inode b = make_dir("b", a);
  for (RenameMode mode : {RenameMode::kReplace, RenameMode::kNoReplace}) {
    EXPECT_EQ(error_of(fs_.rename(kRootInode, "a", a, "x", mode)), Code::kInvalid);
    EXPECT_EQ(error_of(fs_.rename(kRootInode, "a", b, "x", mode)), Code::kInvalid);
  }
  make_dir("c", b);
  EXPECT_EQ(error_of(fs_.rename(kRootInode, "a", b, "c", RenameMode::kReplace)), Code::kInvalid);
  EXPECT_EQ(error_of(fs_.rename(kRootInode, "a", b, "c", RenameMode::kExchange)), Code::kInvalid);
  EXPECT_EQ(error_of(fs_.rename(b, "c", kRootInode, "a", RenameMode::kExchange)), Code::kInvalid);
  EXPECT_EQ(at("a"), a);
  EXPECT_EQ(at("b", a), b);
}

TEST_P(RenameTest, AFileCannotBeExchangedWithADirectoryAboveIt) {
  Inode a = make_dir("a");
  make_file("f", "", a);
  EXPECT_EQ(error_of(fs_.rename(a, "f", kRootInode, "a", RenameMode::kExchange)), Code::kInvalid);
  EXPECT_EQ(error_of(fs_.rename(kRootInode, "a", a, "f", RenameMode::kExchange)), Code::kInvalid);
}

TEST_P(RenameTest, AnAncestorIsNotEmptyAndCannotBeReplaced) {
  Inode a = make_dir("a");
  Inode b = make_dir("b", a);
  make_dir("c", b);
  make_file("f", "", b);
  EXPECT_EQ(error_of(fs_.rename(b, "c", kRootInode, "a", RenameMode::kReplace)), Code::kNotEmpty);
  EXPECT_EQ(error_of(fs_.rename(b, "c", a, "b", RenameMode::kReplace)), Code::kNotEmpty);
  EXPECT_EQ(error_of(fs_.rename(b, "f", kRootInode, "a", RenameMode::kReplace)), Code::kIsDirectory);
}

TEST_P(RenameTest, OnlyAnEmptyDirectoryIsReplacedByADirectory) {
  Inode moved = make_dir("moved");
  make_file("f", "", moved);
  Inode empty = make_dir("empty");
  Inode full = make_dir("full");
  make_file("kept", "", full);
  make_file("file");
  EXPECT_EQ(error_of(rename("moved", "full")), Code::kNotEmpty);
  EXPECT_EQ(error_of(rename("moved", "file")), Code::kNotDirectory);
  EXPECT_EQ(error_of(rename("file", "full")), Code::kIsDirectory);
  EXPECT_EQ(error_of(rename("file", "empty")), Code::kIsDirectory);
  EXPECT_OK(rename("moved", "empty"));
  EXPECT_EQ(at("empty"), moved);
  EXPECT_EQ(error_of(fs_.get_attributes(empty)), Code::kStale);
  EXPECT_TRUE(has_name(full, "kept"));
  EXPECT_EQ(attributes(kRootInode).nlink, 4U);
}

TEST_P(RenameTest, ExchangeSwapsFilesAndDirectories) {
  Inode d = make_dir("d");
  Inode e = make_dir("e");
  Inode inner = make_dir("inner", d);
  Inode file = make_file("f", "x", e);
  Timestamp now = tick();
  EXPECT_OK(fs_.rename(d, "inner", e, "f", RenameMode::kExchange));
  EXPECT_EQ(at("inner", d), file);
  EXPECT_EQ(at("f", e), inner);
  EXPECT_EQ(attributes(d).nlink, 2U);
  EXPECT_EQ(attributes(e).nlink, 3U);
  for (Inode node : {d, e, inner, file}) EXPECT_EQ(attributes(node).ctime, now);
  EXPECT_OK(fs_.rename(kRootInode, "d", inner, "d", RenameMode::kReplace));
  EXPECT_EQ(error_of(fs_.rename(kRootInode, "e", d, "e", RenameMode::kReplace)), Code::kInvalid);
}

TEST_P(RenameTest, TimesMoveOnTheNodeAndBothDirectories) {
  Inode from = make_dir("from");
  Inode to = make_dir("to");
  Inode file = make_file("f", "x", from);
  Attributes before = attributes(file);
  Timestamp root_mtime = attributes(kRootInode).mtime;
  Timestamp now = tick();
  EXPECT_OK(fs_.rename(from, "f", to, "g", RenameMode::kReplace));
  EXPECT_EQ(attributes(file).ctime, now);
  EXPECT_EQ(attributes(file).mtime, before.mtime);
  for (Inode dir : {from, to}) {
    EXPECT_EQ(attributes(dir).mtime, now);
    EXPECT_EQ(attributes(dir).ctime, now);
    EXPECT_LT(attributes(dir).atime, now);
  }
  EXPECT_EQ(attributes(kRootInode).mtime, root_mtime);
}

TEST_P(RenameTest, NothingMovesIntoOrOutOfARemovedDirectory) {
  Inode dir = make_dir("d");
  make_file("f");
  must(fs_.retain(dir));
  must(fs_.remove_dir(kRootInode, "d"));
  EXPECT_EQ(error_of(fs_.rename(kRootInode, "f", dir, "f", RenameMode::kReplace)), Code::kNotFound);
  EXPECT_EQ(error_of(fs_.rename(dir, "f", kRootInode, "g", RenameMode::kReplace)), Code::kNotFound);
  fs_.forget(dir, 1);
}

WARREN_EACH_FILE_SYSTEM(RenameTest);

}  // namespace
}  // namespace warren::testing
