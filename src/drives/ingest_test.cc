#include "drives/ingest.h"

#include <map>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/path.h"
#include "fs/forwarding_fs.h"
#include "fs/path_ops.h"
#include "os/files/host_files.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

class IngestTest : public ::testing::Test {
 protected:
  IngestTest() {
    Store::open(file(), {.mode = OpenMode::kCreate, .durability = Durability::kProcess}, clock_).value().reset();
    agent_ = Agent::open({.id_or_path = file(), .durability = Durability::kProcess}, clock_).value();
  }
  std::string file() const { return dir_.file("a.db"); }
  FileSystem& fs() { return agent_->fs(); }

  void host(std::string_view name, std::string_view content) {
    std::string path = dir_.file("src/" + std::string(name));
    ASSERT_OK(make_host_dirs(std::string(directory_of(path)), 0755));
    ASSERT_OK(replace_host_file(path, content, 0644));
  }
  IngestReport add(IngestOptions options = {}, std::string_view name = "src") {
    Ingest ingest(*agent_, fs(), clock_, std::move(options));
    EXPECT_OK(ingest.add_path(dir_.file(name)));
    EXPECT_OK(ingest.finish());
    return ingest.report();
  }
  // Paths on the drive below the folder that was added.
  std::vector<std::string> added() {
    std::vector<std::string> paths;
    std::string top = namespace_path(make_ref("disk", dir_.file("src")).value());
    Status walked = walk(fs(), top, [&](const WalkEntry& entry) -> Result<WalkNext> {
      if (entry.attributes.is_file()) paths.push_back(entry.path.substr(top.size() + 1));
      return WalkNext::kContinue;
    });
    EXPECT_OK(walked);
    return paths;
  }
  std::string read(std::string_view name) {
    return read_file(fs(), fmt::format("/context/disk{}/src/{}", dir_.path(), name)).value();
  }
  using Paths = std::vector<std::string>;

  testing::TempDir dir_;
  testing::FakeClock clock_;
  std::unique_ptr<Agent> agent_;
};

TEST_F(IngestTest, AFolderIsAddedByItsAbsolutePathAndAgainOnlyWhatChanged) {
  host("a.md", "# Title\n");
  host("sub/b.txt", "b\n");
  IngestReport first = add();
  EXPECT_EQ(first.added, 2U);
  EXPECT_TRUE(first.failures.empty());
  EXPECT_EQ(added(), (Paths{"a.md", "sub/b.txt"}));
  clock_.advance_ns(1'000'000'000);
  host("sub/b.txt", "changed\n");
  IngestReport second = add();
  EXPECT_EQ(second.added, 0U);
  EXPECT_EQ(second.replaced, 1U);
  EXPECT_EQ(second.unchanged, 1U);
  EXPECT_EQ(read("sub/b.txt"), "changed\n");
  Items items(*agent_, fs(), clock_);
  auto unit = fs().begin(UnitAccess::kRead).value();
  Ref ref = make_ref("disk", dir_.file("src/a.md")).value();
  ItemRow row = items.find_row(ref, *items.find(ref).value()).value().value();
  EXPECT_EQ(row.title, "Title");
  EXPECT_EQ(row.mime, "text/markdown");
  EXPECT_EQ(row.source, dir_.file("src/a.md"));
  EXPECT_EQ(row.fetched_at, 1'700'000'000);
}

TEST_F(IngestTest, WhatWasChangedHereIsReplacedOnlyWhenAsked) {
  host("a", "one\n");
  add();
  std::string path = fmt::format("/context/disk{}/src/a", dir_.path());
  clock_.advance_ns(1'000'000'000);
  ASSERT_OK(write_file(fs(), path, as_bytes("mine\n")));
  host("a", "two\n");
  IngestReport refused = add();
  ASSERT_EQ(refused.failures.size(), 1U);
  EXPECT_EQ(refused.failures[0].message, "it exists with another content");
  EXPECT_EQ(add({.on_conflict = OnConflict::kError}).failures.size(), 1U);
  EXPECT_EQ(add({.on_conflict = OnConflict::kSkip}).skipped, 1U);
  EXPECT_EQ(read("a"), "mine\n");
  EXPECT_EQ(add({.on_conflict = OnConflict::kOverwrite}).replaced, 1U);
  EXPECT_EQ(read("a"), "two\n");
}

TEST_F(IngestTest, IgnoredFilesLinksAndRepositoriesAreLeftOut) {
  host(".gitignore", "*.log\n/build/\n");
  host(".warrenignore", "!keep.log\n");
  host("keep.log", "x");
  host("drop.log", "x");
  host("build/x", "x");
  host("sub/build/x", "x");
  host("sub/.gitignore", "secret\n");
  host("sub/secret", "x");
  host(".git/config", "x");
  ASSERT_EQ(::symlink("/etc/passwd", dir_.file("src/link").c_str()), 0);
  ASSERT_EQ(::mkfifo(dir_.file("src/pipe").c_str(), 0600), 0);
  IngestReport report = add();
  EXPECT_EQ(added(), (Paths{".gitignore", ".warrenignore", "keep.log", "sub/.gitignore", "sub/build/x"}));
  EXPECT_EQ(report.ignored, 6U);
}

TEST_F(IngestTest, TheRulesOfTheRepositoryHoldForAFolderInIt) {
  host(".git/info/exclude", "*.bak\n");
  host(".gitignore", "/sub/out\n");
  host("sub/deep/.gitignore", "*.tmp\n");
  host("sub/deep/a.tmp", "x");
  host("sub/out/x", "x");
  host("sub/a.bak", "x");
  host("sub/a", "x");
  add({}, "src/sub");
  EXPECT_EQ(added(), (Paths{"sub/a", "sub/deep/.gitignore"}));
}

TEST_F(IngestTest, PatternsChooseFiles) {
  for (const char* name : {"a.md", "b.txt", "sub/c.md", "sub/old/d.md"}) host(name, "x");
  add({.includes = {"*.md"}, .excludes = {"old/"}});
  EXPECT_EQ(added(), (Paths{"a.md", "sub/c.md"}));
}

TEST_F(IngestTest, TextBecomesUtf8AndBytesStay) {
  host("latin.txt", "gr\xfcn\n");
  std::string utf16("\xff\xfeh\0i\0\n\0", 8);
  host("utf16.txt", utf16);
  std::string bytes("\x00\x01\xff\xfe", 4);
  host("bytes", bytes);
  add();
  EXPECT_EQ(read("latin.txt"), "gr\xc3\xbcn\n");
  EXPECT_EQ(read("utf16.txt"), "hi\n");
  EXPECT_EQ(read("bytes"), bytes);
  EXPECT_EQ(add().unchanged, 3U);
}

TEST_F(IngestTest, AnotherDriveHasThePathFromTheFoldersNameOn) {
  host("sub/a", "x");
  add({.drive = "mine"});
  EXPECT_OK(access(fs(), "/context/mine/src/sub/a"));
  Ingest ingest(*agent_, fs(), clock_, {});
  EXPECT_EQ(error_of(ingest.add_path(dir_.file("none"))), Code::kNotFound);
  EXPECT_EQ(error_of(ingest.add_path("/dev/null")), Code::kInvalid);
}

TEST_F(IngestTest, ManyFilesAreWrittenInSeveralUnits) {
  for (int i = 0; i < 600; ++i) host(fmt::format("d{}/f{}", i % 7, i), std::to_string(i));
  EXPECT_EQ(add().added, 600U);
  EXPECT_EQ(add().unchanged, 600U);
}

TEST_F(IngestTest, AFileIsNotReadAgainByWhatItsRowSays) {
  host("a", "x");
  add();
  Ingest ingest(*agent_, fs(), clock_, {});
  EXPECT_EQ(error_of(ingest.refresh(make_ref("disk", dir_.file("src/a")).value())), Code::kUnsupported);
  ASSERT_OK(ingest.refresh_all());
  EXPECT_TRUE(ingest.report().failures.empty());
}

TEST_F(IngestTest, TheContentOfEachItemIsItsFiles) {
  for (int i = 0; i < 300; ++i) host(fmt::format("f{}.txt", i), fmt::format("gr\xfcn {}", i));  // converted in threads
  EXPECT_EQ(add().added, 300U);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(read(fmt::format("f{}.txt", i)), fmt::format("gr\xc3\xbcn {}", i));
  Ingest ingest(*agent_, fs(), clock_, {});
  IngestTotals totals = ingest.measure_path(dir_.file("src")).value();
  EXPECT_EQ(totals.files, 300U);
  EXPECT_EQ(totals.bytes, 10U * 6 + 90U * 7 + 200U * 8);
  EXPECT_EQ(ingest.report().looked_at.files, 0U);
}

TEST_F(IngestTest, ItemsFollowTheirFolder) {
  host("a", "1");
  host("d/b", "2");
  host("d/e/c", "3");
  host("kept", "4");
  std::vector<std::string> seen;
  auto note = [&](ItemChange change, const Ref& ref) {
    const char* what = change == ItemChange::kAdded ? "+" : change == ItemChange::kReplaced ? "~" : "-";
    seen.push_back(what + ref.path.substr(dir_.file("src/").size()));
  };
  Ingest ingest(*agent_, fs(), clock_, {.on_change = note});
  IngestSource source = ingest.find_source(dir_.file("src")).value();
  ASSERT_OK(ingest.follow(source, ""));
  EXPECT_EQ(seen.size(), 4U);
  seen.clear();
  clock_.advance_ns(1'000'000'000);
  ASSERT_OK(write_file(fs(), namespace_path(make_ref("disk", dir_.file("src/kept")).value()), as_bytes("mine")));
  ASSERT_OK(write_file(fs(), namespace_path(make_ref("disk", dir_.file("src/d/own")).value()), as_bytes("mine")));
  for (const char* name : {"d/b", "d/e/c", "kept"}) ASSERT_OK(remove_host_file(dir_.file(fmt::format("src/{}", name))));
  host("a", "new");
  ASSERT_OK(ingest.follow(source, "d/e"));  // nothing elsewhere
  EXPECT_EQ(seen, Paths{"-d/e/c"});
  ASSERT_OK(ingest.follow(source, "none/such"));
  ASSERT_OK(ingest.follow(source, ""));
  EXPECT_EQ(seen, (Paths{"-d/e/c", "-d/b", "~a"}));
  EXPECT_EQ(added(), (Paths{"a", "d/own", "kept"}));  // what was changed or made here stays
  EXPECT_EQ(ingest.report().failures.size(), 1U);
  host(".gitignore", "a\n");
  ASSERT_OK(ingest.follow(source, ""));
  EXPECT_EQ(added(), (Paths{".gitignore", "d/own", "kept"}));
  ASSERT_EQ(::rename(dir_.file("src").c_str(), dir_.file("away").c_str()), 0);
  EXPECT_EQ(error_of(ingest.follow(source, "")), Code::kNotFound);
  EXPECT_EQ(added(), (Paths{".gitignore", "d/own", "kept"}));
}

TEST_F(IngestTest, AFileMayBecomeAFolderAndAFolderAFile) {
  host("a", "1");
  host("d/b/c", "2");
  Ingest ingest(*agent_, fs(), clock_, {});
  IngestSource source = ingest.find_source(dir_.file("src")).value();
  ASSERT_OK(ingest.follow(source, ""));
  const std::map<std::string, Paths> cases{{"", {"a/x/y", "d"}}, {"a", {"a/x/y", "d/b/c"}}, {"d", {"a", "d"}}};
  for (const auto& [relative, expected] : cases) {
    ASSERT_EQ(added(), (Paths{"a", "d/b/c"}));
    ASSERT_OK(remove_host_file(dir_.file("src/a")));
    ASSERT_OK(remove_host_file(dir_.file("src/d/b/c")));
    ASSERT_EQ(::rmdir(dir_.file("src/d/b").c_str()), 0);
    ASSERT_EQ(::rmdir(dir_.file("src/d").c_str()), 0);
    host("a/x/y", "3");
    host("d", "4");
    ASSERT_OK(ingest.follow(source, relative));
    EXPECT_EQ(added(), expected) << relative;
    ASSERT_OK(ingest.follow(source, ""));
    EXPECT_EQ(added(), (Paths{"a/x/y", "d"})) << relative;
    EXPECT_TRUE(ingest.take_report().failures.empty());
    ASSERT_OK(remove_host_file(dir_.file("src/a/x/y")));
    ASSERT_EQ(::rmdir(dir_.file("src/a/x").c_str()), 0);
    ASSERT_EQ(::rmdir(dir_.file("src/a").c_str()), 0);
    ASSERT_OK(remove_host_file(dir_.file("src/d")));
    host("a", "1");
    host("d/b/c", "2");
    ASSERT_OK(ingest.follow(source, ""));
  }
}

TEST_F(IngestTest, AnotherFolderInItsPlaceIsNotFollowedUnasked) {
  host("a", "1");
  Ingest ingest(*agent_, fs(), clock_, {});
  for (const char* path : {"src", "src/a"}) {
    IngestSource source = ingest.find_source(dir_.file(path)).value();
    EXPECT_EQ(folder_of(source), dir_.file("src"));
    Fd folder = open_host_dir(dir_.file("src")).value();
    source.identity = identify_folder(folder.get()).value();
    ASSERT_OK(ingest.follow(source, ""));
    EXPECT_TRUE(*ingest.has_items(source));
    ASSERT_EQ(::rename(dir_.file("src").c_str(), dir_.file("away").c_str()), 0);
    EXPECT_EQ(error_of(ingest.follow(source, "")), Code::kNotFound);
    ASSERT_EQ(::mkdir(dir_.file("src").c_str(), 0700), 0);
    EXPECT_EQ(error_of(ingest.follow(source, "")), Code::kConflict);
    EXPECT_EQ(added(), Paths{"a"});
    ASSERT_EQ(::rmdir(dir_.file("src").c_str()), 0);
    ASSERT_EQ(::rename(dir_.file("away").c_str(), dir_.file("src").c_str()), 0);
  }
}

TEST_F(IngestTest, AFolderMadeAnewIsAnotherOneEvenWithTheSameNumber) {
  host("a", "1");
  Fd folder = open_host_dir(dir_.file("src")).value();
  FolderIdentity identity = identify_folder(folder.get()).value();
  folder = Fd();
  FolderIdentity same_number = identity;
  same_number.generation += 2;
  EXPECT_EQ(same_number == identity, identity.generation == 0);
  ASSERT_OK(remove_host_file(dir_.file("src/a")));
  ASSERT_EQ(::rmdir(dir_.file("src").c_str()), 0);
  ASSERT_EQ(::mkdir(dir_.file("src").c_str(), 0700), 0);
  folder = open_host_dir(dir_.file("src")).value();
  FolderIdentity next = identify_folder(folder.get()).value();
  if (next.generation == 0) GTEST_SKIP() << "this filesystem has no generations";
  EXPECT_FALSE(next == identity) << next.inode << " " << identity.inode;
}

// As root, no mode keeps us out: a process without free descriptors cannot look either.
TEST_F(IngestTest, ItemsOfWhatCannotBeLookedAtStay) {
  host("d/e/c", "3");
  Ingest ingest(*agent_, fs(), clock_, {});
  IngestSource source = ingest.find_source(dir_.file("src")).value();
  ASSERT_OK(ingest.follow(source, ""));
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  int next = ::dup(0);
  ::close(next);
  std::size_t failures = 0;
  for (int more = 0; more < 8; ++more) {
    rlimit few{.rlim_cur = static_cast<rlim_t>(next + more), .rlim_max = usual.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    ingest.follow(source, "d/e/c").ignore("it may fail");
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
    failures += ingest.take_report().failures.size();
    EXPECT_EQ(added(), Paths{"d/e/c"}) << more;
  }
  EXPECT_GE(failures, 1U);
}

// Refuses content, but only after the node is made.
class SmallFilesFs final : public ForwardingFs {
 public:
  using ForwardingFs::ForwardingFs;
  Status write(Inode node, std::uint64_t offset, Bytes data) override {
    if (data.size() > 100) return Error(Code::kTooLarge, "the policy allows 100 bytes");
    return ForwardingFs::write(node, offset, data);
  }
};

TEST_F(IngestTest, AnItemThatIsRefusedInTheMiddleDoesNotLoseTheOthers) {
  for (int i = 0; i < 5; ++i) host(fmt::format("small{}", i), "x");
  host("large", std::string(101, 'x'));
  SmallFilesFs small(fs());
  int changes = 0;
  for (std::uint64_t added_before : {0U, 5U}) {
    Ingest ingest(*agent_, small, clock_, {.on_change = [&](ItemChange, const Ref&) { ++changes; }});
    ASSERT_OK(ingest.add_path(dir_.file("src")));
    ASSERT_OK(ingest.finish());
    EXPECT_EQ(ingest.report().added, 5 - added_before);
    EXPECT_EQ(ingest.report().unchanged, added_before);
    ASSERT_EQ(ingest.report().failures.size(), 1U);
    EXPECT_NE(ingest.report().failures.front().what.find("large"), std::string::npos);
    EXPECT_NE(ingest.report().failures.front().message.find("100 bytes"), std::string::npos);
  }
  EXPECT_EQ(changes, 5);
  EXPECT_EQ(added(), (Paths{"small0", "small1", "small2", "small3", "small4"}));
}

TEST_F(IngestTest, AddressesInsideTheNetworkAreRefused) {
  Ingest ingest(*agent_, fs(), clock_, {});
  for (const char* address : {"http://127.0.0.1:1/", "http://[::1]:1/", "http://localhost:1/", "http://10.1.2.3/",
                              "http://169.254.169.254/latest/meta-data", "http://[::ffff:127.0.0.1]:1/",
                              "http://2130706433:1/", "http://0.0.0.0:1/"}) {
    EXPECT_EQ(error_of(ingest.add_url(address)), Code::kDenied) << address;
  }
}

}  // namespace
}  // namespace warren
