#include "relay/attachments/attachment_store.h"

#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "crypto/digest.h"
#include "os/files/host_files.h"
#include "relay/attachments/attachment_hasher.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

using ::warren::testing::error_of;

const std::atomic<bool> kGoOn = false;
constexpr std::uint64_t kMost = 1 << 30;

class AttachmentStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root = std::move(Root::open(dir.file("root"), MakeRoot::kYes)).value();
    store = std::make_unique<AttachmentStore>(*root);
  }
  std::string add(std::string_view content) {
    EXPECT_OK(replace_host_file(dir.file("source"), content, 0600));
    Fd file(::open(dir.file("source").c_str(), O_RDONLY | O_CLOEXEC));
    return std::move(store->add(file.get(), kMost)).value();
  }
  std::string path(std::string_view hash) { return root->path() + "/attachments/" + path_of_attachment(hash); }
  FileIdentity identity(std::string_view hash) { return store->open(hash)->identity; }
  std::size_t count(const std::string& folder) {
    Fd opened = std::move(open_host_dir(root->path() + "/attachments/" + folder)).value();
    return list_host_dir(opened.get())->size();
  }

  ::warren::testing::TempDir dir;
  std::unique_ptr<Root> root;
  std::unique_ptr<AttachmentStore> store;
};

TEST_F(AttachmentStoreTest, AnAddedFileIsFoundByItsHashAndReadBack) {
  std::string hash = add("content");
  EXPECT_EQ(hash, sha256_hex(as_bytes("content")));
  EXPECT_EQ(*read_host_file(path(hash), 100), "content");
  EXPECT_EQ((*find_host_file(path(hash)))->st_mode & 07777, 0600U);
  EXPECT_TRUE(store->verify(hash, kGoOn)->is_right);
  Fd out(::open(dir.file("out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_OK(store->copy_to(hash, out.get()));
  EXPECT_EQ(*read_host_file(dir.file("out"), 100), "content");
  EXPECT_EQ(count(".pending"), 0U);
}

TEST_F(AttachmentStoreTest, TheSameContentIsNotStoredTwiceButRenewed) {
  std::string hash = add("content");
  FileIdentity before = identity(hash);
  timespec long_ago[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path(hash).c_str(), long_ago, 0), 0);
  EXPECT_EQ(add("content"), hash);
  EXPECT_EQ(identity(hash).inode, before.inode);
  EXPECT_GT(identity(hash).mtime_ns, 1000'000'000'000);
}

TEST_F(AttachmentStoreTest, ContentFromAPipeIsStoredToo) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  Fd in(ends[0]);
  std::thread writer([&] {
    Fd out(ends[1]);
    EXPECT_OK(write_all(out.get(), as_bytes(std::string(3 << 20, 'x'))));
  });
  Result<std::string> hash = store->add(in.get(), kMost);
  writer.join();
  ASSERT_OK(hash);
  EXPECT_EQ(*hash, sha256_hex(as_bytes(std::string(3 << 20, 'x'))));
  EXPECT_EQ(error_of(store->add(root->dir(), kMost)), Code::kIsDirectory);
}

TEST_F(AttachmentStoreTest, AFileThatIsTooLargeIsNotStored) {
  for (const char* endless : {"/dev/zero", "/proc/self/exe"}) {
    Fd file(::open(endless, O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(error_of(store->add(file.get(), 100'000)), Code::kTooLarge) << endless;
  }
  EXPECT_EQ(count(".pending"), 0U);
}

TEST_F(AttachmentStoreTest, AWrongFileIsDetectedAndMovedAsideMakesRoomForTheRightOne) {
  std::string hash = add("content");
  ASSERT_OK(replace_host_file(path(hash), "c0ntent", 0600));
  EXPECT_FALSE(store->verify(hash, kGoOn)->is_right);
  Fd out(::open(dir.file("out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(error_of(store->copy_to(hash, out.get())), Code::kCorrupt);
  ASSERT_OK(store->set_aside(path_of_attachment(hash), hash));
  EXPECT_EQ(error_of(store->open(hash)), Code::kNotFound);
  EXPECT_EQ(count(".rejected"), 1U);
  EXPECT_EQ(add("content"), hash);
  EXPECT_TRUE(store->verify(hash, kGoOn)->is_right);
}

TEST_F(AttachmentStoreTest, LinksPipesAndFilesWithSeveralHardLinksAreRefused) {
  std::string hash = add("content");
  ASSERT_EQ(::link(path(hash).c_str(), dir.file("other").c_str()), 0);
  EXPECT_EQ(error_of(store->open(hash)), Code::kDenied);
  EXPECT_EQ(error_of(store->make_private(hash)), Code::kDenied);
  ASSERT_EQ(::unlink(path(hash).c_str()), 0);
  ASSERT_EQ(::symlink(dir.file("other").c_str(), path(hash).c_str()), 0);
  EXPECT_EQ(error_of(store->open(hash)), Code::kDenied);
  ASSERT_EQ(::unlink(path(hash).c_str()), 0);
  ASSERT_EQ(::mkfifo(path(hash).c_str(), 0600), 0);
  EXPECT_EQ(error_of(store->open(hash)), Code::kDenied);
}

TEST_F(AttachmentStoreTest, AFileThatIsChangedWhileItIsReadIsBusy) {
  std::string hash = add(std::string(1 << 20, 'x'));
  std::atomic<bool> stop = false;
  std::thread toucher([&] {
    while (!stop) ::utimensat(AT_FDCWD, path(hash).c_str(), nullptr, 0);
  });
  std::optional<Code> seen;
  for (int i = 0; i < 10'000 && !seen; ++i) seen = error_of(store->verify(hash, kGoOn));
  stop = true;
  toucher.join();
  EXPECT_EQ(seen, Code::kBusy);
  EXPECT_TRUE(store->verify(hash, kGoOn)->is_right);
}

TEST_F(AttachmentStoreTest, OnlyAnUnchangedFileIsRemoved) {
  std::string hash = add("content");
  FileIdentity old = identity(hash);
  old.mtime_ns -= 1;
  EXPECT_FALSE(*store->remove(hash, old));
  EXPECT_TRUE(store->open(hash).ok());
  EXPECT_TRUE(*store->remove(hash, identity(hash)));
  EXPECT_EQ(error_of(store->open(hash)), Code::kNotFound);
  EXPECT_EQ(count(".pending"), 0U);
}

// A file that was touched and then found by its name is not lost to a removal at the same time.
TEST_F(AttachmentStoreTest, RenewingAndRemovingConcurrentlyNeverLosesAFoundFile) {
  std::string hash = add("content");
  int kept = 0;
  int lost = 0;
  for (int i = 0; i < 5000; ++i) {
    Fd file(::open(path(hash).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_OK(write_all(file.get(), as_bytes("content")));
    timespec long_ago[2] = {{1000, 0}, {1000, 0}};
    ASSERT_EQ(::futimens(file.get(), long_ago), 0);
    FileIdentity old = identity(hash);
    std::atomic<bool> go = false;
    std::thread remover([&] {
      while (!go) continue;
      EXPECT_OK(store->remove(hash, old));
    });
    go = true;
    for (std::atomic<int> wait = (i % 300) * 20; wait > 0; --wait) continue;
    ASSERT_EQ(::futimens(file.get(), nullptr), 0);
    bool is_found = store->open(hash).ok();
    remover.join();
    ASSERT_TRUE(!is_found || store->open(hash).ok()) << i;
    ++(is_found ? kept : lost);
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(lost, 0);
}

TEST_F(AttachmentStoreTest, AFileRemovedWhileItIsAddedIsAddedAgain) {
  for (int i = 0; i < 50; ++i) {
    std::string hash = add("content");
    timespec long_ago[2] = {{1000, 0}, {1000, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path(hash).c_str(), long_ago, 0), 0);
    FileIdentity old = identity(hash);
    Fd source(::open(dir.file("source").c_str(), O_RDONLY | O_CLOEXEC));
    std::thread remover([&] { EXPECT_OK(store->remove(hash, old)); });
    EXPECT_EQ(*store->add(source.get(), kMost), hash);
    remover.join();
    ASSERT_TRUE(store->verify(hash, kGoOn)->is_right) << i;
  }
}

TEST_F(AttachmentStoreTest, AnInterruptedRemovalIsUndone) {
  std::string hash = add("content");
  ASSERT_EQ(::rename(path(hash).c_str(), (root->path() + "/attachments/.pending/" + hash + ".out").c_str()), 0);
  ASSERT_OK(store->finish_removals());
  EXPECT_TRUE(store->verify(hash, kGoOn)->is_right);
  ASSERT_OK(replace_host_file(root->path() + "/attachments/.pending/" + hash + ".out", "x", 0600));
  ASSERT_OK(store->finish_removals());
  EXPECT_TRUE(store->verify(hash, kGoOn)->is_right);
  EXPECT_EQ(count(".pending"), 0U);
}

TEST_F(AttachmentStoreTest, PiecesAreKeptOnlyIfTheyMatchTheHash) {
  std::vector<std::string> pieces = {"first ", "second"};
  std::size_t at = 0;
  auto next = [&]() -> Result<std::string> { return at < pieces.size() ? pieces[at++] : std::string(); };
  std::string hash = sha256_hex(as_bytes("first second"));
  ASSERT_OK(store->add_pieces(hash, next));
  EXPECT_EQ(*read_host_file(path(hash), 100), "first second");
  pieces = {"first ", "third"};
  at = 0;
  EXPECT_EQ(error_of(store->add_pieces(std::string(64, '0'), next)), Code::kCorrupt);
  auto fails = []() -> Result<std::string> { return Error(Code::kUnavailable, "away"); };
  EXPECT_EQ(error_of(store->add_pieces(std::string(64, '0'), fails)), Code::kUnavailable);
  EXPECT_EQ(error_of(store->open(std::string(64, '0'))), Code::kNotFound);
  EXPECT_EQ(count(".pending"), 0U);
  std::string empty = sha256_hex({});
  at = pieces.size();
  ASSERT_OK(store->add_pieces(empty, next));
  EXPECT_EQ(*read_host_file(path(empty), 100), "");
}

TEST_F(AttachmentStoreTest, TheHasherReportsEachFileOnceAndCanBeInterrupted) {
  std::string good = add(std::string(2 << 20, 'x'));
  std::string gone(64, '0');
  auto hasher = std::move(AttachmentHasher::open(*store)).value();
  EXPECT_TRUE(hasher->is_idle());
  for (const std::string& hash : {good, gone, good}) ASSERT_OK(hasher->request(hash));
  std::map<std::string, std::optional<Code>> answers;
  while (answers.size() < 2) {
    for (const Hashed& one : hasher->take()) {
      EXPECT_FALSE(answers.contains(one.key));
      answers[one.key] = error_of(one.found);
    }
    std::this_thread::yield();
  }
  EXPECT_EQ(answers[good], std::nullopt);
  EXPECT_EQ(answers[gone], Code::kNotFound);
  EXPECT_TRUE(hasher->is_idle());
  ASSERT_EQ(::truncate(path(good).c_str(), off_t{1} << 40), 0);  // takes hours unless interrupted
  ASSERT_OK(hasher->request(good));
  hasher.reset();
}

}  // namespace
}  // namespace warren::relay
