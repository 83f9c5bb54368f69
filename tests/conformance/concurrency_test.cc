// Several threads at once: nothing is lost and nothing is counted twice.
#include "conformance/file_system_fixture.h"

#include <atomic>
#include <set>
#include <thread>

namespace warren::testing {
namespace {

constexpr int kThreads = 4;

class ConcurrencyTest : public FileSystemTest {
 protected:
  // Runs `work(thread number)` on each thread and waits for all.
  template <class Work>
  static void on_threads(const Work& work) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_P(ConcurrencyTest, OneDirectoryTakesEveryonesFiles) {
  constexpr int kEach = 100;
  std::atomic<int> failures = 0;
  on_threads([&](int thread) {
    for (int i = 0; i < kEach; ++i) {
      std::string name = std::to_string(thread) + "-" + std::to_string(i);
      if (!fs_.make_dir(kRootInode, name, {.mode = 0755}).ok()) ++failures;
      if (i % 2 == 0 && !fs_.remove_dir(kRootInode, name).ok()) ++failures;
    }
  });
  EXPECT_EQ(failures, 0);
  std::vector<std::string> left = names(kRootInode);
  EXPECT_EQ(left.size(), kThreads * kEach / 2U);
  EXPECT_EQ(std::set<std::string>(left.begin(), left.end()).size(), left.size());
  EXPECT_EQ(attributes(kRootInode).nlink, 2 + kThreads * kEach / 2U);
}

TEST_P(ConcurrencyTest, OnlyOneMakesAndOnlyOneRemovesAName) {
  std::atomic<int> made = 0;
  std::atomic<int> removed = 0;
  std::atomic<int> strange = 0;
  on_threads([&](int) {
    for (int i = 0; i < 100; ++i) {
      std::optional<Code> making = error_of(fs_.make_node(kRootInode, "one", {.mode = 0644}));
      std::optional<Code> removing = error_of(fs_.unlink(kRootInode, "one"));
      made += !making;
      removed += !removing;
      strange += (making && making != Code::kExists) || (removing && removing != Code::kNotFound);
    }
  });
  EXPECT_EQ(strange, 0);
  EXPECT_EQ(made, removed);
  EXPECT_TRUE(names(kRootInode).empty());
}

TEST_P(ConcurrencyTest, EveryAppendIsStoredCompletely) {
  Inode file = make_file("log");
  constexpr std::size_t kLine = 100;
  std::atomic<int> failures = 0;
  on_threads([&](int thread) {
    std::string line(kLine, static_cast<char>('a' + thread));
    for (int i = 0; i < 100; ++i) failures += !fs_.append(file, as_bytes(line)).ok();
  });
  EXPECT_EQ(failures, 0);
  std::string text = read(file);
  ASSERT_EQ(text.size(), kThreads * 100 * kLine);
  for (std::size_t at = 0; at < text.size(); at += kLine) {
    EXPECT_EQ(text.substr(at, kLine), std::string(kLine, text[at]));
  }
}

TEST_P(ConcurrencyTest, AUnitIsSeenWholeOrNotAtAll) {
  Inode a = make_file("a", "0");
  Inode b = make_file("b", "0");
  std::atomic<int> torn = 0;
  std::atomic<int> failures = 0;
  auto change = [&](char digit) -> Status {
    auto unit = WARREN_TRY(fs_.begin(UnitAccess::kWrite));
    std::string text(1, digit);
    WARREN_TRY(fs_.write(a, 0, as_bytes(text)));
    WARREN_TRY(fs_.write(b, 0, as_bytes(text)));
    return unit->commit();
  };
  auto compare = [&]() -> Status {
    auto unit = WARREN_TRY(fs_.begin(UnitAccess::kRead));
    std::string left(1, '?');
    std::string right(1, '!');
    WARREN_TRY(fs_.read(a, 0, as_mutable_bytes(left)));
    WARREN_TRY(fs_.read(b, 0, as_mutable_bytes(right)));
    torn += left != right;
    return Ok{};
  };
  on_threads([&](int thread) {
    for (int i = 0; i < 100; ++i) {
      bool ok = thread % 2 == 0 ? change(static_cast<char>('0' + i % 10)).ok() : compare().ok();
      failures += !ok;
    }
  });
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(failures, 0);
}

TEST_P(ConcurrencyTest, RenamesInOppositeDirectionsDoNotMakeALoop) {
  Inode a = make_dir("a");
  Inode b = make_dir("b");
  on_threads([&](int thread) {
    for (int i = 0; i < 100; ++i) {
      // Each thread moves one directory into the other and back; a call may fail because of the other thread.
      bool first = thread % 2 == 0;
      Inode into = first ? b : a;
      std::string_view name = first ? "a" : "b";
      fs_.rename(kRootInode, name, into, name, RenameMode::kReplace).ignore("the other thread may be first");
      fs_.rename(into, name, kRootInode, name, RenameMode::kReplace).ignore("the other thread may be first");
    }
  });
  EXPECT_TRUE(has_name(kRootInode, "a"));
  EXPECT_TRUE(has_name(kRootInode, "b"));
  EXPECT_EQ(attributes(kRootInode).nlink, 4U);
}

WARREN_EACH_FILE_SYSTEM(ConcurrencyTest);

}  // namespace
}  // namespace warren::testing
