// Reading directories in pages, while they change.
#include "conformance/file_system_fixture.h"

#include <algorithm>
#include <set>

namespace warren::testing {
namespace {

class DirStreamTest : public FileSystemTest {
 protected:
  void make_many(Inode dir, int count) {
    auto unit = must(fs_.begin(UnitAccess::kWrite));
    for (int i = 0; i < count; ++i) make_file(name_of_number(i), "", dir);
    must(unit->commit());
  }
  static std::string name_of_number(int i) { return "file-" + std::to_string(i); }

  static std::set<std::string> set_of(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }
};

TEST_P(DirStreamTest, EveryEntryComesOnceWithEveryPageSize) {
  Inode dir = make_dir("d");
  make_many(dir, 50);
  for (std::size_t page : {1UL, 7UL, 49UL, 50UL, 51UL, 1000UL}) {
    std::vector<std::string> found = names(dir, page);
    EXPECT_EQ(found.size(), 50U);
    EXPECT_EQ(set_of(found).size(), 50U);
  }
}

TEST_P(DirStreamTest, ALargeDirectoryIsReadWhole) {
  Inode dir = make_dir("d");
  make_many(dir, 5000);
  for (std::size_t page : {7UL, 1024UL}) {
    std::vector<std::string> found = names(dir, page);
    EXPECT_EQ(found.size(), 5000U);
    EXPECT_EQ(set_of(found).size(), 5000U);
  }
}

TEST_P(DirStreamTest, EntriesHaveInodeTypeAndAttributes) {
  std::map<std::string, Inode> made = {
      {"f", make_file("f", "abc")}, {"d", make_dir("d")}, {"l", make_symlink("l", "t")}, {"p", make_fifo("p")}};
  make_dir("inside", made["d"]);
  auto stream = must(fs_.open_dir(kRootInode));
  std::vector<DirEntry> entries = must(stream->read(0, 100, DirDetail::kAttributes));
  ASSERT_EQ(entries.size(), 4U);
  for (const DirEntry& entry : entries) {
    Attributes want = attributes(made.at(entry.name));
    EXPECT_EQ(entry.inode, want.inode);
    EXPECT_EQ(entry.type, want.mode & S_IFMT);
    EXPECT_EQ(entry.attributes, want);
    EXPECT_GE(entry.cookie, 3U);
  }
  for (const DirEntry& entry : must(stream->read(0, 100, DirDetail::kTypes))) EXPECT_FALSE(entry.attributes);
}

TEST_P(DirStreamTest, NamesAloneComeInTheSameOrderWithTheSameCookies) {
  Inode dir = make_dir("d");
  make_many(dir, 20);
  auto stream = must(fs_.open_dir(dir));
  std::vector<DirEntry> whole = must(stream->read(0, 100, DirDetail::kAttributes));
  std::vector<DirEntry> alone = must(stream->read(0, 100, DirDetail::kNames));
  ASSERT_EQ(alone.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(alone[i].name, whole[i].name);
    EXPECT_EQ(alone[i].cookie, whole[i].cookie);
  }
}

TEST_P(DirStreamTest, CookiesAreDistinctAndCanBeUsedAgain) {
  Inode dir = make_dir("d");
  make_many(dir, 20);
  auto stream = must(fs_.open_dir(dir));
  std::vector<DirEntry> all = must(stream->read(0, 100, DirDetail::kTypes));
  ASSERT_EQ(all.size(), 20U);
  std::set<std::uint64_t> cookies;
  for (const DirEntry& entry : all) cookies.insert(entry.cookie);
  EXPECT_EQ(cookies.size(), 20U);
  for (std::size_t i : {10UL, 0UL, 18UL, 5UL}) {
    std::vector<DirEntry> after = must(stream->read(all[i].cookie, 1, DirDetail::kTypes));
    ASSERT_EQ(after.size(), 1U);
    EXPECT_EQ(after[0], all[i + 1]);
  }
  EXPECT_TRUE(must(stream->read(all.back().cookie, 10, DirDetail::kTypes)).empty());
  EXPECT_EQ(must(stream->read(0, 100, DirDetail::kTypes)), all);
}

TEST_P(DirStreamTest, AnEntryThatStaysIsListedOnceWhateverElseChanges) {
  Inode dir = make_dir("d");
  make_many(dir, 60);
  auto stream = must(fs_.open_dir(dir));
  std::multiset<std::string> seen;
  std::uint64_t cookie = 0;
  int round = 0;
  for (;;) {
    std::vector<DirEntry> page = must(stream->read(cookie, 7, DirDetail::kTypes));
    if (page.empty()) break;
    for (const DirEntry& entry : page) seen.insert(entry.name);
    cookie = page.back().cookie;
    if (round >= 10) continue;
    must(fs_.unlink(dir, name_of_number(3 * round)));
    make_file("added-" + std::to_string(round), "", dir);
    must(fs_.rename(dir, name_of_number(3 * round + 1), dir, "renamed-" + std::to_string(round), RenameMode::kReplace));
    ++round;
  }
  for (int i = 0; i < 60; ++i) {
    if (i < 30 && i % 3 != 2) continue;
    EXPECT_EQ(seen.count(name_of_number(i)), 1U) << i;
  }
  for (const std::string& name : seen) EXPECT_EQ(seen.count(name), 1U) << name;
}

TEST_P(DirStreamTest, DeletingWhatWasReadReachesEverything) {
  for (std::size_t page_size : {1UL, 7UL, 1024UL}) {
    Inode dir = make_dir("d");
    make_many(dir, 300);
    auto stream = must(fs_.open_dir(dir));
    std::uint64_t cookie = 0;
    int removed = 0;
    for (;;) {
      std::vector<DirEntry> page = must(stream->read(cookie, page_size, DirDetail::kTypes));
      if (page.empty()) break;
      cookie = page.back().cookie;
      for (const DirEntry& entry : page) {
        must(fs_.unlink(dir, entry.name));
        ++removed;
      }
    }
    EXPECT_EQ(removed, 300);
    EXPECT_OK(fs_.remove_dir(kRootInode, "d"));
  }
}

TEST_P(DirStreamTest, ACookieFromAnotherStreamIsValidEvenIfItsEntryIsGone) {
  Inode dir = make_dir("d");
  make_many(dir, 40);
  auto one = must(fs_.open_dir(dir));
  auto other = must(fs_.open_dir(dir));
  std::vector<DirEntry> all = must(one->read(0, 100, DirDetail::kTypes));
  for (std::size_t i = 0; i < 20; ++i) must(fs_.unlink(dir, all[i].name));
  must(fs_.rename(dir, all[20].name, kRootInode, "elsewhere", RenameMode::kReplace));
  std::vector<DirEntry> rest = must(other->read(all[19].cookie, 100, DirDetail::kTypes));
  EXPECT_EQ(rest.size(), 19U);
  rest = must(other->read(all[20].cookie, 100, DirDetail::kTypes));
  EXPECT_EQ(rest.size(), 19U);
}

TEST_P(DirStreamTest, ANameThatIsReplacedIsListedOnce) {
  Inode dir = make_dir("d");
  for (std::string_view name : {"a", "b", "c", "d"}) make_file(name, "", dir);
  auto stream = must(fs_.open_dir(dir));
  std::vector<DirEntry> first = must(stream->read(0, 2, DirDetail::kTypes));
  ASSERT_EQ(first.size(), 2U);
  make_file("new", "");
  must(fs_.rename(kRootInode, "new", dir, first[0].name, RenameMode::kReplace));
  std::vector<std::string> seen{first[0].name, first[1].name};
  for (const DirEntry& entry : must(stream->read(first[1].cookie, 100, DirDetail::kTypes))) seen.push_back(entry.name);
  std::ranges::sort(seen);
  EXPECT_EQ(seen, (std::vector<std::string>{"a", "b", "c", "d"}));
}

TEST_P(DirStreamTest, ExchangedNamesAreListedOnce) {
  Inode dir = make_dir("d");
  for (std::string_view name : {"a", "b", "c", "d"}) make_file(name, "", dir);
  auto stream = must(fs_.open_dir(dir));
  std::vector<DirEntry> all = must(stream->read(0, 10, DirDetail::kTypes));
  must(fs_.rename(dir, all[0].name, dir, all[3].name, RenameMode::kExchange));
  std::vector<std::string> seen{all[0].name, all[1].name};
  for (const DirEntry& entry : must(stream->read(all[1].cookie, 100, DirDetail::kTypes))) seen.push_back(entry.name);
  std::ranges::sort(seen);
  EXPECT_EQ(seen, (std::vector<std::string>{"a", "b", "c", "d"}));
}

TEST_P(DirStreamTest, AnEmptyDirectoryHasNoEntries) {
  auto stream = must(fs_.open_dir(make_dir("d")));
  EXPECT_TRUE(must(stream->read(0, 10, DirDetail::kTypes)).empty());
}

TEST_P(DirStreamTest, AStreamOfARemovedDirectoryEnds) {
  Inode dir = make_dir("d");
  make_file("f", "", dir);
  auto stream = must(fs_.open_dir(dir));
  must(fs_.unlink(dir, "f"));
  must(fs_.remove_dir(kRootInode, "d"));
  EXPECT_TRUE(must(stream->read(0, 10, DirDetail::kAttributes)).empty());
}

TEST_P(DirStreamTest, TwoStreamsDoNotDisturbEachOther) {
  Inode dir = make_dir("d");
  make_many(dir, 20);
  auto one = must(fs_.open_dir(dir));
  auto two = must(fs_.open_dir(dir));
  std::vector<DirEntry> half = must(one->read(0, 10, DirDetail::kTypes));
  EXPECT_EQ(must(two->read(0, 100, DirDetail::kTypes)).size(), 20U);
  EXPECT_EQ(must(one->read(half.back().cookie, 100, DirDetail::kTypes)).size(), 10U);
}

WARREN_EACH_FILE_SYSTEM(DirStreamTest);

}  // namespace
}  // namespace warren::testing
