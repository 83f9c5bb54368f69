// The path helpers, over every filesystem.
#include "conformance/file_system_fixture.h"

#include "base/limits.h"
#include "base/path.h"
#include "fs/path_ops.h"

namespace warren::testing {
namespace {

class PathOpsTest : public FileSystemTest {
 protected:
  Status put(std::string_view path, std::string_view text = "") {
    return warren::write_file(fs_, path, as_bytes(text));
  }
  std::string get(std::string_view path) { return must(warren::read_file(fs_, path)); }
  Inode inode(std::string_view path) { return must(warren::stat(fs_, path)).inode; }
  void dirs(std::string_view path) { must(warren::make_dirs(fs_, path)); }
  void symlink(std::string_view target, std::string_view path) { must(warren::make_symlink(fs_, target, path)); }
  std::optional<Code> stat_error(std::string_view path) { return error_of(warren::stat(fs_, path)); }
};

TEST_P(PathOpsTest, ManySpellingsNameOneNode) {
  EXPECT_OK(put("/a/b/f", "x"));
  for (std::string_view path : {"/a/b/f", "a/b/f", "//a///b/./f", "/a/../a/b/f", "/../../a/b/f", "/a/b/../b/f"}) {
    EXPECT_EQ(get(path), "x") << path;
  }
  for (std::string_view path : {"/", ".", "..", "/..", "/a/..", "//", "/./."}) {
    EXPECT_EQ(inode(path), kRootInode) << path;
  }
}

TEST_P(PathOpsTest, BadPathsAreRefused) {
  EXPECT_EQ(stat_error(""), Code::kNotFound);
  EXPECT_EQ(stat_error(std::string_view("/a\0b", 4)), Code::kInvalid);
  EXPECT_EQ(stat_error("/" + std::string(256, 'x')), Code::kNameTooLong);
  EXPECT_EQ(stat_error(std::string(4097, '/')), Code::kNameTooLong);
}

TEST_P(PathOpsTest, MissingAndWrongParentsAreReported) {
  must(put("/file"));
  EXPECT_EQ(stat_error("/none"), Code::kNotFound);
  EXPECT_EQ(stat_error("/none/x"), Code::kNotFound);
  EXPECT_EQ(stat_error("/none/../file"), Code::kNotFound);
  EXPECT_EQ(stat_error("/file/x"), Code::kNotDirectory);
  EXPECT_EQ(stat_error("/file/.."), Code::kNotDirectory);
  EXPECT_EQ(stat_error("/file/"), Code::kNotDirectory);
  EXPECT_EQ(stat_error("/file/."), Code::kNotDirectory);
}

TEST_P(PathOpsTest, EveryErrorNamesThePath) {
  must(put("/file"));
  auto names_path = [](const Error& error, std::string_view path) {
    EXPECT_NE(error.message().find(path), std::string::npos) << error.message();
  };
  EXPECT_EQ(warren::stat(fs_, "/no/such").error().message(), "no '/no/such': there is no 'no'");
  EXPECT_EQ(warren::stat(fs_, "/none").error().message(), "no '/none'");
  names_path(warren::read_dir(fs_, "/file").error(), "'/file'");
  names_path(warren::make_dir(fs_, "/file").error(), "'/file'");
  names_path(warren::write_at(fs_, "/", 0, as_bytes("x")).error(), "'/'");
  names_path(warren::remove_dir(fs_, "/file").error(), "'/file'");
  names_path(warren::get_xattr(fs_, "/file", "user.x").error(), "'/file'");
  names_path(warren::rename(fs_, "/file", "/file/x").error(), "'/file/x'");
  names_path(warren::copy_file(fs_, "/file", "/file").error(), "'/file'");
}

TEST_P(PathOpsTest, LinksInAPathAreFollowed) {
  must(put("/real/deep/f", "x"));
  symlink("real", "/rel");
  symlink("/real/deep", "/abs");
  symlink("../abs/f", "/real/up");
  EXPECT_EQ(get("/rel/deep/f"), "x");
  EXPECT_EQ(get("/abs/f"), "x");
  EXPECT_EQ(get("/rel/up"), "x");
  EXPECT_EQ(inode("/abs/.."), inode("/real"));
  EXPECT_TRUE(must(warren::lstat(fs_, "/abs")).is_symlink());
  EXPECT_TRUE(must(warren::lstat(fs_, "/abs/")).is_directory());
  EXPECT_EQ(must(warren::read_link(fs_, "/abs")), "/real/deep");
  EXPECT_EQ(error_of(warren::read_link(fs_, "/real")), Code::kInvalid);
}

TEST_P(PathOpsTest, LinksInACircleAreRefused) {
  symlink("b", "/a");
  symlink("a", "/b");
  EXPECT_EQ(stat_error("/a"), Code::kLoop);
  EXPECT_EQ(stat_error("/a/x"), Code::kLoop);
  EXPECT_OK(warren::lstat(fs_, "/a"));
  EXPECT_EQ(error_of(put("/a", "x")), Code::kLoop);
}

TEST_P(PathOpsTest, FortyLinksAreFollowedAndNoMore) {
  must(put("/0", "x"));
  for (int i = 1; i <= 41; ++i) symlink(std::to_string(i - 1), "/" + std::to_string(i));
  EXPECT_EQ(get("/40"), "x");
  EXPECT_EQ(stat_error("/41"), Code::kLoop);
}

TEST_P(PathOpsTest, ALinkThatEndsInASlashMustLeadToADirectory) {
  must(put("/file"));
  dirs("/dir");
  symlink("file/", "/bad");
  symlink("dir/", "/good");
  EXPECT_EQ(stat_error("/bad"), Code::kNotDirectory);
  EXPECT_EQ(inode("/good"), inode("/dir"));
}

TEST_P(PathOpsTest, ExistsDistinguishesMissingFromBroken) {
  must(put("/file"));
  symlink("nowhere", "/dangling");
  symlink("loop", "/loop");
  EXPECT_TRUE(must(warren::exists(fs_, "/file")));
  EXPECT_FALSE(must(warren::exists(fs_, "/none/x")));
  EXPECT_FALSE(must(warren::exists(fs_, "/file/x")));
  EXPECT_FALSE(must(warren::exists(fs_, "/dangling")));
  EXPECT_EQ(error_of(warren::exists(fs_, "/loop")), Code::kLoop);
  EXPECT_OK(warren::access(fs_, "/file"));
  EXPECT_EQ(error_of(warren::access(fs_, "/none")), Code::kNotFound);
}

TEST_P(PathOpsTest, WriteFileMakesParentsAndReplacesContent) {
  Owner owner{.uid = 3, .gid = 4};
  EXPECT_OK(warren::write_file(fs_, "/a/b/f", as_bytes("long text"), {.mode = 0600, .dir_mode = 0700, .owner = owner}));
  Attributes file = must(warren::stat(fs_, "/a/b/f"));
  EXPECT_EQ(file.mode, S_IFREG | 0600U);
  EXPECT_EQ(file.owner, owner);
  EXPECT_EQ(must(warren::stat(fs_, "/a/b")).mode, S_IFDIR | 0700U);
  EXPECT_EQ(must(warren::stat(fs_, "/a/b")).owner, owner);
  EXPECT_OK(put("/a/b/f", "short"));
  EXPECT_EQ(get("/a/b/f"), "short");
  EXPECT_EQ(must(warren::stat(fs_, "/a/b/f")).mode, file.mode);
  EXPECT_EQ(inode("/a/b/f"), file.inode);
  EXPECT_OK(put("/a/b/f", ""));
  EXPECT_EQ(get("/a/b/f"), "");
}

TEST_P(PathOpsTest, WriteFileGoesThroughALinkToWhereItPoints) {
  dirs("/d");
  symlink("d/new", "/link");
  EXPECT_OK(put("/link", "x"));
  EXPECT_EQ(get("/d/new"), "x");
  symlink("missing/new", "/dangling");
  EXPECT_EQ(error_of(put("/dangling", "x")), Code::kNotFound);
}

TEST_P(PathOpsTest, WriteFileRefusesANodeThatIsNotAFile) {
  dirs("/d");
  must(put("/file"));
  EXPECT_EQ(error_of(put("/d")), Code::kIsDirectory);
  EXPECT_EQ(error_of(put("/")), Code::kIsDirectory);
  EXPECT_EQ(error_of(put("/new/")), Code::kIsDirectory);
  EXPECT_EQ(error_of(put("/file/x")), Code::kNotDirectory);
  must(warren::make_node(fs_, "/fifo", {.mode = S_IFIFO | 0600}));
  EXPECT_EQ(error_of(put("/fifo", "x")), Code::kInvalid);
  EXPECT_EQ(error_of(put("/fifo", "")), Code::kInvalid);
}

TEST_P(PathOpsTest, ReadFileRefusesWhatIsTooLarge) {
  must(put("/f", "12345"));
  EXPECT_EQ(error_of(warren::read_file(fs_, "/f", {.size_bytes_max = 4})), Code::kTooLarge);
  EXPECT_EQ(must(warren::read_file(fs_, "/f", {.size_bytes_max = 5})), "12345");
  must(warren::truncate(fs_, "/f", limits::kReadFileBytes + 1));
  EXPECT_EQ(error_of(warren::read_file(fs_, "/f")), Code::kTooLarge);
  EXPECT_EQ(error_of(warren::read_file(fs_, "/")), Code::kIsDirectory);
}

TEST_P(PathOpsTest, PartsAreReadWrittenAppendedAndCut) {
  must(put("/f", "0123456789"));
  std::string out(4, '?');
  EXPECT_EQ(must(warren::read_at(fs_, "/f", 8, as_mutable_bytes(out))), 2U);
  EXPECT_EQ(out.substr(0, 2), "89");
  EXPECT_OK(warren::write_at(fs_, "/f", 1, as_bytes("ab")));
  EXPECT_OK(warren::append_file(fs_, "/f", as_bytes("+")));
  EXPECT_EQ(get("/f"), "0ab3456789+");
  EXPECT_OK(warren::truncate(fs_, "/f", 2));
  EXPECT_EQ(get("/f"), "0a");
  EXPECT_OK(warren::append_file(fs_, "/new/log", as_bytes("line")));
  EXPECT_EQ(get("/new/log"), "line");
  EXPECT_EQ(error_of(warren::write_at(fs_, "/none", 0, as_bytes("x"))), Code::kNotFound);
  EXPECT_EQ(error_of(warren::truncate(fs_, "/", 0)), Code::kIsDirectory);
}

TEST_P(PathOpsTest, NamesComeSortedByBytes) {
  for (std::string_view name : {"b", "a", "B", "\xff", "aa", "10", "9"}) must(put(join_path("/d", name)));
  std::vector<std::string> want{"10", "9", "B", "a", "aa", "b", "\xff"};
  EXPECT_EQ(must(warren::read_dir(fs_, "/d")), want);
  std::vector<NamedAttributes> plus = must(warren::read_dir_plus(fs_, "/d"));
  ASSERT_EQ(plus.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(plus[i].name, want[i]);
    EXPECT_EQ(plus[i].attributes, must(warren::stat(fs_, join_path("/d", want[i]))));
  }
  EXPECT_EQ(error_of(warren::read_dir(fs_, "/d/a")), Code::kNotDirectory);
  EXPECT_EQ(error_of(warren::read_dir(fs_, "/none")), Code::kNotFound);
}

TEST_P(PathOpsTest, DirectoriesAreMadeAndRemoved) {
  EXPECT_EQ(must(warren::make_dir(fs_, "/d/", {.mode = 0700})).mode, S_IFDIR | 0700U);
  EXPECT_EQ(error_of(warren::make_dir(fs_, "/d")), Code::kExists);
  EXPECT_EQ(error_of(warren::make_dir(fs_, "/")), Code::kExists);
  EXPECT_EQ(error_of(warren::make_dir(fs_, "/d/.")), Code::kExists);
  EXPECT_EQ(error_of(warren::make_dir(fs_, "/x/y")), Code::kNotFound);
  EXPECT_EQ(error_of(warren::remove_dir(fs_, "/")), Code::kBusy);
  EXPECT_EQ(error_of(warren::remove_dir(fs_, "/d/.")), Code::kInvalid);
  EXPECT_EQ(error_of(warren::remove_dir(fs_, "/d/..")), Code::kInvalid);
  EXPECT_EQ(error_of(warren::remove_dir(fs_, "/x")), Code::kNotFound);
  must(put("/d/f"));
  EXPECT_EQ(error_of(warren::remove_dir(fs_, "/d")), Code::kNotEmpty);
  EXPECT_EQ(error_of(warren::remove_dir(fs_, "/d/f")), Code::kNotDirectory);
  must(warren::unlink(fs_, "/d/f"));
  EXPECT_OK(warren::remove_dir(fs_, "/d/"));
}

TEST_P(PathOpsTest, MakeDirsAcceptsExistingDirectories) {
  Attributes made = must(warren::make_dirs(fs_, "/a/b/../c//d/"));
  EXPECT_EQ(inode("/a/c/d"), made.inode);
  EXPECT_TRUE(must(warren::exists(fs_, "/a/b")));
  EXPECT_EQ(must(warren::make_dirs(fs_, "/a/c/d")), made);
  EXPECT_EQ(must(warren::make_dirs(fs_, "/")).inode, kRootInode);
  symlink("a", "/link");
  EXPECT_EQ(must(warren::make_dirs(fs_, "/link")).inode, inode("/a"));
  must(put("/file"));
  symlink("nowhere", "/dangling");
  EXPECT_EQ(error_of(warren::make_dirs(fs_, "/file")), Code::kExists);
  EXPECT_EQ(error_of(warren::make_dirs(fs_, "/file/x")), Code::kNotDirectory);
  EXPECT_EQ(error_of(warren::make_dirs(fs_, "/dangling")), Code::kExists);
  EXPECT_EQ(error_of(warren::make_dirs(fs_, "/dangling/x")), Code::kNotFound);
}

TEST_P(PathOpsTest, UnlinkTakesTheLinkNotItsTarget) {
  must(put("/file", "x"));
  symlink("file", "/link");
  EXPECT_EQ(error_of(warren::unlink(fs_, "/link/")), Code::kNotDirectory);
  EXPECT_OK(warren::unlink(fs_, "/link"));
  EXPECT_EQ(get("/file"), "x");
  dirs("/d");
  EXPECT_EQ(error_of(warren::unlink(fs_, "/d")), Code::kIsDirectory);
  EXPECT_EQ(error_of(warren::unlink(fs_, "/none")), Code::kNotFound);
  EXPECT_EQ(error_of(warren::unlink(fs_, "/")), Code::kBusy);
}

TEST_P(PathOpsTest, RenameMovesByPath) {
  must(put("/a/f", "x"));
  dirs("/b");
  EXPECT_OK(warren::rename(fs_, "/a/f", "/b/g"));
  EXPECT_EQ(get("/b/g"), "x");
  EXPECT_EQ(error_of(warren::rename(fs_, "/a", "/a/b")), Code::kInvalid);
  EXPECT_EQ(error_of(warren::rename(fs_, "/", "/x")), Code::kBusy);
  EXPECT_EQ(error_of(warren::rename(fs_, "/a", "/")), Code::kBusy);
  EXPECT_EQ(error_of(warren::rename(fs_, "/a/.", "/x")), Code::kInvalid);
  EXPECT_EQ(error_of(warren::rename(fs_, "/a", "/b/..")), Code::kInvalid);
  EXPECT_EQ(error_of(warren::rename(fs_, "/none", "/x")), Code::kNotFound);
  EXPECT_EQ(error_of(warren::rename(fs_, "/a", "/none/x")), Code::kNotFound);
  EXPECT_EQ(error_of(warren::rename(fs_, "/b/g", "/new/")), Code::kNotDirectory);
  EXPECT_EQ(error_of(warren::rename(fs_, "/a", "/b", RenameMode::kNoReplace)), Code::kExists);
  EXPECT_OK(warren::rename(fs_, "/a/", "/c/"));
  EXPECT_OK(warren::rename(fs_, "/c", "/b/g", RenameMode::kExchange));
  EXPECT_EQ(get("/c"), "x");
}

TEST_P(PathOpsTest, RenameMovesALinkItself) {
  must(put("/file", "x"));
  symlink("file", "/link");
  EXPECT_OK(warren::rename(fs_, "/link", "/moved"));
  EXPECT_TRUE(must(warren::lstat(fs_, "/moved")).is_symlink());
  EXPECT_EQ(get("/file"), "x");
}

TEST_P(PathOpsTest, CopyFileCopiesContentAndMode) {
  must(warren::write_file(fs_, "/f", as_bytes("text"), {.mode = 0751}));
  EXPECT_OK(warren::copy_file(fs_, "/f", "/g"));
  EXPECT_EQ(get("/g"), "text");
  EXPECT_EQ(must(warren::stat(fs_, "/g")).mode, S_IFREG | 0751U);
  EXPECT_NE(inode("/g"), inode("/f"));
  must(put("/h", "something longer"));
  Inode kept = inode("/h");
  EXPECT_OK(warren::copy_file(fs_, "/f", "/h"));
  EXPECT_EQ(get("/h"), "text");
  EXPECT_EQ(inode("/h"), kept);
}

TEST_P(PathOpsTest, CopyFileTakesLargeAndSparseFiles) {
  std::string text(2 * limits::kCopyBytes + 5, 'x');
  must(put("/large", text));
  EXPECT_OK(warren::copy_file(fs_, "/large", "/copy"));
  EXPECT_EQ(get("/copy"), text);
  constexpr std::uint64_t kFar = std::uint64_t{1} << 40;
  must(put("/sparse", "start"));
  must(warren::write_at(fs_, "/sparse", kFar, as_bytes("end")));
  must(warren::truncate(fs_, "/sparse", 2 * kFar));
  EXPECT_OK(warren::copy_file(fs_, "/sparse", "/sparse2"));
  EXPECT_EQ(must(warren::stat(fs_, "/sparse2")).size, 2 * kFar);
  EXPECT_EQ(read(inode("/sparse2"), kFar, 4), std::string("end\0", 4));
  EXPECT_EQ(read(inode("/sparse2"), 0, 6), std::string("start\0", 6));
}

TEST_P(PathOpsTest, CopyFileRefusesItselfAndANodeThatIsNotAFile) {
  must(put("/f", "kept"));
  must(warren::link(fs_, "/f", "/g"));
  symlink("f", "/link");
  dirs("/d");
  EXPECT_EQ(error_of(warren::copy_file(fs_, "/f", "/f")), Code::kInvalid);
  EXPECT_EQ(error_of(warren::copy_file(fs_, "/f", "/g")), Code::kInvalid);
  EXPECT_EQ(error_of(warren::copy_file(fs_, "/f", "/link")), Code::kInvalid);
  EXPECT_EQ(error_of(warren::copy_file(fs_, "/d", "/x")), Code::kIsDirectory);
  EXPECT_EQ(error_of(warren::copy_file(fs_, "/f", "/d")), Code::kIsDirectory);
  EXPECT_EQ(error_of(warren::copy_file(fs_, "/f", "/none/x")), Code::kNotFound);
  EXPECT_EQ(error_of(warren::copy_file(fs_, "/none", "/x")), Code::kNotFound);
  EXPECT_EQ(get("/f"), "kept");
}

TEST_P(PathOpsTest, LinksAndNodesAreMadeByPath) {
  must(put("/f", "x"));
  EXPECT_EQ(must(warren::link(fs_, "/f", "/g")).nlink, 2U);
  EXPECT_EQ(error_of(warren::link(fs_, "/f", "/g")), Code::kExists);
  EXPECT_EQ(error_of(warren::link(fs_, "/f", "/h/")), Code::kNotFound);
  EXPECT_EQ(error_of(warren::link(fs_, "/", "/h")), Code::kNotPermitted);
  EXPECT_EQ(error_of(warren::make_symlink(fs_, "t", "/f")), Code::kExists);
  EXPECT_EQ(error_of(warren::make_symlink(fs_, "", "/s")), Code::kNotFound);
  EXPECT_EQ(must(warren::make_symlink(fs_, "t", "/s", {.uid = 7, .gid = 8})).owner.uid, 7U);
  EXPECT_EQ(must(warren::make_node(fs_, "/dev", {.mode = S_IFCHR | 0600, .rdev = 5})).rdev, 5U);
  EXPECT_EQ(error_of(warren::make_node(fs_, "/x/", {.mode = S_IFREG})), Code::kNotFound);
}

TEST_P(PathOpsTest, AttributesAreSetThroughOrOnALink) {
  must(put("/f"));
  symlink("f", "/link");
  EXPECT_OK(warren::set_mode(fs_, "/link", 0600));
  EXPECT_EQ(must(warren::lstat(fs_, "/f")).mode, S_IFREG | 0600U);
  EXPECT_OK(warren::set_owner(fs_, "/link", {.uid = 5, .gid = 6}, Follow::kNo));
  EXPECT_EQ(must(warren::lstat(fs_, "/link")).owner.uid, 5U);
  EXPECT_EQ(must(warren::lstat(fs_, "/f")).owner.uid, 0U);
  Timestamp at{.seconds = 1, .nanoseconds = 2};
  EXPECT_OK(warren::set_times(fs_, "/link", SetTime::to(at), SetTime::now()));
  EXPECT_EQ(must(warren::lstat(fs_, "/f")).atime, at);
  EXPECT_EQ(must(warren::lstat(fs_, "/f")).mtime, clock_.now());
  EXPECT_EQ(error_of(warren::set_mode(fs_, "/none", 0)), Code::kNotFound);
}

TEST_P(PathOpsTest, ExtendedAttributesByPath) {
  must(put("/f"));
  symlink("f", "/link");
  EXPECT_OK(warren::set_xattr(fs_, "/link", "user.a", as_bytes("1")));
  EXPECT_OK(warren::set_xattr(fs_, "/link", "user.b", as_bytes("2"), XattrMode::kAny, Follow::kNo));
  EXPECT_EQ(must(warren::list_xattrs(fs_, "/f")), std::vector<std::string>{"user.a"});
  EXPECT_EQ(must(warren::list_xattrs(fs_, "/link", Follow::kNo)), std::vector<std::string>{"user.b"});
  EXPECT_EQ(must(warren::get_xattr(fs_, "/link", "user.a")), "1");
  EXPECT_OK(warren::remove_xattr(fs_, "/f", "user.a"));
  EXPECT_EQ(error_of(warren::get_xattr(fs_, "/f", "user.a")), Code::kNoData);
}

WARREN_EACH_FILE_SYSTEM(PathOpsTest);

}  // namespace
}  // namespace warren::testing
