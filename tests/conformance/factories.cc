#include "conformance/factories.h"

#include <array>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "backends/blob/memory_blobs.h"
#include "base/check.h"
#include "base/path.h"
#include "conformance/beyond_blobs.h"
#include "conformance/rebased_fs.h"
#include "fs/host/host_fs.h"
#include "fs/list_dir.h"
#include "fs/memory/memory_fs.h"
#include "fs/mounts/mount_fs.h"
#include "fs/mounts/subtree_fs.h"
#include "fs/overlay/overlay_fs.h"
#include "fs/path_ops.h"
#include "store/ciphers/encrypt_files.h"
#include "store/files/namespace_tree.h"
#include "store/files/sqlite_fs.h"
#include "store/overlay/overlay_rows.h"
#include "store/overlay/overlay_schema.h"
#include "store/store.h"
#include "testing/temp_dir.h"
#include "vfs/audit_file_fs.h"
#include "vfs/audit_fs.h"
#include "vfs/blob_fs.h"

namespace warren::testing {
namespace {

class TestMemoryFs final : public TestFs {
 public:
  explicit TestMemoryFs(Clock& clock) : fs_(clock) {}
  FileSystem& fs() override { return fs_; }

 private:
  MemoryFs fs_;
};

enum class Encrypted { kNo, kWhole, kFiles };
template <Commits commits, Encrypted encrypted = Encrypted::kNo>
class TestSqliteFs final : public TestFs {
 public:
  explicit TestSqliteFs(Clock& clock) {
    StoreOptions options{.mode = OpenMode::kCreate, .durability = Durability::kProcess, .commits = commits};
    if (encrypted == Encrypted::kWhole) {
      options.key = std::make_shared<const DatabaseKey>(std::string(32, 'k'), std::string(16, 's'));
    }
    if (encrypted == Encrypted::kFiles) encrypt_all(options, clock);
    auto opened = Store::open(dir_.file("agent.db"), options, clock);
    WARREN_CHECK(opened.ok());
    store_ = std::move(opened).take_value();
  }
  FileSystem& fs() override { return store_->fs(); }

 private:
  // Every new file, by a pattern.
  void encrypt_all(StoreOptions& options, Clock& clock) {
    NewContentKey key{.salt = std::string(ContentKey::kSaltBytes, 's'), .secret = std::string(32, 'k')};
    WARREN_CHECK(Store::open(dir_.file("agent.db"), options, clock).ok());
    auto database = Database::open(dir_.file("agent.db"), {.durability = Durability::kProcess});
    WARREN_CHECK(database.ok() && (*database)->hold_alone().ok());
    auto id = add_content_key(**database, key);
    WARREN_CHECK(id.ok() && add_patterns(**database, {"/"}, *id).ok());
    options.mode = OpenMode::kReadWrite;
    options.find_content_key = [secret = key.secret](std::string_view) -> Result<std::string> { return secret; };
  }

  TempDir dir_;
  std::unique_ptr<Store> store_;
};

// On the record: the audit trail's wrapper over its file, over a store.
template <Commits commits>
class TestAuditFs final : public TestFs {
 public:
  explicit TestAuditFs(Clock& clock) {
    auto opened =
        Store::open(dir_.file("agent.db"),
                    {.mode = OpenMode::kCreate, .durability = Durability::kProcess, .commits = commits}, clock);
    WARREN_CHECK(opened.ok());
    store_ = std::move(opened).take_value();
    auto keys = []() -> Result<AuditKeys> { return AuditKeys{make_audit_key(std::string(32, 'k'))}; };
    WARREN_CHECK(store_->audit().enable(keys).ok());
    file_ = std::make_unique<AuditFileFs>(store_->fs(), store_->audit(), clock);
    Caller caller{.agent = "a", .space = Space::kUser, .door = "test", .session = {}};
    fs_ = std::make_unique<AuditFs>(*file_, store_->audit(), caller, AuditReads::kByFile, clock);
  }
  FileSystem& fs() override { return *fs_; }

 private:
  TempDir dir_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<AuditFileFs> file_;
  std::unique_ptr<AuditFs> fs_;
};

// The names that tests use most, so that the nodes they create collide with those of the base.
constexpr std::array<std::string_view, 8> kNames{"a", "b", "c", "d", "e", "f", "file", "dir"};

constexpr int kDeepest = 2;
constexpr std::uint64_t kCopyWhole = std::uint64_t{1} << 20;

// Later than the other times, so that reading the base does not change it (relatime).
void set_atime(const std::string& path) {
  std::array<timespec, 2> times{};
  ::clock_gettime(CLOCK_REALTIME, times.data());
  times[0].tv_sec += 3600;
  times[1].tv_nsec = UTIME_OMIT;
  WARREN_CHECK(::utimensat(AT_FDCWD, path.c_str(), times.data(), AT_SYMLINK_NOFOLLOW) == 0);
}

void fill_base(const std::string& dir, int depth) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    std::string path = dir + "/" + std::string(kNames[i]);
    if (i % 2 == 1 && depth > 0) {
      WARREN_CHECK(::mkdir(path.c_str(), 0750) == 0);
      fill_base(path, depth - 1);
      set_atime(path);
      continue;
    }
    bool is_large = kNames[i] == "e" && depth == kDeepest;  // too large to be copied up as a whole
    std::string content(is_large ? 367 * 4096 : i * 3000, static_cast<char>('a' + i));
    Fd file(::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0640));
    WARREN_CHECK(file.is_open() && write_all(file.get(), as_bytes(content)).ok());
    WARREN_CHECK(::fsetxattr(file.get(), "user.from", "base", 4, 0) == 0);
    set_atime(path);
  }
  // Hard links, in one directory and across.
  std::string more = dir + "/...";
  std::string across = dir + (depth == kDeepest ? "/b/%" : "/%'\"");
  WARREN_CHECK(::link((dir + "/c").c_str(), more.c_str()) == 0 && ::link((dir + "/a").c_str(), across.c_str()) == 0);
  std::string link = dir + "/A\nB";
  WARREN_CHECK(::symlink("a", link.c_str()) == 0);
  set_atime(link);
}

// A base and an agent file on top of it. With Emptied, everything was in the base and has been deleted.
enum class Content { kEmptied, kShown };
template <Commits commits, Content content>
class TestOverlayFs final : public TestFs {
 public:
  explicit TestOverlayFs(Clock& clock) {
    std::string dir = dir_.file("base");
    WARREN_CHECK(::mkdir(dir.c_str(), 0755) == 0);
    fill_base(dir, content == Content::kShown ? kDeepest : 1);
    set_atime(dir);
    auto opened =
        Store::open(dir_.file("agent.db"),
                    {.mode = OpenMode::kCreate, .durability = Durability::kProcess, .commits = commits}, clock);
    WARREN_CHECK(opened.ok());
    store_ = std::move(opened).take_value();
    WARREN_CHECK(make_overlay(*store_, dir).ok());
    auto rows = OverlayRows::open(*store_);
    auto base = HostFs::open(dir);
    WARREN_CHECK(rows.ok() && base.ok());
    rows_ = std::move(rows).take_value();
    base_ = std::move(base).take_value();
    auto overlay = OverlayFs::open(*rows_, *base_, kCopyWhole);
    WARREN_CHECK(overlay.ok());
    overlay_ = std::move(overlay).take_value();
    if (content == Content::kEmptied) empty();
  }
  FileSystem& fs() override { return *overlay_; }
  bool has_content() const override { return content == Content::kShown; }

 private:
  void empty() {
    auto names = list_names(*overlay_, kRootInode);
    WARREN_CHECK(names.ok() && !names->empty());
    for (const std::string& name : *names) {
      WARREN_CHECK(remove(*overlay_, "/" + name, {.recursive = Recursive::kYes}).ok());
    }
  }

  TempDir dir_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<OverlayRows> rows_;
  std::unique_ptr<HostFs> base_;
  std::unique_ptr<OverlayFs> overlay_;
};

// What a tree of mounts shows of an agent file that is mounted in it.
class TestMountFs final : public TestFs {
 public:
  explicit TestMountFs(Clock& clock) : below_(clock), mounted_(clock) {
    auto tree = MountFs::make(below_, {{.path = "/deep/inside", .fs = mounted_.fs(), .slot = 5}}, clock);
    WARREN_CHECK(tree.ok());
    tree_ = std::move(tree).take_value();
    auto root = stat(*tree_, "/deep/inside");
    WARREN_CHECK(root.ok());
    fs_.emplace(*tree_, root->inode);
  }
  FileSystem& fs() override { return *fs_; }

 private:
  MemoryFs below_;
  TestSqliteFs<Commits::kEach> mounted_;
  std::unique_ptr<MountFs> tree_;
  std::optional<RebasedFs> fs_;
};

class TestSubtreeFs final : public TestFs {
 public:
  explicit TestSubtreeFs(Clock& clock) : whole_(clock) {
    WARREN_CHECK(make_dirs(whole_, "/deep/inside").ok());
    auto root = stat(whole_, "/deep/inside");
    WARREN_CHECK(root.ok());
    fs_.emplace(whole_, root->inode);
  }
  FileSystem& fs() override { return *fs_; }

 private:
  MemoryFs whole_;
  std::optional<SubtreeFs> fs_;
};

template <Commits commits>
class TestNamespaceTree final : public TestFs {
 public:
  explicit TestNamespaceTree(Clock& clock) {
    auto opened =
        Store::open(dir_.file("agent.db"),
                    {.mode = OpenMode::kCreate, .durability = Durability::kProcess, .commits = commits}, clock);
    WARREN_CHECK(opened.ok());
    store_ = std::move(opened).take_value();
    auto tree = NamespaceTree::open_in(*store_);
    WARREN_CHECK(tree.ok());
    tree_ = std::move(tree).take_value();
  }
  FileSystem& fs() override { return *tree_; }

 private:
  TempDir dir_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<NamespaceTree> tree_;
};

class TestBlobFs final : public TestFs {
 public:
  explicit TestBlobFs(Clock& clock) : store_(clock), fs_(store_, clock) {}
  FileSystem& fs() override { return fs_; }

 private:
  MemoryBlobs store_;
  BlobFs fs_;
};

template <class T>
std::unique_ptr<TestFs> make(Clock& clock) {
  return std::make_unique<T>(clock);
}

}  // namespace

Factory blob_factory() { return {.name = "blob", .make = make<TestBlobFs>, .cannot = tests_beyond_blobs()}; }

std::vector<Factory> factories() {
  return {
      {.name = "memory", .make = make<TestMemoryFs>},
      {.name = "sqlite", .make = make<TestSqliteFs<Commits::kEach>>},
      {.name = "sqlite_grouped", .make = make<TestSqliteFs<Commits::kGrouped>>},
      {.name = "encrypted_grouped", .make = make<TestSqliteFs<Commits::kGrouped, Encrypted::kWhole>>},
      {.name = "encrypted_files", .make = make<TestSqliteFs<Commits::kEach, Encrypted::kFiles>>},
      {.name = "encrypted_files_grouped", .make = make<TestSqliteFs<Commits::kGrouped, Encrypted::kFiles>>},
      {.name = "overlay", .make = make<TestOverlayFs<Commits::kEach, Content::kEmptied>>},
      {.name = "overlay_grouped", .make = make<TestOverlayFs<Commits::kGrouped, Content::kEmptied>>},
      {.name = "mounted", .make = make<TestMountFs>},
      {.name = "audited", .make = make<TestAuditFs<Commits::kEach>>},
      {.name = "audited_grouped", .make = make<TestAuditFs<Commits::kGrouped>>},
      {.name = "subtree", .make = make<TestSubtreeFs>},
      {.name = "namespace", .make = make<TestNamespaceTree<Commits::kEach>>},
      {.name = "namespace_grouped", .make = make<TestNamespaceTree<Commits::kGrouped>>},
  };
}

std::vector<Factory> model_factories() {
  std::vector<Factory> all = factories();
  all.push_back({.name = "overlay_shown", .make = make<TestOverlayFs<Commits::kEach, Content::kShown>>});
  all.push_back({.name = "overlay_shown_grouped", .make = make<TestOverlayFs<Commits::kGrouped, Content::kShown>>});
  return all;
}

}  // namespace warren::testing
