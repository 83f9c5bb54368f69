// Whole trees: walk and remove.
#include "conformance/file_system_fixture.h"

#include "base/limits.h"
#include "base/path.h"
#include "fs/path_ops.h"

namespace warren::testing {
namespace {

class TreeOpsTest : public FileSystemTest {
 protected:
  void put(std::string_view path) { must(warren::write_file(fs_, path, as_bytes("x"))); }
  Status remove_all(std::string_view path) { return warren::remove(fs_, path, {.recursive = Recursive::kYes}); }
  bool is_there(std::string_view path) { return warren::lstat(fs_, path).ok(); }

  std::vector<std::string> walked(std::string_view path, const WalkOptions& options = {}) {
    std::vector<std::string> paths;
    must(warren::walk(
        fs_, path,
        [&](const WalkEntry& entry) -> Result<WalkNext> {
          EXPECT_EQ(entry.attributes, must(warren::lstat(fs_, entry.path)));
          paths.push_back(entry.path);
          return WalkNext::kContinue;
        },
        options));
    return paths;
  }

  // Nested directories, deeper than the longest path.
  void make_deep(std::string_view name, int depth) {
    auto unit = must(fs_.begin(UnitAccess::kWrite));
    Inode at = make_dir(name);
    for (int i = 0; i < depth; ++i) {
      make_file("file", "", at);
      at = make_dir("deeper", at);
    }
    must(unit->commit());
  }
};

TEST_P(TreeOpsTest, WalkVisitsADirectoryBeforeItsEntriesInOrder) {
  put("/a/b/f");
  put("/a/c");
  put("/a/B");
  must(warren::make_symlink(fs_, "/a", "/a/loop"));
  EXPECT_EQ(walked("/"), (std::vector<std::string>{"/", "/a", "/a/B", "/a/b", "/a/b/f", "/a/c", "/a/loop"}));
  EXPECT_EQ(walked("a//b/"), (std::vector<std::string>{"/a/b", "/a/b/f"}));
  EXPECT_EQ(walked("/a/c"), std::vector<std::string>{"/a/c"});
}

TEST_P(TreeOpsTest, WalkCanSkipAndStop) {
  put("/a/1");
  put("/b/2");
  put("/c/3");
  std::vector<std::string> seen;
  EXPECT_OK(warren::walk(fs_, "/", [&](const WalkEntry& entry) -> Result<WalkNext> {
    seen.push_back(entry.path);
    if (entry.path == "/a") return WalkNext::kSkip;
    return entry.path == "/b/2" ? WalkNext::kStop : WalkNext::kContinue;
  }));
  EXPECT_EQ(seen, (std::vector<std::string>{"/", "/a", "/b", "/b/2"}));
}

TEST_P(TreeOpsTest, AnErrorOfTheVisitorEndsTheWalk) {
  put("/a/1");
  EXPECT_EQ(error_of(warren::walk(fs_, "/",
                                  [](const WalkEntry& entry) -> Result<WalkNext> {
                                    if (entry.path == "/a") return Error(Code::kConflict, "enough");
                                    return WalkNext::kContinue;
                                  })),
            Code::kConflict);
  EXPECT_EQ(error_of(warren::walk(fs_, "/none", [](const WalkEntry&) { return WalkNext::kContinue; })),
            Code::kNotFound);
}

TEST_P(TreeOpsTest, TheTreeMayChangeDuringAWalk) {
  put("/a/1");
  put("/b/2");
  put("/c/3");
  std::vector<std::string> seen;
  EXPECT_OK(warren::walk(fs_, "/", [&](const WalkEntry& entry) -> Result<WalkNext> {
    seen.push_back(entry.path);
    if (entry.path == "/b") must(remove_all("/b"));
    if (entry.path == "/a/1") put("/a/late");
    return WalkNext::kContinue;
  }));
  EXPECT_EQ(seen, (std::vector<std::string>{"/", "/a", "/a/1", "/b", "/c", "/c/3"}));
}

TEST_P(TreeOpsTest, AWalkHasALimitInDepth) {
  put("/1/2/3");
  EXPECT_EQ(walked("/1", {.depth_max = 2}).size(), 3U);
  auto visit = [](const WalkEntry&) { return WalkNext::kContinue; };
  EXPECT_EQ(error_of(warren::walk(fs_, "/", visit, {.depth_max = 2})), Code::kLimit);
  make_deep("deep", limits::kTreeDepth + 10);
  EXPECT_EQ(error_of(warren::walk(fs_, "/deep", visit)), Code::kLimit);
}

TEST_P(TreeOpsTest, RemoveIsNotRecursiveUnlessAsked) {
  put("/d/f");
  must(warren::make_symlink(fs_, "d", "/link"));
  EXPECT_EQ(error_of(warren::remove(fs_, "/d")), Code::kIsDirectory);
  EXPECT_EQ(error_of(warren::remove(fs_, "/none")), Code::kNotFound);
  EXPECT_OK(warren::remove(fs_, "/d/f"));
  EXPECT_OK(remove_all("/link"));
  EXPECT_TRUE(is_there("/d"));
  EXPECT_OK(remove_all("/d"));
  EXPECT_FALSE(is_there("/d"));
}

TEST_P(TreeOpsTest, ForceForgivesOnlyWhatIsMissing) {
  RemoveOptions force{.force = Force::kYes};
  put("/d/f");
  EXPECT_OK(warren::remove(fs_, "/none", force));
  EXPECT_OK(warren::remove(fs_, "/none/x", force));
  EXPECT_EQ(error_of(warren::remove(fs_, "/d", force)), Code::kIsDirectory);
  EXPECT_EQ(error_of(warren::remove(fs_, "/d/f/x", force)), Code::kNotDirectory);
}

TEST_P(TreeOpsTest, TheRootAndDotsAreNotRemoved) {
  put("/d/f");
  EXPECT_EQ(error_of(remove_all("/")), Code::kBusy);
  EXPECT_EQ(error_of(remove_all("/d/..")), Code::kInvalid);
  EXPECT_EQ(error_of(remove_all("/d/.")), Code::kInvalid);
  EXPECT_TRUE(is_there("/d/f"));
}

TEST_P(TreeOpsTest, ALinkInATreeDoesNotLeadOutOfIt) {
  put("/kept/f");
  put("/d/f");
  must(warren::make_symlink(fs_, "/kept", "/d/link"));
  EXPECT_OK(remove_all("/d"));
  EXPECT_TRUE(is_there("/kept/f"));
}

TEST_P(TreeOpsTest, ADeepTreeIsRemoved) {
  std::uint64_t before = must(fs_.stats(kRootInode)).used_inodes;
  make_deep("deep", limits::kTreeDepth + 500);
  EXPECT_OK(remove_all("/deep"));
  EXPECT_TRUE(names(kRootInode).empty());
  EXPECT_EQ(must(fs_.stats(kRootInode)).used_inodes, before);
}

TEST_P(TreeOpsTest, AWideTreeIsRemoved) {
  std::uint64_t before = must(fs_.stats(kRootInode)).used_inodes;
  Inode dir = make_dir("wide");
  {
    auto unit = must(fs_.begin(UnitAccess::kWrite));
    for (int i = 0; i < 3000; ++i) {
      std::string name = std::to_string(i);
      if (i % 3 == 0) {
        make_file("f", "x", make_dir(name, dir));
      } else {
        make_file(name, "", dir);
      }
    }
    must(unit->commit());
  }
  EXPECT_OK(remove_all("/wide"));
  EXPECT_EQ(must(fs_.stats(kRootInode)).used_inodes, before);
  EXPECT_EQ(attributes(kRootInode).nlink, 2U);
}

WARREN_EACH_FILE_SYSTEM(TreeOpsTest);

}  // namespace
}  // namespace warren::testing
