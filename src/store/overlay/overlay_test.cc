// An agent file on top of a directory of the host: OverlayFs, HostFs and OverlayRows together.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "fs/host/host_fs.h"
#include "fs/overlay/overlay_fs.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/fsck/fsck.h"
#include "store/overlay/overlay_rows.h"
#include "store/overlay/overlay_schema.h"
#include "store/query.h"
#include "store/store.h"
#include "store/tables/usage.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

class CountingListener final : public ChangeListener {
 public:
  void entry_changed(Inode, std::string_view) override { ++count; }
  void node_changed(Inode) override { ++count; }
  void everything_changed() override { ++count; }
  std::atomic<int> count = 0;
};

using testing::error_of;

constexpr std::uint64_t kCopyWhole = std::uint64_t{1} << 20;
constexpr std::size_t kLarge = 3'000'000;  // too large to be copied at once

// One process that has the agent open.
struct World {
  World(const std::string& file, const std::string& base_dir, OpenMode mode, Clock& clock,
        Commits commits = Commits::kEach) {
    store = Store::open(file, {.mode = mode, .durability = Durability::kProcess, .commits = commits}, clock).value();
    if (mode == OpenMode::kCreate) {
      EXPECT_OK(make_overlay(*store, base_dir));
    }
    rows = OverlayRows::open(*store).value();
    base = HostFs::open(base_dir).value();
    overlay = OverlayFs::open(*rows, *base, kCopyWhole).value();
  }
  FileSystem& fs() { return *overlay; }

  std::unique_ptr<Store> store;
  std::unique_ptr<OverlayRows> rows;
  std::unique_ptr<HostFs> base;
  std::unique_ptr<OverlayFs> overlay;
};

class OverlayTest : public ::testing::Test {
 protected:
  OverlayTest() {
    EXPECT_EQ(::mkdir(base_.c_str(), 0755), 0);
    put("/a.txt", "from the base\n");
    put("/d/deep/er/f", "deep");
    put("/d/g", "g");
    put("/large", large_);
  }

  std::string host(std::string_view path) { return base_ + std::string(path); }
  void put(std::string_view path, std::string_view text) {
    std::filesystem::create_directories(std::filesystem::path(host(path)).parent_path());
    std::ofstream(host(path), std::ios::binary) << text;
  }
  void start() { world_ = std::make_unique<World>(dir_.file("a.db"), base_, OpenMode::kCreate, clock_); }
  void restart() {
    world_.reset();
    world_ = std::make_unique<World>(dir_.file("a.db"), base_, OpenMode::kReadWrite, clock_);
  }
  FileSystem& fs() { return world_->fs(); }
  std::string read(std::string_view path) { return read_file(fs(), path).value(); }
  void write(std::string_view path, std::string_view text) { ASSERT_OK(write_file(fs(), path, as_bytes(text))); }
  std::vector<std::string> names(std::string_view path) { return read_dir(fs(), path).value(); }
  std::int64_t count(const std::string& sql) {
    auto guard = world_->store->database().lock();
    Statement query = world_->store->database().prepare(UserSql{sql}).value();
    return query.find_integer()->value();
  }
  void expect_sound() {
    std::string file = dir_.file("a.db");
    world_.reset();
    auto report = check_agent(file, clock_);
    ASSERT_OK(report);
    EXPECT_TRUE(report->violations.empty()) << report->violations.front().message;
    world_ = std::make_unique<World>(file, base_, OpenMode::kReadWrite, clock_);
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  std::string base_ = dir_.file("base");
  std::string large_ = [] {
    std::string text(kLarge, '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i / 1000 % 26);
    return text;
  }();
  std::unique_ptr<World> world_;
};

TEST_F(OverlayTest, OV7_RemovingWhatTheBaseHasMakesAWhiteout) {
  start();
  ASSERT_OK(unlink(fs(), "/d/g"));
  EXPECT_EQ(count("SELECT count(*) FROM fs_whiteout WHERE path='/d/g' AND parent_path='/d'"), 1);
  restart();
  EXPECT_EQ(error_of(lstat(fs(), "/d/g")), Code::kNotFound);
  EXPECT_EQ(names("/d"), std::vector<std::string>{"deep"});
  EXPECT_EQ(std::filesystem::exists(host("/d/g")), true);
}

TEST_F(OverlayTest, OV8_CopyingUpStoresTheOrigin) {
  start();
  Inode number = stat(fs(), "/a.txt")->inode;
  write("/a.txt", "changed");
  EXPECT_EQ(count("SELECT base_ino FROM fs_origin JOIN fs_dentry ON delta_ino = ino WHERE name = 'a.txt'"),
            static_cast<std::int64_t>(number.value));
}

TEST_F(OverlayTest, OV9_ANodeKeepsItsNumberThroughCopyingAndReopening) {
  start();
  Inode file = stat(fs(), "/d/deep/er/f")->inode;
  Inode dir = stat(fs(), "/d/deep")->inode;
  write("/d/deep/er/f", "changed");
  EXPECT_EQ(stat(fs(), "/d/deep/er/f")->inode, file);
  restart();
  EXPECT_EQ(stat(fs(), "/d/deep/er/f")->inode, file);
  EXPECT_EQ(stat(fs(), "/d/deep")->inode, dir);
}

TEST_F(OverlayTest, OV10_TheDeltaComesBeforeWhiteoutsAndTheBaseLast) {
  start();
  EXPECT_EQ(read("/a.txt"), "from the base\n");
  ASSERT_OK(unlink(fs(), "/a.txt"));
  EXPECT_EQ(error_of(stat(fs(), "/a.txt")), Code::kNotFound);
  write("/a.txt", "new");
  EXPECT_EQ(read("/a.txt"), "new");
  EXPECT_EQ(count("SELECT count(*) FROM fs_whiteout"), 0);
  restart();
  EXPECT_EQ(read("/a.txt"), "new");
}

TEST_F(OverlayTest, ReadingCopiesNothing) {
  start();
  read("/a.txt");
  read("/large");
  names("/d/deep/er");
  EXPECT_EQ(count("SELECT count(*) FROM fs_inode"), 1);
  EXPECT_EQ(count("SELECT count(*) FROM fs_whiteout"), 0);
}

TEST_F(OverlayTest, ACopyKeepsItsStatAndExtendedAttributes) {
  ASSERT_EQ(::chmod(host("/a.txt").c_str(), 0751), 0);
  ASSERT_EQ(::setxattr(host("/a.txt").c_str(), "user.tag", "x", 1, 0), 0);
  start();
  Attributes before = *stat(fs(), "/a.txt");
  Attributes dir_before = *stat(fs(), "/");
  ASSERT_OK(set_xattr(fs(), "/a.txt", "user.more", as_bytes("y")));
  Attributes after = *stat(fs(), "/a.txt");
  after.ctime = before.ctime;
  EXPECT_EQ(after, before);
  EXPECT_EQ(*get_xattr(fs(), "/a.txt", "user.tag"), "x");
  EXPECT_EQ(*stat(fs(), "/"), dir_before);
  EXPECT_EQ(read("/a.txt"), "from the base\n");
}

TEST_F(OverlayTest, TheOriginalOfATextFileIsKeptForMerging) {
  start();
  write("/a.txt", "changed");
  Inode node = stat(world_->store->fs(), "/a.txt")->inode;
  std::unique_ptr<Unit> unit = world_->rows->begin(UnitAccess::kRead).value();
  EXPECT_EQ(world_->rows->find_ancestor(node)->value(), "from the base\n");
}

TEST_F(OverlayTest, OnlyTheWrittenPartsOfALargeFileAreCopied) {
  start();
  ASSERT_OK(set_mode(fs(), "/large", 0600));
  EXPECT_EQ(count("SELECT count(*) FROM fs_data"), 0);
  EXPECT_EQ(read("/large"), large_);
  ASSERT_OK(write_at(fs(), "/large", 1'500'000, as_bytes("HELLO")));
  EXPECT_LE(count("SELECT count(*) * 4096 FROM fs_data"), 2 * 65'536);
  std::string expected = large_;
  expected.replace(1'500'000, 5, "HELLO");
  EXPECT_EQ(read("/large"), expected);
  restart();
  EXPECT_EQ(read("/large"), expected);
  expect_sound();
}

TEST_F(OverlayTest, ALargeFileIsCutAndGrowsAndKeepsNothingOld) {
  start();
  std::string expected = large_;
  ASSERT_OK(truncate(fs(), "/large", 1'000'001));
  expected.resize(1'000'001);
  EXPECT_EQ(read("/large"), expected);
  ASSERT_OK(truncate(fs(), "/large", 1'400'000));
  expected.resize(1'400'000, '\0');
  EXPECT_EQ(read("/large"), expected);
  ASSERT_OK(append_file(fs(), "/large", as_bytes("tail")));
  expected += "tail";
  Inode node = stat(fs(), "/large")->inode;
  ASSERT_OK(fs().allocate(node, AllocateMode::kPunchHole, 500'000, 100'000));
  expected.replace(500'000, 100'000, 100'000, '\0');
  EXPECT_EQ(read("/large"), expected);
  restart();
  EXPECT_EQ(read("/large"), expected);
  expect_sound();
}

TEST_F(OverlayTest, RenamingADirectoryOfTheBaseMovesNothingElse) {
  for (int i = 0; i < 200; ++i) put("/d/deep/wide/" + std::to_string(i), "x");
  start();
  Inode child = stat(fs(), "/d/deep/er/f")->inode;
  ASSERT_OK(unlink(fs(), "/d/deep/wide/7"));
  std::int64_t before = count("SELECT count(*) FROM fs_inode");
  ASSERT_OK(rename(fs(), "/d", "/moved"));
  EXPECT_EQ(count("SELECT count(*) FROM fs_inode"), before);
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(error_of(stat(fs(), "/d")), Code::kNotFound);
    EXPECT_EQ(read("/moved/deep/er/f"), "deep");
    EXPECT_EQ(stat(fs(), "/moved/deep/er/f")->inode, child);
    EXPECT_EQ(names("/moved/deep/wide").size(), 199U);
    EXPECT_EQ(error_of(stat(fs(), "/moved/deep/wide/7")), Code::kNotFound);
    restart();
  }
  ASSERT_OK(rename(fs(), "/moved/deep", "/deep"));
  write("/deep/er/f", "changed");
  restart();
  EXPECT_EQ(names("/moved"), std::vector<std::string>{"g"});
  EXPECT_EQ(read("/deep/er/f"), "changed");
  EXPECT_EQ(stat(fs(), "/deep/er/f")->inode, child);
  expect_sound();
}

TEST_F(OverlayTest, ARecreatedDirectoryIsEmpty) {
  start();
  ASSERT_OK(remove(fs(), "/d", {.recursive = Recursive::kYes}));
  ASSERT_OK(make_dir(fs(), "/d"));
  EXPECT_TRUE(names("/d").empty());
  put("/d/late", "added on the host afterwards");
  restart();
  EXPECT_TRUE(names("/d").empty());
  write("/d/g", "mine");
  restart();
  EXPECT_EQ(names("/d"), std::vector<std::string>{"g"});
  EXPECT_EQ(read("/d/g"), "mine");
  expect_sound();
}

TEST_F(OverlayTest, ADirectoryMovedToANameOfTheBaseHidesTheBase) {
  put("/other/only", "x");
  start();
  ASSERT_OK(remove(fs(), "/d", {.recursive = Recursive::kYes}));
  ASSERT_OK(make_dir(fs(), "/mine"));
  ASSERT_OK(rename(fs(), "/mine", "/d"));
  EXPECT_TRUE(names("/d").empty());
  ASSERT_OK(remove_dir(fs(), "/d"));
  ASSERT_OK(rename(fs(), "/other", "/d"));
  restart();
  EXPECT_EQ(names("/d"), std::vector<std::string>{"only"});
  expect_sound();
}

TEST_F(OverlayTest, ExchangedDirectoriesKeepTheirWhiteouts) {
  put("/e/x", "ex");
  put("/e/g", "eg");
  start();
  ASSERT_OK(unlink(fs(), "/d/g"));
  ASSERT_OK(unlink(fs(), "/e/x"));
  ASSERT_OK(rename(fs(), "/d", "/e", RenameMode::kExchange));
  restart();
  EXPECT_EQ(names("/e"), std::vector<std::string>{"deep"});
  EXPECT_EQ(names("/d"), std::vector<std::string>{"g"});
  EXPECT_EQ(read("/d/g"), "eg");
  expect_sound();
}

TEST_F(OverlayTest, HardLinksOfTheBaseStayOneFile) {
  ASSERT_EQ(::link(host("/a.txt").c_str(), host("/d/b.txt").c_str()), 0);
  start();
  Inode node = stat(fs(), "/a.txt")->inode;
  EXPECT_EQ(stat(fs(), "/d/b.txt")->inode, node);
  write("/a.txt", "one file");
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(read("/d/b.txt"), "one file");
    EXPECT_EQ(stat(fs(), "/d/b.txt")->nlink, 2U);
    EXPECT_EQ(stat(fs(), "/d/b.txt")->inode, node);
    restart();
  }
  ASSERT_OK(unlink(fs(), "/a.txt"));
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(read("/d/b.txt"), "one file");
    EXPECT_EQ(stat(fs(), "/d/b.txt")->nlink, 1U);
    restart();
  }
  ASSERT_OK(unlink(fs(), "/d/b.txt"));
  expect_sound();  // at once, not only after it was opened again
  EXPECT_EQ(count("SELECT count(*) FROM fs_data"), 0);
}

TEST_F(OverlayTest, AnUnlinkedFileOfTheBaseCanBeReadAndWrittenUntilItIsForgotten) {
  start();
  Inode node = stat(fs(), "/a.txt")->inode;
  ASSERT_OK(fs().retain(node));
  ASSERT_OK(unlink(fs(), "/a.txt"));
  std::string text(4, '?');
  EXPECT_EQ(*fs().read(node, 0, as_mutable_bytes(text)), 4U);
  EXPECT_EQ(text, "from");
  ASSERT_OK(fs().write(node, 0, as_bytes("FROM")));
  EXPECT_EQ(*fs().read(node, 0, as_mutable_bytes(text)), 4U);
  EXPECT_EQ(text, "FROM");
  fs().forget(node, 1);
  EXPECT_EQ(error_of(fs().get_attributes(node)), Code::kStale);
  expect_sound();
}

TEST_F(OverlayTest, ChangesOnTheHostAreSeenUntilTheFileIsCopied) {
  start();
  EXPECT_EQ(read("/a.txt"), "from the base\n");
  put("/a.txt", "changed on the host");
  put("/new", "n");
  EXPECT_EQ(read("/a.txt"), "changed on the host");
  EXPECT_EQ(read("/new"), "n");
  write("/a.txt", "ours");
  put("/a.txt", "changed again");
  EXPECT_EQ(read("/a.txt"), "ours");
}

TEST_F(OverlayTest, APartlyCopiedFileWhoseBaseChangedIsAnErrorAndNotAMixture) {
  start();
  ASSERT_OK(write_at(fs(), "/large", 10, as_bytes("ours")));
  std::string other = large_;
  other[2'900'000] = '!';
  put("/large", other);
  struct timespec times[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, host("/large").c_str(), times, 0), 0);
  EXPECT_EQ(error_of(read_file(fs(), "/large")), Code::kIo);
}

TEST_F(OverlayTest, ADirectoryReplacedByASymlinkIsNotFollowed) {
  std::string outside = dir_.file("outside");
  std::filesystem::create_directories(outside);
  std::ofstream(outside + "/g") << "secret";
  start();
  Inode dir = stat(fs(), "/d")->inode;
  std::filesystem::rename(host("/d"), host("/was"));
  std::filesystem::create_symlink(outside, host("/d"));
  restart();
  EXPECT_TRUE(lstat(fs(), "/d")->is_symlink());
  EXPECT_NE(lstat(fs(), "/d")->inode, dir);
  EXPECT_EQ(error_of(read_file(fs(), "/d/g")), Code::kNotFound);  // resolved inside the agent, where it does not exist
}

TEST_F(OverlayTest, AFolderOfAgentsIsHidden) {
  put("/.agentfs/x.db", "secret");
  auto base = HostFs::open(base_, {.hidden = {host("/.agentfs")}}).value();
  EXPECT_EQ(error_of(base->lookup(kRootInode, ".agentfs")), Code::kDenied);
  std::vector<std::string> found = read_dir(*base, "/").value();
  EXPECT_EQ(std::count(found.begin(), found.end(), ".agentfs"), 0);
}

TEST_F(OverlayTest, WhatTheHostHasWithAHiddenPrefixIsNotShown) {
  auto base = HostFs::open(base_, {.hidden_prefix = ".staging-"}).value();
  put("/.staging-1/7", "half written");
  put("/d/.staging-2/7", "half written");
  for (const char* dir : {"/", "/d"}) {
    for (const std::string& name : read_dir(*base, dir).value()) EXPECT_FALSE(name.starts_with(".staging-")) << name;
  }
  EXPECT_EQ(error_of(base->lookup(kRootInode, ".staging-1")), Code::kDenied);
  EXPECT_EQ(error_of(base->lookup(kRootInode, ".staging-3")), Code::kNotFound);  // an agent may create it
}

TEST_F(OverlayTest, AHiddenFolderStaysHiddenWhenTheHostMovesOrReplacesIt) {
  put("/.secret", "secret");
  put("/keys/id", "secret");
  auto base = HostFs::open(base_, {.hidden = {host("/.secret"), host("/keys"), host("/none")}}).value();
  put("/saved", "secret");
  ASSERT_EQ(::rename(host("/saved").c_str(), host("/.secret").c_str()), 0);
  ASSERT_EQ(::rename(host("/keys").c_str(), host("/moved").c_str()), 0);
  put("/none", "came later");
  for (const char* name : {".secret", "keys", "moved", "none"}) {
    EXPECT_EQ(error_of(base->lookup(kRootInode, name)), Code::kDenied) << name;
    std::vector<std::string> found = read_dir(*base, "/").value();
    EXPECT_EQ(std::count(found.begin(), found.end(), name), 0) << name;
  }
}

TEST_F(OverlayTest, TwoProcessesSeeEachOthersChanges) {
  start();
  World other(dir_.file("a.db"), base_, OpenMode::kReadWrite, clock_);
  EXPECT_EQ(read_file(other.fs(), "/d/g").value(), "g");
  write("/d/g", "one");
  EXPECT_EQ(read_file(other.fs(), "/d/g").value(), "one");
  ASSERT_OK(unlink(other.fs(), "/a.txt"));
  EXPECT_EQ(error_of(stat(fs(), "/a.txt")), Code::kNotFound);
  ASSERT_OK(rename(other.fs(), "/d", "/e"));
  EXPECT_EQ(read("/e/deep/er/f"), "deep");
  EXPECT_EQ(error_of(stat(fs(), "/d")), Code::kNotFound);
}

TEST_F(OverlayTest, AnOverlayOfAnOlderProgramIsUnderstood) {
  {
    auto store = Store::open(dir_.file("a.db"), {.mode = OpenMode::kCreate}, clock_).value();
    ASSERT_OK(write_file(store->fs(), "/d/mine", as_bytes("m")));
    Transaction change = store->begin_write().value();
    ASSERT_OK(
        store->database().execute("CREATE TABLE fs_whiteout (path TEXT PRIMARY KEY, created_at INTEGER NOT NULL);"
                                  "CREATE TABLE fs_overlay_config (key TEXT PRIMARY KEY, value TEXT NOT NULL);"
                                  "CREATE TABLE fs_origin (delta_ino INTEGER PRIMARY KEY, base_ino INTEGER NOT NULL);"
                                  "INSERT INTO fs_whiteout VALUES ('/d/g', 1), ('/a.txt', 1);"
                                  "INSERT INTO fs_origin SELECT ino, 7 FROM fs_dentry WHERE name = 'd';"));
    ASSERT_OK(change.commit());
  }
  restart();
  EXPECT_EQ(names("/"), (std::vector<std::string>{"d", "large"}));
  EXPECT_EQ(names("/d"), (std::vector<std::string>{"deep", "mine"}));
  ASSERT_OK(unlink(fs(), "/d/deep/er/f"));
  ASSERT_OK(rename(fs(), "/d", "/moved"));
  restart();
  EXPECT_EQ(names("/moved"), (std::vector<std::string>{"deep", "mine"}));
  EXPECT_TRUE(names("/moved/deep/er").empty());
}

// One of half a megabyte has as many directories above it as bytes, nearly: each would be looked for.
TEST_F(OverlayTest, AWhiteoutWhosePathCannotBeOneHidesNothing) {
  start();
  {
    Transaction change = world_->store->begin_write().value();
    ASSERT_OK(
        world_->store->database().execute("INSERT INTO fs_whiteout (path, created_at, parent_path) VALUES "
                                          "('a.txt', 1, ''), ('/d//g', 1, ''), ('/d/../large', 1, ''), "
                                          "(replace(hex(zeroblob(250000)), '00', '/d'), 1, '')"));
    ASSERT_OK(change.commit());
  }
  restart();
  std::vector<Whiteout> whiteouts = world_->rows->list_whiteouts().value();
  ASSERT_EQ(whiteouts.size(), 1U);
  EXPECT_EQ(whiteouts[0].path, "/a.txt");
  EXPECT_EQ(names("/"), (std::vector<std::string>{"d", "large"}));
  EXPECT_EQ(names("/d"), (std::vector<std::string>{"deep", "g"}));
}

TEST_F(OverlayTest, AnOverlayWithoutGenerationsIsReadAndGetsThem) {
  put("/twin", "t");
  ASSERT_EQ(::link(host("/twin").c_str(), host("/twin2").c_str()), 0);
  start();
  write("/a.txt", "changed");
  ASSERT_OK(unlink(fs(), "/twin"));
  {
    Transaction change = world_->store->begin_write().value();
    ASSERT_OK(
        world_->store->database().execute("ALTER TABLE wr_origin DROP COLUMN generation;"
                                          "ALTER TABLE wr_lost_link DROP COLUMN generation;"));
    ASSERT_OK(change.commit());
  }
  world_.reset();
  world_ = std::make_unique<World>(dir_.file("a.db"), base_, OpenMode::kReadOnly, clock_);
  EXPECT_EQ(read("/a.txt"), "changed");
  EXPECT_EQ(stat(fs(), "/twin2")->nlink, 1U);
  restart();
  EXPECT_EQ(read("/a.txt"), "changed");
  write("/d/g", "changed too");
  EXPECT_EQ(count("SELECT count(*) FROM pragma_table_info('wr_origin') WHERE name = 'generation'"), 1);
  EXPECT_EQ(count("SELECT count(*) FROM pragma_table_info('wr_lost_link') WHERE name = 'generation'"), 1);
  expect_sound();
}

TEST_F(OverlayTest, WhatTheBaseHadUnderANameIsRecordedOnce) {
  start();
  write("/new", "agent");
  ASSERT_OK(unlink(fs(), "/a.txt"));
  Cover first = world_->rows->find_cover("/a.txt").value().value();
  EXPECT_EQ(first.seen->size, std::string("from the base\n").size());
  put("/new", "of the host");
  put("/a.txt", "another version");
  write("/new", "agent again");
  write("/a.txt", "agent");
  ASSERT_OK(rename(fs(), "/a.txt", "/elsewhere"));
  restart();
  ASSERT_OK(unlink(fs(), "/new"));
  EXPECT_EQ(world_->rows->find_cover("/a.txt").value(), first);
  EXPECT_FALSE(world_->rows->find_cover("/new").value()->seen);
  expect_sound();
}

TEST_F(OverlayTest, ANameThatIsFreeAgainIsRecordedAnew) {
  start();
  write("/new", "agent");
  ASSERT_OK(unlink(fs(), "/new"));
  EXPECT_FALSE(world_->rows->find_cover("/new").value());
  put("/new", "of the host");
  ASSERT_OK(unlink(fs(), "/new"));
  EXPECT_EQ(world_->rows->find_cover("/new").value()->seen->size, std::string("of the host").size());
  write("/d/g", "changed in place");
  EXPECT_FALSE(world_->rows->find_cover("/d/g").value());
  ASSERT_OK(rename(fs(), "/d/g", "/d/h"));
  EXPECT_EQ(world_->rows->find_cover("/d/g").value()->seen->size, 1U);
}

TEST_F(OverlayTest, WhatIsRemovedOrMovedStaysSoIfTheBaseHadLostItForAWhile) {
  start();
  for (std::string_view name : {"/removed", "/moved", "/replaced", "/own"}) put(name, "from the base\n");
  write("/removed", "changed\n");
  write("/moved", "changed\n");
  write("/new", "new\n");
  ASSERT_OK(rename(fs(), "/new", "/replaced"));
  std::filesystem::create_directory(host("/away"));
  std::vector<std::string> lost{"/removed", "/moved", "/replaced"};
  for (const std::string& name : lost) std::filesystem::rename(host(name), host("/away" + name));
  restart();
  ASSERT_OK(unlink(fs(), "/removed"));
  ASSERT_OK(rename(fs(), "/moved", "/elsewhere"));
  ASSERT_OK(unlink(fs(), "/replaced"));
  write("/only here", "1\n");
  ASSERT_OK(unlink(fs(), "/only here"));
  for (const std::string& name : lost) std::filesystem::rename(host("/away" + name), host(name));
  put("/only here", "of the host\n");
  for (int opened = 0; opened < 2; ++opened) {
    for (const std::string& name : lost) EXPECT_EQ(error_of(read_file(fs(), name)), Code::kNotFound) << name;
    EXPECT_EQ(read("/elsewhere"), "changed\n");
    EXPECT_EQ(read("/own"), "from the base\n");
    EXPECT_EQ(read("/only here"), "of the host\n");  // the agent never knew one of the base
    restart();
  }
  expect_sound();
}

TEST_F(OverlayTest, ARemovedDirectoryHasTheRecordOfItsFirstRemovedFile) {
  start();
  ASSERT_OK(unlink(fs(), "/d/deep/er/f"));
  Timestamp at = world_->rows->find_cover("/d/deep/er/f").value()->at;
  clock_.advance_ns(5'000'000'000);
  ASSERT_OK(remove_dir(fs(), "/d/deep/er"));
  ASSERT_OK(remove_dir(fs(), "/d/deep"));
  EXPECT_EQ(world_->rows->find_cover("/d/deep").value()->at, at);
  EXPECT_EQ(world_->rows->list_covers()->size(), 1U);
  ASSERT_OK(make_dir(fs(), "/d/deep"));
  write("/d/deep/own", "x");
  EXPECT_EQ(world_->rows->list_covers()->size(), 1U);
}

TEST_F(OverlayTest, ANumberKeptForAnotherNodeIsNotReused) {
  start();
  HostFs& base = *world_->base;
  Attributes known = base.lookup(kRootInode, "a.txt").value();
  base.reserve_number(known.inode, known.generation);
  EXPECT_EQ(base.lookup(kRootInode, "a.txt")->inode, known.inode);
  base.reserve_number(known.inode, known.generation + 2);
  Attributes now = base.lookup(kRootInode, "a.txt").value();
  bool has_generations = known.generation != 0;  // not every filesystem has them
  EXPECT_EQ(now.inode != known.inode, has_generations);
  EXPECT_EQ(now.host_inode, known.host_inode);
  EXPECT_EQ(base.get_attributes(now.inode)->inode, now.inode);
  std::vector<DirEntry> entries = base.open_dir(kRootInode).value()->read(0, 1, DirDetail::kTypes).value();
  EXPECT_EQ(entries.front().name, "a.txt");
  EXPECT_EQ(entries.front().inode, now.inode);
  std::string text(4, '\0');
  ASSERT_OK(base.read(now.inode, 0, as_mutable_bytes(text)));
  EXPECT_EQ(text, "from");
}

TEST_F(OverlayTest, AQuotaThatIsReachedWhileCopyingLosesNothing) {
  start();
  write("/kept", "k");
  ASSERT_OK(world_->store->usage().set_quota({.bytes = 10'000, .inodes = {}}));
  EXPECT_EQ(error_of(write_at(fs(), "/large", 0, as_bytes("x"))), Code::kNoSpace);
  EXPECT_EQ(read("/large"), large_);
  EXPECT_EQ(read("/kept"), "k");
  expect_sound();
}

class Heard final : public ChangeListener {
 public:
  void entry_changed(Inode, std::string_view name) override { note(std::string(name)); }
  void node_changed(Inode node) override { note(std::to_string(node.value)); }
  void everything_changed() override { note("*"); }
  bool wait_for(const std::string& what) {
    for (int i = 0; i < 500; ++i) {
      {
        std::lock_guard guard(mutex_);
        if (heard_.contains(what)) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

 private:
  void note(std::string what) {
    std::lock_guard guard(mutex_);
    heard_.insert(std::move(what));
  }
  std::mutex mutex_;
  std::set<std::string> heard_;
};

TEST_F(OverlayTest, AListenerIsNotifiedOfChangesByTheHostAndByOtherProcesses) {
  world_ = std::make_unique<World>(dir_.file("a.db"), base_, OpenMode::kCreate, clock_, Commits::kGrouped);
  Heard heard;
  ASSERT_OK(fs().listen(&heard));
  Inode file = stat(fs(), "/a.txt")->inode;
  Inode other_file = stat(fs(), "/d/g")->inode;
  put("/d/fresh", "x");
  EXPECT_TRUE(heard.wait_for("fresh"));
  put("/a.txt", "longer than it was before");
  EXPECT_TRUE(heard.wait_for(std::to_string(file.value)));
  World other(dir_.file("a.db"), base_, OpenMode::kReadWrite, clock_);
  ASSERT_OK(write_file(other.fs(), "/d/g", as_bytes("theirs")));
  EXPECT_TRUE(heard.wait_for(std::to_string(other_file.value)));
  ASSERT_OK(unlink(other.fs(), "/d/deep/er/f"));
  EXPECT_TRUE(heard.wait_for("f"));
  ASSERT_OK(fs().listen(nullptr));
}

TEST_F(OverlayTest, AListenerThatWasRefusedOrDroppedIsNotUsed) {
  start();
  World reading(dir_.file("a.db"), base_, OpenMode::kReadOnly, clock_);
  CountingListener listener;
  EXPECT_EQ(error_of(reading.overlay->listen(&listener)), Code::kUnsupported);
  ASSERT_OK(lstat(reading.fs(), "/a.txt"));
  put("/new.txt", "new");
  reading.overlay->listen(nullptr).ignore("the store reports no changes");
  put("/another.txt", "new");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(listener.count, 0);
}

// A unit that is dropped: nothing of it may be remembered.
class OverlayUndoTest : public OverlayTest, public ::testing::WithParamInterface<Commits> {
 protected:
  void begin() {
    world_ = std::make_unique<World>(dir_.file("a.db"), base_, OpenMode::kCreate, clock_);
    world_.reset();
    world_ = std::make_unique<World>(dir_.file("a.db"), base_, OpenMode::kReadWrite, clock_, GetParam());
  }
  void undone(const std::function<void()>& changes) {
    auto unit = world_->rows->begin(UnitAccess::kWrite).value();
    changes();
  }
};

TEST_P(OverlayUndoTest, AnOpenFileWithoutANameCanBeWrittenAgain) {
  begin();
  Inode file = stat(fs(), "/a.txt")->inode;
  ASSERT_OK(fs().open(file));
  ASSERT_OK(unlink(fs(), "/a.txt"));
  undone([&] { ASSERT_OK(fs().write(file, 0, as_bytes("FROM"))); });
  EXPECT_EQ(fs().get_attributes(file)->nlink, 0U);
  std::string text(14, '\0');
  ASSERT_OK(fs().read(file, 0, as_mutable_bytes(text)));
  EXPECT_EQ(text, "from the base\n");
  ASSERT_OK(fs().write(file, 0, as_bytes("Twice")));
  ASSERT_OK(fs().read(file, 0, as_mutable_bytes(text)));
  EXPECT_EQ(text, "Twicethe base\n");
  fs().release(file);
  EXPECT_EQ(error_of(stat(fs(), "/a.txt")), Code::kNotFound);
  expect_sound();
}

TEST_P(OverlayUndoTest, ARemovedFileThatIsOpenHasItsNameAgain) {
  begin();
  Inode file = stat(fs(), "/a.txt")->inode;
  ASSERT_OK(fs().open(file));
  undone([&] { ASSERT_OK(unlink(fs(), "/a.txt")); });
  EXPECT_EQ(fs().get_attributes(file)->nlink, 1U);
  ASSERT_OK(fs().write(file, 0, as_bytes("FROM")));
  EXPECT_EQ(read("/a.txt"), "FROM the base\n");
  fs().release(file);
  expect_sound();
}

TEST_P(OverlayUndoTest, AFileThatWasMovedOrCoveredIsBackInItsPlace) {
  begin();
  Inode file = stat(fs(), "/a.txt")->inode;
  Inode covered = stat(fs(), "/d/g")->inode;
  ASSERT_OK(fs().open(file));
  ASSERT_OK(fs().open(covered));
  undone([&] { ASSERT_OK(rename(fs(), "/a.txt", "/d/g")); });
  ASSERT_OK(fs().write(file, 0, as_bytes("FROM")));
  ASSERT_OK(fs().write(covered, 0, as_bytes("G")));
  EXPECT_EQ(read("/a.txt"), "FROM the base\n");
  EXPECT_EQ(read("/d/g"), "G");
  fs().release(file);
  fs().release(covered);
  expect_sound();
}

TEST_P(OverlayUndoTest, ADirectoryIsBackInItsPlace) {
  begin();
  Inode dir = stat(fs(), "/d")->inode;
  Inode deep = stat(fs(), "/d/deep")->inode;
  ASSERT_OK(fs().retain(deep));
  undone([&] {
    ASSERT_OK(rename(fs(), "/d", "/moved"));
    ASSERT_OK(make_dir(fs(), "/moved/new"));
    ASSERT_OK(unlink(fs(), "/moved/deep/er/f"));
    ASSERT_OK(fs().remove_dir(stat(fs(), "/moved/deep")->inode, "er"));
    ASSERT_OK(fs().remove_dir(stat(fs(), "/moved")->inode, "deep"));
  });
  EXPECT_EQ(names("/d"), (std::vector<std::string>{"deep", "g"}));
  EXPECT_EQ(stat(fs(), "/d")->inode, dir);
  EXPECT_EQ(read("/d/deep/er/f"), "deep");
  ASSERT_OK(fs().unlink(dir, "g"));
  ASSERT_OK(fs().make_node(deep, "new", {.mode = 0600}));
  EXPECT_EQ(count("SELECT count(*) FROM fs_whiteout"), 1);
  EXPECT_EQ(count("SELECT count(*) FROM fs_whiteout WHERE path='/d/g'"), 1);
  EXPECT_EQ(names("/d/deep"), (std::vector<std::string>{"er", "new"}));
  fs().forget(deep, 1);
  expect_sound();
}

INSTANTIATE_TEST_SUITE_P(Commits, OverlayUndoTest, ::testing::Values(Commits::kEach, Commits::kGrouped));

}  // namespace
}  // namespace warren
