#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "fs/host/host_fs.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

class WritableHostFs : public ::testing::Test {
 protected:
  WritableHostFs() {
    std::string name = (std::filesystem::temp_directory_path() / "host-fs-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
    fs_ = HostFs::open(root_.string(), {.hidden = {}, .view = {}, .is_writable = true}).value();
  }
  ~WritableHostFs() override { std::filesystem::remove_all(root_); }

  std::string on_host(const std::string& name) const {
    std::ifstream file(root_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path root_;
  std::unique_ptr<HostFs> fs_;
};

TEST_F(WritableHostFs, FilesAreTheHosts) {
  ASSERT_TRUE(make_dirs(*fs_, "/.pending").ok());
  ASSERT_TRUE(write_file(*fs_, "/.pending/a", as_bytes("hello")).ok());
  EXPECT_EQ(on_host(".pending/a"), "hello");
  ASSERT_TRUE(append_file(*fs_, "/.pending/a", as_bytes(" there")).ok());
  Inode before = lstat(*fs_, "/.pending/a").value().inode;
  Inode pending = lstat(*fs_, "/.pending").value().inode;
  ASSERT_TRUE(fs_->rename(pending, "a", kRootInode, "b", RenameMode::kNoReplace).ok());
  EXPECT_EQ(on_host("b"), "hello there");
  EXPECT_EQ(fs_->get_attributes(before).value().size, 11U) << "the node is found at its new place";
  ASSERT_TRUE(write_file(*fs_, "/b", as_bytes("new")).ok());
  EXPECT_EQ(on_host("b"), "new");
  ASSERT_TRUE(remove(*fs_, "/b").ok());
  EXPECT_FALSE(std::filesystem::exists(root_ / "b"));
}

TEST_F(WritableHostFs, AnOpenFileOutlivesItsName) {
  Attributes made = fs_->create(kRootInode, "a", {.mode = 0600}).value();
  ASSERT_TRUE(fs_->unlink(kRootInode, "a").ok());
  ASSERT_TRUE(fs_->write(made.inode, 0, as_bytes("x")).ok());
  std::string read(1, ' ');
  EXPECT_EQ(fs_->read(made.inode, 0, as_mutable_bytes(read)).value(), 1U);
  EXPECT_EQ(read, "x");
  fs_->release(made.inode);
}

TEST_F(WritableHostFs, TakesOnlyFilesAndDirectories) {
  EXPECT_EQ(fs_->make_symlink(kRootInode, "l", "/etc", {}).error().code(), Code::kNotPermitted);
  EXPECT_EQ(fs_->make_node(kRootInode, "p", {.mode = S_IFIFO | 0600}).error().code(), Code::kNotPermitted);
  Attributes file = fs_->create(kRootInode, "f", {.mode = 04755}).value();
  EXPECT_EQ(file.mode & 07777U, 0755U);
  EXPECT_EQ(fs_->link(file.inode, kRootInode, "g").error().code(), Code::kNotPermitted);
  fs_->release(file.inode);
}

TEST_F(WritableHostFs, ALinkThatTheHostPutThereIsNotFollowed) {
  std::filesystem::create_symlink("/etc/passwd", root_ / "l");
  Attributes link = fs_->lookup(kRootInode, "l").value();
  EXPECT_FALSE(fs_->write(link.inode, 0, as_bytes("x")).ok());
  ASSERT_TRUE(write_file(*fs_, "/f", as_bytes("x")).ok());
  Inode file = lstat(*fs_, "/f").value().inode;
  std::filesystem::remove(root_ / "f");
  std::filesystem::create_symlink("/etc/passwd", root_ / "f");
  EXPECT_FALSE(fs_->write(file, 0, as_bytes("x")).ok());
}

class LimitedHostFs : public WritableHostFs {
 protected:
  LimitedHostFs() {
    fs_ = HostFs::open(root_.string(),
                       {.hidden = {}, .view = {}, .is_writable = true, .bytes_max = 1 << 20, .nodes_max = 20})
              .value();
  }

  Status fill(const std::string& name, std::size_t bytes) {
    return write_file(*fs_, name, as_bytes(std::string(bytes, 'x')));
  }
};

TEST_F(LimitedHostFs, ManyFilesTogetherAreLimited) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(fill("/f" + std::to_string(i), 300'000).ok());
  EXPECT_EQ(fill("/g", 300'000).error().code(), Code::kNoSpace);
  std::filesystem::rename(root_ / "f0", root_.parent_path() / (root_.filename().string() + "-taken"));
  EXPECT_TRUE(fill("/g", 300'000).ok()) << "the relay has taken a message";
  std::filesystem::remove(root_.parent_path() / (root_.filename().string() + "-taken"));
}

TEST_F(LimitedHostFs, WritingOneFileAgainAndAgainIsNotLimited) {
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(fill("/f", 300'000).ok()) << i;
}

TEST_F(LimitedHostFs, SpaceIsNotHadInOtherWays) {
  Attributes file = fs_->create(kRootInode, "f", {.mode = 0600}).value();
  EXPECT_EQ(fs_->allocate(file.inode, AllocateMode::kKeepSize, 0, 2 << 20).error().code(), Code::kNoSpace);
  ASSERT_TRUE(fs_->write(file.inode, 0, as_bytes(std::string(600'000, 'x'))).ok());
  ASSERT_TRUE(fs_->unlink(kRootInode, "f").ok());
  EXPECT_EQ(fill("/g", 600'000).error().code(), Code::kNoSpace) << "a deleted file that is open counts";
  EXPECT_EQ(fs_->open_backing(file.inode).error().code(), Code::kUnsupported);
  fs_->release(file.inode);
  ASSERT_TRUE(fill("/g", 600'000).ok());
  Attributes from = lstat(*fs_, "/g").value();
  Attributes to = fs_->create(kRootInode, "h", {.mode = 0600}).value();
  EXPECT_EQ(fs_->copy_range(from.inode, 0, to.inode, 0, 1 << 30).error().code(), Code::kNoSpace);
  fs_->release(to.inode);
}

TEST_F(LimitedHostFs, FilesAndDirectoriesAreCounted) {
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(fill("/f" + std::to_string(i), 1).ok());
    ASSERT_TRUE(make_dirs(*fs_, "/d" + std::to_string(i)).ok());
  }
  EXPECT_EQ(fill("/more", 1).error().code(), Code::kNoSpace);
  EXPECT_EQ(make_dirs(*fs_, "/more").error().code(), Code::kNoSpace);
  std::filesystem::remove(root_ / "f0");
  EXPECT_TRUE(fill("/more", 1).ok());
}

TEST_F(WritableHostFs, AFileThatTheHostHasTakenCanBeSynced) {
  Attributes made = fs_->create(kRootInode, "a", {.mode = 0600}).value();
  ASSERT_TRUE(fs_->write(made.inode, 0, as_bytes("x")).ok());
  std::filesystem::path taken = root_.parent_path() / (root_.filename().string() + "-taken");
  std::filesystem::rename(root_ / "a", taken);
  EXPECT_TRUE(fs_->sync(made.inode).ok());
  fs_->release(made.inode);
  std::filesystem::remove(taken);
  EXPECT_TRUE(fs_->sync(kRootInode).ok());
}

TEST_F(WritableHostFs, ADirectoryGetsTheModeThatWasAskedFor) {
  for (std::uint32_t mode : {0U, 0777U, 0700U}) {
    std::string name = "d" + std::to_string(mode);
    ASSERT_TRUE(fs_->make_dir(kRootInode, name, {.mode = mode}).ok());
    EXPECT_EQ(fs_->lookup(kRootInode, name).value().mode & 07777U, mode);
  }
}

}  // namespace
}  // namespace warren
