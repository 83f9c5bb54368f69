#include "os/files/host_tree.h"

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "os/files/host_files.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

class HostTreeTest : public ::testing::Test {
 protected:
  HostTreeTest() {
    EXPECT_EQ(::mkdir(path("in").c_str(), 0755), 0);
    EXPECT_EQ(::mkdir(path("out").c_str(), 0755), 0);
    tree_ = HostTree::open(path("in")).value();
  }

  std::string path(const std::string& name) const { return dir_.path() + "/" + name; }
  void put(const std::string& name, std::string_view content) {
    EXPECT_TRUE(replace_host_file(path(name), content, 0644).ok());
  }
  bool exists(const std::string& name) const { return find_host_link(path(name)).value().has_value(); }

  testing::TempDir dir_;
  std::unique_ptr<HostTree> tree_;
};

TEST_F(HostTreeTest, FollowsNoLinkOnTheWay) {
  put("out/f", "x");
  ASSERT_EQ(::symlink(path("out").c_str(), path("in/d").c_str()), 0);
  EXPECT_FALSE(tree_->find("/d/f").value().has_value());
  EXPECT_FALSE(tree_->create_file("/d/new").ok());
  EXPECT_FALSE(tree_->make_dir("/d/new", 0755).ok());
  EXPECT_FALSE(tree_->remove_file("/d/f").ok());
  put("in/mine", "y");
  EXPECT_FALSE(tree_->rename("/mine", "/d/f", HostReplace::kYes).ok());
  EXPECT_TRUE(exists("out/f"));
  EXPECT_FALSE(exists("out/new"));
}

TEST_F(HostTreeTest, FollowsNoLinkAtTheEnd) {
  put("out/f", "x");
  ASSERT_EQ(::chmod(path("out/f").c_str(), 0600), 0);
  ASSERT_EQ(::symlink(path("out/f").c_str(), path("in/l").c_str()), 0);
  EXPECT_FALSE(tree_->open_file("/l", O_RDWR).ok());
  HostMetadata metadata = tree_->get_metadata("/l").value();
  metadata.mode = 0777;
  EXPECT_TRUE(tree_->set_metadata("/l", metadata).ok());
  EXPECT_EQ(find_host_file(path("out/f")).value()->st_mode & 07777U, 0600U);
}

TEST_F(HostTreeTest, NeverGoesAboveItsTop) {
  EXPECT_FALSE(tree_->find("/../out").ok());
  EXPECT_FALSE(tree_->make_dir("/../out/x", 0755).ok());
  EXPECT_FALSE(exists("out/x"));
}

TEST_F(HostTreeTest, RemovesATreeAndTheLinksInItButNotWhatTheyPointTo) {
  put("out/f", "x");
  ASSERT_TRUE(tree_->make_dir("/d", 0755).ok());
  ASSERT_TRUE(tree_->make_dir("/d/closed", 0755).ok());
  put("in/d/closed/f", "x");
  ASSERT_EQ(::symlink(path("out").c_str(), path("in/d/l").c_str()), 0);
  ASSERT_EQ(::chmod(path("in/d/closed").c_str(), 0), 0);
  EXPECT_EQ(tree_->digest_tree("/d").value().nodes, 4U);
  EXPECT_TRUE(tree_->remove_tree("/d").ok());
  EXPECT_FALSE(exists("in/d"));
  EXPECT_TRUE(exists("out/f"));
  EXPECT_TRUE(tree_->remove_tree("/d").ok());
}

TEST_F(HostTreeTest, ARenameWithoutReplacingReplacesNothing) {
  put("in/a", "1");
  put("in/b", "2");
  Status done = tree_->rename("/a", "/b", HostReplace::kNo);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), Code::kExists);
  EXPECT_EQ(read_host_file(path("in/b"), 10).value(), "2");
}

TEST_F(HostTreeTest, TwoNamesAreExchanged) {
  put("in/a", "1");
  put("in/b", "2");
  ASSERT_TRUE(tree_->exchange("/a", "/b").ok());
  EXPECT_EQ(read_host_file(path("in/a"), 10).value(), "2");
  EXPECT_EQ(read_host_file(path("in/b"), 10).value(), "1");
  Status done = tree_->exchange("/a", "/none");
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code(), Code::kNotFound);
  EXPECT_EQ(read_host_file(path("in/a"), 10).value(), "2");
}

TEST_F(HostTreeTest, AFingerprintNoticesAChangeThatKeptSizeAndTime) {
  ASSERT_TRUE(tree_->make_dir("/d", 0755).ok());
  put("in/d/f", std::string(3'000'001, 'a'));
  HostMetadata metadata = tree_->get_metadata("/d/f").value();
  std::uint64_t file = tree_->fingerprint_tree("/d/f").value();
  std::uint64_t dir = tree_->fingerprint_tree("/d").value();
  std::uint64_t digest = tree_->digest_tree("/d").value().value;
  for (off_t at : {0, 1'500'000, 3'000'000}) {
    Fd fd = tree_->open_file("/d/f", O_RDWR).take_value();
    ASSERT_EQ(::pwrite(fd.get(), "b", 1, at), 1);
    ASSERT_TRUE(tree_->set_metadata("/d/f", metadata).ok());
    EXPECT_EQ(tree_->digest_tree("/d").value().value, digest);
    EXPECT_NE(tree_->fingerprint_tree("/d/f").value(), file) << at;
    EXPECT_NE(tree_->fingerprint_tree("/d").value(), dir) << at;
    ASSERT_EQ(::pwrite(fd.get(), "a", 1, at), 1);
    ASSERT_TRUE(tree_->set_metadata("/d/f", metadata).ok());
    EXPECT_EQ(tree_->fingerprint_tree("/d").value(), dir) << at;
  }
}

TEST_F(HostTreeTest, AHoleAndZerosHaveTheSameDigest) {
  std::string content(2'000'001, '\0');
  content.back() = 'x';
  put("in/zeros", content);
  put("in/hole", "");
  Fd hole = tree_->open_file("/hole", O_RDWR).take_value();
  ASSERT_EQ(::pwrite(hole.get(), "x", 1, 2'000'000), 1);
  Fd zeros = tree_->open_file("/zeros", O_RDWR).take_value();
  EXPECT_EQ(digest_host_content(hole.get()).value(), digest_host_content(zeros.get()).value());
}

TEST_F(HostTreeTest, APathMeansWhatItMeansAfterADirectoryMoved) {
  ASSERT_TRUE(tree_->make_dir("/a", 0755).ok());
  put("in/a/f", "1");
  EXPECT_TRUE(tree_->find("/a/f").value().has_value());
  ASSERT_TRUE(tree_->rename("/a", "/b", HostReplace::kNo).ok());
  EXPECT_FALSE(tree_->find("/a/f").value().has_value());
  EXPECT_TRUE(tree_->find("/b/f").value().has_value());
}

TEST_F(HostTreeTest, OneAtATimeHasTheLock) {
  auto other = HostTree::open(path("in")).value();
  EXPECT_TRUE(tree_->lock().ok());
  Status second = other->lock();
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), Code::kBusy);
  tree_.reset();
  EXPECT_TRUE(other->lock().ok());
}

TEST_F(HostTreeTest, ContentIsCopiedWithItsHoles) {
  Fd from = tree_->create_file("/from").value();
  ASSERT_EQ(::pwrite(from.get(), "end", 3, 10 << 20), 3);
  Fd to = tree_->create_file("/to").value();
  ASSERT_EQ(::pwrite(to.get(), "was here", 8, 0), 8);
  EXPECT_EQ(copy_host_content(from.get(), to.get()).value(), (10U << 20) + 3);
  struct stat info = tree_->get("/to").value();
  EXPECT_EQ(info.st_size, (10 << 20) + 3);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);
}

TEST_F(HostTreeTest, AnInterruptedCopyIsRecognised) {
  std::string whole = std::string(4096, 'a') + std::string(4096, 'b') + "end";
  put("in/source", whole);
  Fd source = tree_->open_file("/source", O_RDONLY).value();
  auto is_copy = [&](const std::string& content) {
    put("in/file", content);
    Fd file = tree_->open_file("/file", O_RDONLY).value();
    return is_copy_of(file.get(), source.get()).value();
  };
  EXPECT_TRUE(is_copy(whole));
  EXPECT_TRUE(is_copy(""));
  EXPECT_TRUE(is_copy(std::string(4096, 'a') + std::string(4099, '\0')));
  EXPECT_TRUE(is_copy(std::string(4096, '\0') + whole.substr(4096)));
  EXPECT_FALSE(is_copy(whole.substr(0, 4096)));
  std::string edited = whole;
  edited.replace(4096, 6, "edited");
  EXPECT_FALSE(is_copy(edited));
}

TEST_F(HostTreeTest, AnOwnReadOnlyFileCanBeOverwritten) {
  put("in/f", "old");
  ASSERT_EQ(::chmod(path("in/f").c_str(), 0444), 0);
  EXPECT_TRUE(tree_->check_overwritable("/f").ok());
  EXPECT_TRUE(tree_->open_despite_mode("/f", O_RDWR).ok());
  EXPECT_EQ(tree_->get("/f").value().st_mode & 07777U, 0444U);
  ASSERT_EQ(::mkdir(path("in/d").c_str(), 0755), 0);
  EXPECT_FALSE(tree_->check_overwritable("/d").ok());
  EXPECT_FALSE(tree_->open_despite_mode("/d", O_RDWR).ok());
}

}  // namespace
}  // namespace warren
