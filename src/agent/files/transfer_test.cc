#include "agent/files/transfer.h"

#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "fs/memory/memory_fs.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/store.h"
#include "store/tables/usage.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

class TransferTest : public ::testing::Test {
 protected:
  void write_host(const std::string& name, std::string_view text) {
    std::string path = dir_.file(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
  }
  std::string read_host(const std::string& name) {
    std::ifstream in(dir_.file(name));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(std::string_view path, std::string_view text) { ASSERT_OK(write_file(fs_, path, as_bytes(text))); }
  std::string read(std::string_view path) {
    Result<std::string> text = read_file(fs_, path);
    return text.ok() ? *text : std::string(name_of(text.error().code()));
  }

  testing::FakeClock clock_;
  testing::TempDir dir_;
  MemoryFs fs_{clock_};
};

TEST_F(TransferTest, GetReturnsWhatPutStored) {
  write_host("t/a", "one");
  write_host("t/sub/b", std::string(3'000'000, 'x'));
  std::filesystem::create_symlink("../a", dir_.file("t/sub/l"));
  std::filesystem::permissions(dir_.file("t/a"), std::filesystem::perms(0640));
  Result<TransferReport> in = put_tree(fs_, dir_.file("t"), "/");
  ASSERT_OK(in);
  EXPECT_EQ(in->files, 2U);
  EXPECT_EQ(in->directories, 2U);
  EXPECT_EQ(in->symlinks, 1U);
  EXPECT_EQ(in->bytes, 3'000'003U);
  ASSERT_OK(get_tree(fs_, "/t", dir_.file("back")));
  EXPECT_EQ(read_host("back/a"), "one");
  EXPECT_EQ(read_host("back/sub/b").size(), 3'000'000U);
  EXPECT_EQ(std::filesystem::read_symlink(dir_.file("back/sub/l")), "../a");
  EXPECT_EQ(std::filesystem::status(dir_.file("back/a")).permissions(), std::filesystem::perms(0640));
  EXPECT_EQ(std::filesystem::last_write_time(dir_.file("back/a")), std::filesystem::last_write_time(dir_.file("t/a")));
}

TEST_F(TransferTest, ManyFilesArePutInMoreThanOneUnit) {
  for (int i = 0; i < 600; ++i) write_host("t/" + std::to_string(i), std::to_string(i));
  ASSERT_OK(put_tree(fs_, dir_.file("t"), "/many"));
  EXPECT_EQ(read_dir(fs_, "/many")->size(), 600U);
  EXPECT_EQ(read("/many/599"), "599");
}

TEST_F(TransferTest, LinksOnTheHostAreNotFollowedBelowTheStart) {
  write_host("outside/secret", "s");
  std::filesystem::create_directory(dir_.file("t"));
  std::filesystem::create_directory_symlink("../outside", dir_.file("t/door"));
  ASSERT_OK(put_tree(fs_, dir_.file("t"), "/t"));
  EXPECT_TRUE(lstat(fs_, "/t/door")->is_symlink());
  EXPECT_EQ(read("/t/door/secret"), "not_found");
}

TEST_F(TransferTest, AFileReplacesALinkAndNotItsTarget) {
  write("/target", "old");
  ASSERT_OK(make_symlink(fs_, "/target", "/t"));
  write_host("f", "new");
  ASSERT_OK(put_tree(fs_, dir_.file("f"), "/t"));
  EXPECT_EQ(read("/t"), "new");
  EXPECT_EQ(read("/target"), "old");
}

TEST_F(TransferTest, PipesAreSkippedAndReported) {
  std::filesystem::create_directory(dir_.file("t"));
  ASSERT_EQ(::mkfifo(dir_.file("t/pipe").c_str(), 0600), 0);
  Result<TransferReport> in = put_tree(fs_, dir_.file("t"), "/t");
  ASSERT_OK(in);
  EXPECT_EQ(in->skipped, std::vector<std::string>{"/t/pipe"});
  ASSERT_OK(make_node(fs_, "/t/fifo", {.mode = S_IFIFO | 0600U}));
  Result<TransferReport> out = get_tree(fs_, "/t", dir_.file("back"));
  ASSERT_OK(out);
  EXPECT_EQ(out->skipped, std::vector<std::string>{"/t/fifo"});
}

TEST_F(TransferTest, AnExistingLinkInTheTargetIsNotFollowed) {
  write_host("victim/f", "safe");
  std::filesystem::create_directories(dir_.file("out/t"));
  std::filesystem::create_directory_symlink("../../victim", dir_.file("out/t/d"));
  write("/t/d/f", "owned");
  Result<TransferReport> out =
      get_tree(fs_, "/t", dir_.file("out"), {.overwrite = OverwriteHost::kYes, .progress = {}});
  EXPECT_EQ(error_of(out), Code::kNotDirectory);
  EXPECT_EQ(read_host("victim/f"), "safe");
}

TEST_F(TransferTest, AnExistingFileIsReplacedOnlyWhenAsked) {
  write_host("out/f", "old");
  write("/f", "new");
  EXPECT_EQ(error_of(get_tree(fs_, "/f", dir_.file("out"))), Code::kExists);
  EXPECT_EQ(read_host("out/f"), "old");
  ASSERT_OK(get_tree(fs_, "/f", dir_.file("out"), {.overwrite = OverwriteHost::kYes, .progress = {}}));
  EXPECT_EQ(read_host("out/f"), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_.file("out")), {}), 1) << "a draft was left";
}

TEST_F(TransferTest, SpecialModeBitsAreDropped) {
  write("/f", "x");
  ASSERT_OK(set_mode(fs_, "/f", 06755));
  ASSERT_OK(get_tree(fs_, "/f", dir_.file("f")));
  struct stat attributes {};
  ASSERT_EQ(::stat(dir_.file("f").c_str(), &attributes), 0);
  EXPECT_EQ(attributes.st_mode & 07777U, 0755U);
}

TEST_F(TransferTest, ADirectoryWithoutWritePermissionIsStillFilled) {
  write("/t/closed/f", "x");
  ASSERT_OK(set_mode(fs_, "/t/closed", 0500));
  ASSERT_OK(get_tree(fs_, "/t", dir_.file("back")));
  EXPECT_EQ(read_host("back/closed/f"), "x");
  EXPECT_EQ(std::filesystem::status(dir_.file("back/closed")).permissions(), std::filesystem::perms(0500));
}

TEST_F(TransferTest, ADeepTreeNeedsFewDescriptors) {
  std::string path;
  for (int i = 0; i < 1100; ++i) path += "/d";
  write(path + "/f", "deep");
  ASSERT_OK(get_tree(fs_, "/d", dir_.file("back")));
  ASSERT_OK(put_tree(fs_, dir_.file("back"), "/again"));
  EXPECT_EQ(read("/again" + path.substr(2) + "/f"), "deep");
}

TEST_F(TransferTest, AStreamReplacesOrExtends) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "abc", 3), 3);
  ::close(ends[1]);
  write("/f", "longer than that");
  EXPECT_EQ(*replace_from_fd(fs_, "/f", ends[0]), 3U);
  EXPECT_EQ(read("/f"), "abc");
  EXPECT_EQ(*append_from_fd(fs_, "/new/f", ends[0]), 0U);  // the stream is at its end
  EXPECT_EQ(read("/new/f"), "");
  ::close(ends[0]);
}

// A host file, opened for reading, with more content than one buffer.
class LargeFile {
 public:
  LargeFile(const testing::TempDir& dir, std::size_t bytes) : content_(bytes, 'n') {
    std::ofstream(dir.file("large")) << content_;
    fd_ = ::open(dir.file("large").c_str(), O_RDONLY | O_CLOEXEC);
  }
  ~LargeFile() { ::close(fd_); }
  LargeFile(const LargeFile&) = delete;
  LargeFile& operator=(const LargeFile&) = delete;
  int fd() const { return fd_; }
  const std::string& content() const { return content_; }

 private:
  std::string content_;
  int fd_;
};

TEST_F(TransferTest, ALargeStreamReplacesTheFileWithItsModeAndThroughItsLink) {
  write("/f", "old");
  ASSERT_OK(set_mode(fs_, "/f", 0600));
  ASSERT_OK(make_symlink(fs_, "f", "/link"));
  LargeFile large(dir_, (3U << 20) + 7);
  EXPECT_EQ(*replace_from_fd(fs_, "/link", large.fd()), large.content().size());
  EXPECT_EQ(read("/f"), large.content());
  EXPECT_EQ(stat(fs_, "/f")->mode & 07777, 0600U);
  EXPECT_TRUE(lstat(fs_, "/link")->is_symlink());
  EXPECT_EQ(read_dir(fs_, "/")->size(), 2U);  // no draft is left
}

TEST_F(TransferTest, ALargeStreamThatFailsLeavesTheOldContentAndNoDraft) {
  SystemClock clock;
  auto store = Store::open(":memory:", {}, clock).value();
  FileSystem& fs = store->fs();
  ASSERT_OK(write_file(fs, "/f", as_bytes("old")));
  ASSERT_OK(store->usage().set_quota({.bytes = 2U << 20, .inodes = {}}));
  LargeFile large(dir_, 5U << 20);
  EXPECT_EQ(error_of(replace_from_fd(fs, "/f", large.fd())), Code::kNoSpace);
  EXPECT_EQ(*read_file(fs, "/f"), "old");
  EXPECT_EQ(read_dir(fs, "/")->size(), 1U);
}

TEST_F(TransferTest, APutThatFailsLeavesTheOldContentOfALargeFile) {
  SystemClock clock;
  auto store = Store::open(":memory:", {}, clock).value();
  FileSystem& fs = store->fs();
  ASSERT_OK(write_file(fs, "/large", as_bytes("old")));
  ASSERT_OK(store->usage().set_quota({.bytes = 18U << 20, .inodes = {}}));
  LargeFile large(dir_, 20U << 20);
  EXPECT_EQ(error_of(put_tree(fs, dir_.file("large"), "/large")), Code::kNoSpace);
  EXPECT_EQ(*read_file(fs, "/large"), "old");
}

}  // namespace
}  // namespace warren
