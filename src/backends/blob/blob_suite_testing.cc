#include "backends/blob/blob_suite_testing.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <ostream>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <sys/mman.h>

#include "testing/matchers.h"

namespace warren::testing {

using std::chrono::milliseconds;

namespace {

constexpr int kThreads = 8;

std::string some_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint32_t state = 12345;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

// Runs `work` in several threads at once.
void in_threads(const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

void PrintTo(const BlobSuiteCase& store, std::ostream* out) { *out << store.name; }

std::string name_of_case(const ::testing::TestParamInfo<BlobSuiteCase>& info) { return info.param.name; }

void BlobStoreTest::SetUp() {
  store_ = GetParam().make();
  ASSERT_NE(store_, nullptr) << "cannot make a store";
}

BlobInfo BlobStoreTest::put(const std::string& key, std::string_view content, const PutOptions& options) {
  Result<BlobInfo> info = store().put(key, as_bytes(content), options);
  EXPECT_OK(info);
  return info.ok() ? *info : BlobInfo{};
}

std::optional<std::string> BlobStoreTest::content_of(const std::string& key) {
  Result<std::optional<Blob>> blob = store().get(key);
  EXPECT_OK(blob);
  if (!blob.ok() || !*blob) return std::nullopt;
  return (*blob)->content;
}

std::vector<std::string> BlobStoreTest::keys(ListOptions options) {
  std::vector<std::string> all;
  for (int pages = 0; pages < 100'000; ++pages) {
    Result<BlobPage> page = store().list(options);
    EXPECT_OK(page);
    if (!page.ok()) return all;
    EXPECT_LE(page->blobs.size() + page->folders.size(), options.limit);
    std::vector<std::string> here = page->folders;
    for (const BlobInfo& blob : page->blobs) here.push_back(blob.key);
    std::sort(here.begin(), here.end());
    all.insert(all.end(), here.begin(), here.end());
    if (page->next.empty()) return all;
    EXPECT_GT(page->next, options.after) << "a listing must move on";
    if (page->next <= options.after) return all;
    options.after = page->next;
  }
  ADD_FAILURE() << "a listing does not end";
  return all;
}

std::vector<BlobInfo> BlobStoreTest::all_blobs(ListOptions options) {
  std::vector<BlobInfo> all;
  while (true) {
    Result<BlobPage> page = store().list(options);
    EXPECT_OK(page);
    if (!page.ok()) return all;
    all.insert(all.end(), page->blobs.begin(), page->blobs.end());
    if (page->next.empty()) return all;
    options.after = page->next;
  }
}

void BlobStoreTest::let_pass(milliseconds time) {
  if (GetParam().let_pass) GetParam().let_pass(time);
  else std::this_thread::sleep_for(time);
}

void BlobStoreTest::put_many(const std::vector<std::string>& all) {
  for (std::size_t begin = 0; begin < all.size(); begin += 500) {
    std::vector<BlobChange> changes;
    for (std::size_t i = begin; i < std::min(all.size(), begin + 500); ++i) {
      changes.push_back({.key = all[i], .content = as_bytes(all[i]), .options = {}});
    }
    ASSERT_OK(store().apply(changes));
  }
}

// Values.

TEST_P(BlobStoreTest, S4_1_WhatWasPutIsRead) {
  BlobInfo info = put("notes/a.txt", "hello");
  EXPECT_EQ(info.key, "notes/a.txt");
  EXPECT_EQ(info.size, 5U);
  EXPECT_FALSE(info.version.empty());
  Result<std::optional<Blob>> blob = store().get("notes/a.txt");
  ASSERT_OK(blob);
  ASSERT_TRUE(*blob);
  EXPECT_EQ((*blob)->content, "hello");
  EXPECT_EQ((*blob)->info.key, "notes/a.txt");
  EXPECT_EQ((*blob)->info.size, 5U);
  EXPECT_EQ((*blob)->info.version, info.version);
  EXPECT_GT((*blob)->info.modified.seconds, 1'500'000'000);
  EXPECT_EQ((*blob)->info.expires, std::nullopt);
}

TEST_P(BlobStoreTest, S4_1_AnEmptyStoreHasNothing) {
  EXPECT_EQ(content_of("a"), std::nullopt);
  Result<std::optional<BlobInfo>> info = store().find("a");
  ASSERT_OK(info);
  EXPECT_FALSE(*info);
  Result<std::optional<Blob>> range = store().get_range("a", 0, 10);
  ASSERT_OK(range);
  EXPECT_FALSE(*range);
  Result<bool> removed = store().remove("a");
  ASSERT_OK(removed);
  EXPECT_FALSE(*removed);
  EXPECT_TRUE(keys({}).empty());
  EXPECT_TRUE(keys({.by_folder = true}).empty());
}

TEST_P(BlobStoreTest, APutReplacesAndChangesTheVersion) {
  BlobInfo first = put("a", "one");
  BlobInfo second = put("a", "twelve");
  EXPECT_NE(first.version, second.version);
  EXPECT_EQ(content_of("a"), "twelve");
  Result<std::optional<BlobInfo>> found = store().find("a");
  ASSERT_OK(found);
  ASSERT_TRUE(*found);
  EXPECT_EQ((*found)->version, second.version);
  EXPECT_EQ((*found)->size, 6U);
  if (!GetParam().versions_by_content) {
    BlobInfo third = put("a", "twelve");
    EXPECT_NE(second.version, third.version) << "also with the same content";
  }
}

TEST_P(BlobStoreTest, S4_1_ARemovedValueIsGone) {
  put("a", "x");
  put("ab", "y");
  Result<bool> removed = store().remove("a");
  ASSERT_OK(removed);
  EXPECT_TRUE(*removed);
  EXPECT_EQ(content_of("a"), std::nullopt);
  EXPECT_EQ(content_of("ab"), "y");
  Result<bool> again = store().remove("a");
  ASSERT_OK(again);
  EXPECT_FALSE(*again);
  EXPECT_EQ(keys({}), std::vector<std::string>{"ab"});
}

TEST_P(BlobStoreTest, AnEmptyValueIsAValue) {
  EXPECT_EQ(put("empty", "").size, 0U);
  EXPECT_EQ(content_of("empty"), "");
  Result<std::optional<Blob>> range = store().get_range("empty", 0, 100);
  ASSERT_OK(range);
  ASSERT_TRUE(*range);
  EXPECT_EQ((*range)->content, "");
  Result<std::optional<BlobInfo>> info = store().find("empty");
  ASSERT_OK(info);
  ASSERT_TRUE(*info);
  EXPECT_EQ((*info)->size, 0U);
  EXPECT_EQ(keys({}), std::vector<std::string>{"empty"});
}

TEST_P(BlobStoreTest, EveryByteOfAValueIsKept) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  bytes += std::string("\r\n\0\xff\xfe", 5);
  put("binary", bytes);
  EXPECT_EQ(content_of("binary"), bytes);
}

TEST_P(BlobStoreTest, ALargeValueIsKeptWhole) {
  std::string large = some_bytes(GetParam().large_bytes);
  BlobInfo info = put("large", large);
  EXPECT_EQ(info.size, large.size());
  EXPECT_TRUE(content_of("large") == large);
  std::uint64_t middle = large.size() / 2;
  Result<std::optional<Blob>> range = store().get_range("large", middle, 1000);
  ASSERT_OK(range);
  ASSERT_TRUE(*range);
  EXPECT_TRUE((*range)->content == large.substr(middle, 1000));
  EXPECT_EQ((*range)->info.size, large.size());
}

TEST_P(BlobStoreTest, AValueBeyondTheLargestIsTooLarge) {
  put("a", "before");
  // Pages that nobody touches take no memory: a store must look at the size first.
  std::size_t size = abilities().largest + 1;
  void* pages = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) GTEST_SKIP() << "no address space of " << size << " bytes";
  Result<BlobInfo> info = store().put("a", Bytes(static_cast<const std::byte*>(pages), size));
  EXPECT_EQ(error_of(info), Code::kTooLarge);
  munmap(pages, size);
  EXPECT_EQ(content_of("a"), "before");
}

TEST_P(BlobStoreTest, ARangeEndsWithTheValue) {
  BlobInfo info = put("a", "0123456789");
  struct Row {
    std::uint64_t offset;
    std::uint64_t length;
    std::string expected;
  };
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  for (const Row& row : {Row{0, 10, "0123456789"}, Row{0, 3, "012"}, Row{7, 3, "789"}, Row{7, 100, "789"},
                         Row{3, 0, ""}, Row{10, 5, ""}, Row{11, 5, ""}, Row{0, kMost, "0123456789"}, Row{9, kMost, "9"},
                         Row{kMost, kMost, ""}, Row{kMost, 1, ""}, Row{0, 0, ""}, Row{9, 1, "9"}}) {
    Result<std::optional<Blob>> blob = store().get_range("a", row.offset, row.length);
    ASSERT_OK(blob) << row.offset << ", " << row.length;
    ASSERT_TRUE(*blob) << row.offset << ", " << row.length;
    EXPECT_EQ((*blob)->content, row.expected) << row.offset << ", " << row.length;
    EXPECT_EQ((*blob)->info.size, 10U) << row.offset << ", " << row.length;
    EXPECT_EQ((*blob)->info.version, info.version) << row.offset << ", " << row.length;
  }
}

// Keys.

TEST_P(BlobStoreTest, ABadKeyIsRefusedByEveryCall) {
  for (const std::string& key :
       {std::string(), std::string("/a"), std::string("a/"), std::string("a//b"), std::string("."), std::string(".."),
        std::string("a/../b"), std::string("./a"), std::string("a/."), std::string("a\0b", 3), std::string("/")}) {
    SCOPED_TRACE(fmt::format("key '{}'", key));
    EXPECT_EQ(error_of(store().get(key)), Code::kInvalid);
    EXPECT_EQ(error_of(store().get_range(key, 0, 1)), Code::kInvalid);
    EXPECT_EQ(error_of(store().find(key)), Code::kInvalid);
    EXPECT_EQ(error_of(store().put(key, as_bytes("x"))), Code::kInvalid);
    EXPECT_EQ(error_of(store().remove(key)), Code::kInvalid);
    std::vector<BlobChange> changes = {{.key = key, .content = as_bytes("x"), .options = {}}};
    EXPECT_EQ(error_of(store().apply(changes)), Code::kInvalid);
  }
  for (const std::string& key : {std::string(256, 'n'), "a/" + std::string(256, 'n'), [] {
                                   std::string long_key;
                                   for (int i = 0; i < 11; ++i) long_key.append(99, 'k').append(1, '/');
                                   return long_key + "end";
                                 }()}) {
    EXPECT_EQ(error_of(store().put(key, as_bytes("x"))), Code::kNameTooLong) << key.size();
    EXPECT_EQ(error_of(store().get(key)), Code::kNameTooLong) << key.size();
  }
  EXPECT_TRUE(keys({}).empty());
}

TEST_P(BlobStoreTest, TheLongestKeyWorks) {
  std::string key;
  while (key.size() + 100 < GetParam().longest_key) key.append(99, 'k').append(1, '/');
  key.append(GetParam().longest_key - key.size(), 'e');
  put(key, "x");
  EXPECT_EQ(content_of(key), "x");
  EXPECT_EQ(keys({}), std::vector<std::string>{key});
}

TEST_P(BlobStoreTest, KeysAreBytesInTheirOrder) {
  std::vector<std::string> all;
  for (int i = 1; i < 256; ++i) {
    std::string key = fmt::format("k{}x", static_cast<char>(i));
    if (i == '/') continue;
    bool is_control = i < ' ' && i != '\t' && i != '\n' && i != '\r';
    if ((i >= 128 && !GetParam().binary_keys) || (is_control && !GetParam().control_keys)) {
      EXPECT_EQ(error_of(store().put(key, as_bytes("x"))), Code::kInvalid) << i;
      continue;
    }
    all.push_back(key);
  }
  put_many(all);
  EXPECT_EQ(keys({}), all);
  EXPECT_EQ(keys({.limit = 7}), all);
  for (const std::string& key : all) EXPECT_EQ(content_of(key), key);
}

TEST_P(BlobStoreTest, KeysThatPatternsAndAddressesWouldChangeAreKept) {
  std::vector<std::string> all = {" ",       "%",
                                  "%2F",     "%41",
                                  "&",       "*",
                                  "+",       "..a",
                                  "?",       "A",
                                  "[a]",     "\\",
                                  "_",       "a",
                                  "a b",     "a+b",
                                  "a=b&c=d", "a?b#c",
                                  "a\nb",    "a\\b",
                                  "a%",      "a*",
                                  "{}",      "~",
                                  "é",       "\xf0\x9f\x90\x87",
                                  "'quo\"",  ";--",
                                  "${NAME}", "...",
                                  ".x",      "x.",
                                  "UPPER/Up"};
  std::sort(all.begin(), all.end());
  put_many(all);
  EXPECT_EQ(keys({}), all);
  for (const std::string& key : all) EXPECT_EQ(content_of(key), key) << key;
  EXPECT_EQ(keys({.prefix = "a*"}), std::vector<std::string>{"a*"});
  EXPECT_EQ(keys({.prefix = "a%"}), std::vector<std::string>{"a%"});
  EXPECT_EQ(keys({.prefix = "_"}), std::vector<std::string>{"_"});
  EXPECT_EQ(keys({.prefix = "[a]"}), std::vector<std::string>{"[a]"});
  EXPECT_EQ(keys({.prefix = "?"}), std::vector<std::string>{"?"});
  EXPECT_EQ(keys({.prefix = "\\"}), std::vector<std::string>{"\\"});
}

TEST_P(BlobStoreTest, AKeyMayAlsoBeTheFolderOfOthers) {
  put("a", "file");
  put("a/b", "below");
  EXPECT_EQ(content_of("a"), "file");
  EXPECT_EQ(content_of("a/b"), "below");
  EXPECT_EQ(keys({.by_folder = true}), (std::vector<std::string>{"a", "a/"}));
  ASSERT_OK(store().remove("a"));
  EXPECT_EQ(content_of("a/b"), "below");
}

// Listings.

TEST_P(BlobStoreTest, AListingHasWhatFindSays) {
  BlobInfo info = put("a/b", "four");
  std::vector<BlobInfo> blobs = all_blobs({});
  ASSERT_EQ(blobs.size(), 1U);
  EXPECT_EQ(blobs[0].key, "a/b");
  EXPECT_EQ(blobs[0].size, 4U);
  EXPECT_EQ(blobs[0].version, info.version);
  EXPECT_GT(blobs[0].modified.seconds, 1'500'000'000);
}

TEST_P(BlobStoreTest, S4_1_AListingIsByPrefixOfBytes) {
  put_many({"a", "a/b", "ab", "abc", "b", "b/a"});
  EXPECT_EQ(keys({.prefix = "a"}), (std::vector<std::string>{"a", "a/b", "ab", "abc"}));
  EXPECT_EQ(keys({.prefix = "a/"}), std::vector<std::string>{"a/b"});
  EXPECT_EQ(keys({.prefix = "ab"}), (std::vector<std::string>{"ab", "abc"}));
  EXPECT_EQ(keys({.prefix = "abcd"}), std::vector<std::string>{});
  EXPECT_EQ(keys({.prefix = "c"}), std::vector<std::string>{});
}

TEST_P(BlobStoreTest, AListingBeginsAfterAKey) {
  put_many({"a", "b", "c", "d/e", "d/f"});
  EXPECT_EQ(keys({.after = "b"}), (std::vector<std::string>{"c", "d/e", "d/f"}));
  EXPECT_EQ(keys({.after = "bb"}), (std::vector<std::string>{"c", "d/e", "d/f"})) << "it need not exist";
  EXPECT_EQ(keys({.after = "d/f"}), std::vector<std::string>{});
  EXPECT_EQ(keys({.prefix = "d/", .after = "a"}), (std::vector<std::string>{"d/e", "d/f"}));
  EXPECT_EQ(keys({.prefix = "d/", .after = "d/e"}), std::vector<std::string>{"d/f"});
  EXPECT_EQ(keys({.prefix = "b", .after = "z"}), std::vector<std::string>{});
}

TEST_P(BlobStoreTest, AListingByFolderFoldsWhatIsBelow) {
  put_many({"a", "a.b", "a/1", "a/2/x", "a/2/y", "a0", "b/1", "c"});
  EXPECT_EQ(keys({.by_folder = true}), (std::vector<std::string>{"a", "a.b", "a/", "a0", "b/", "c"}));
  EXPECT_EQ(keys({.prefix = "a/", .by_folder = true}), (std::vector<std::string>{"a/1", "a/2/"}));
  EXPECT_EQ(keys({.prefix = "a/2/", .by_folder = true}), (std::vector<std::string>{"a/2/x", "a/2/y"}));
  EXPECT_EQ(keys({.prefix = "a", .by_folder = true}), (std::vector<std::string>{"a", "a.b", "a/", "a0"}));
  EXPECT_EQ(keys({.after = "a/", .by_folder = true}), (std::vector<std::string>{"a0", "b/", "c"}));
  EXPECT_EQ(keys({.after = "a", .by_folder = true}), (std::vector<std::string>{"a.b", "a/", "a0", "b/", "c"}));
  for (std::size_t limit = 1; limit < 8; ++limit) {
    EXPECT_EQ(keys({.limit = limit, .by_folder = true}), (std::vector<std::string>{"a", "a.b", "a/", "a0", "b/", "c"}))
        << limit;
  }
}

TEST_P(BlobStoreTest, ManyKeysAreListedOnceEachWhateverThePageSize) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < GetParam().many_keys; ++i) all.push_back(fmt::format("d{}/{:05}", i % 10, i));
  put_many(all);
  std::sort(all.begin(), all.end());
  EXPECT_TRUE(keys({}) == all);
  EXPECT_TRUE(keys({.limit = 333}) == all);
  std::vector<std::string> folders;
  for (int i = 0; i < 10; ++i) folders.push_back(fmt::format("d{}/", i));
  EXPECT_EQ(keys({.by_folder = true}), folders);
  EXPECT_EQ(keys({.limit = 3, .by_folder = true}), folders);
  EXPECT_EQ(keys({.prefix = "d3/", .limit = 100, .by_folder = true}).size(), GetParam().many_keys / 10);
}

TEST_P(BlobStoreTest, AListingGoesOnWhileKeysComeAndGo) {
  std::vector<std::string> all;
  for (int i = 0; i < 100; ++i) all.push_back(fmt::format("k{:03}", i));
  put_many(all);
  ListOptions options{.limit = 10};
  std::vector<std::string> seen;
  for (int page_number = 0; page_number < 1000; ++page_number) {
    Result<BlobPage> page = store().list(options);
    ASSERT_OK(page);
    for (const BlobInfo& blob : page->blobs) seen.push_back(blob.key);
    if (page->next.empty()) break;
    options.after = page->next;
    if (page_number == 3) {
      ASSERT_OK(store().remove("k010"));  // already listed
      ASSERT_OK(store().remove(options.after));
      ASSERT_OK(store().put("k000x", as_bytes("new")));
    }
  }
  EXPECT_EQ(seen, all);
}

// Conditions.

TEST_P(BlobStoreTest, APutIfAbsentHappensOnce) {
  if (!abilities().conditional_puts) {
    EXPECT_EQ(error_of(store().put("a", as_bytes("x"), {.if_absent = true})), Code::kUnsupported);
    EXPECT_EQ(content_of("a"), std::nullopt);
    return;
  }
  put("a", "first", {.if_absent = true});
  EXPECT_EQ(error_of(store().put("a", as_bytes("second"), {.if_absent = true})), Code::kExists);
  EXPECT_EQ(content_of("a"), "first");
  ASSERT_OK(store().remove("a"));
  put("a", "third", {.if_absent = true});
  EXPECT_EQ(content_of("a"), "third");
}

TEST_P(BlobStoreTest, APutIfMatchNeedsTheCurrentVersion) {
  if (!abilities().conditional_puts) {
    EXPECT_EQ(error_of(store().put("a", as_bytes("x"), {.if_match = "1"})), Code::kUnsupported);
    EXPECT_EQ(content_of("a"), std::nullopt);
    return;
  }
  BlobInfo first = put("a", "one");
  BlobInfo second = put("a", "two", {.if_match = first.version});
  EXPECT_NE(first.version, second.version);
  EXPECT_EQ(error_of(store().put("a", as_bytes("three"), {.if_match = first.version})), Code::kConflict);
  EXPECT_EQ(content_of("a"), "two");
  for (const char* wrong : {"", "0", "no version", "\"quoted\"", "*", "'"}) {
    EXPECT_EQ(error_of(store().put("a", as_bytes("three"), {.if_match = wrong})), Code::kConflict) << wrong;
  }
  EXPECT_EQ(error_of(store().put("missing", as_bytes("x"), {.if_match = first.version})), Code::kConflict);
  EXPECT_EQ(content_of("missing"), std::nullopt);
  EXPECT_EQ(content_of("a"), "two");
  std::vector<BlobInfo> listed = all_blobs({});
  ASSERT_EQ(listed.size(), 1U);
  put("a", "four", {.if_match = listed[0].version});
  EXPECT_EQ(content_of("a"), "four");
}

TEST_P(BlobStoreTest, AVersionIsNotUsedAgainAfterARemoval) {
  if (!abilities().conditional_puts) GTEST_SKIP() << "no conditions";
  BlobInfo first = put("a", "one");
  ASSERT_OK(store().remove("a"));
  EXPECT_EQ(error_of(store().put("a", as_bytes("x"), {.if_match = first.version})), Code::kConflict);
  if (GetParam().versions_by_content) return;
  put("a", "one");
  EXPECT_EQ(error_of(store().put("a", as_bytes("x"), {.if_match = first.version})), Code::kConflict);
}

TEST_P(BlobStoreTest, OfSeveralThatPutIfAbsentOneWins) {
  if (!abilities().conditional_puts) GTEST_SKIP() << "no conditions";
  for (int round = 0; round < GetParam().rounds; ++round) {
    std::string key = fmt::format("race/{}", round);
    std::atomic<int> winners = 0;
    std::atomic<int> others = 0;
    in_threads([&](int thread) {
      Result<BlobInfo> info = store().put(key, as_bytes(std::to_string(thread)), {.if_absent = true});
      if (info.ok()) ++winners;
      else if (info.error().code() == Code::kExists) ++others;
    });
    EXPECT_EQ(winners, 1);
    EXPECT_EQ(others, kThreads - 1);
  }
}

TEST_P(BlobStoreTest, NoIncrementByIfMatchIsLost) {
  if (!abilities().conditional_puts) GTEST_SKIP() << "no conditions";
  put("counter", "0");
  in_threads([&](int) {
    for (int done = 0; done < GetParam().rounds;) {
      Result<std::optional<Blob>> blob = store().get("counter");
      ASSERT_OK(blob);
      ASSERT_TRUE(*blob);
      std::string next = std::to_string(std::stoi((*blob)->content) + 1);
      Result<BlobInfo> info = store().put("counter", as_bytes(next), {.if_match = (*blob)->info.version});
      if (info.ok()) ++done;
      else ASSERT_EQ(info.error().code(), Code::kConflict) << info.error().message();
    }
  });
  EXPECT_EQ(content_of("counter"), std::to_string(kThreads * GetParam().rounds));
}

TEST_P(BlobStoreTest, ReadersSeeWholeValues) {
  const std::size_t size = 50'000;
  put("shared", std::string(size, 'a'));
  in_threads([&](int thread) {
    for (int round = 0; round < GetParam().rounds; ++round) {
      if (thread % 2 == 0) {
        std::string value(size + static_cast<std::size_t>(thread), static_cast<char>('a' + thread));
        ASSERT_OK(store().put("shared", as_bytes(value)));
        ASSERT_OK(store().put(fmt::format("own/{}", thread), as_bytes(value)));
      } else {
        Result<std::optional<Blob>> blob = store().get("shared");
        ASSERT_OK(blob);
        ASSERT_TRUE(*blob);
        const std::string& content = (*blob)->content;
        ASSERT_EQ(content.size(), (*blob)->info.size);
        ASSERT_EQ(content.find_first_not_of(content[0]), std::string::npos);
        ASSERT_EQ(content.size(), size + static_cast<std::size_t>(content[0] - 'a'));
      }
    }
  });
  EXPECT_EQ(keys({.prefix = "own/"}).size(), static_cast<std::size_t>(kThreads / 2));
}

// Time to live.

TEST_P(BlobStoreTest, S4_1_AValueIsGoneOnceItsTimeHasPassed) {
  if (!abilities().ttl) {
    EXPECT_EQ(error_of(store().put("a", as_bytes("x"), {.ttl = milliseconds(1000)})), Code::kUnsupported);
    EXPECT_EQ(content_of("a"), std::nullopt);
    return;
  }
  BlobInfo gone = put("short", "x", {.ttl = milliseconds(30)});
  put("d/short", "x", {.ttl = milliseconds(30)});
  put("long", "y", {.ttl = milliseconds(3'600'000)});
  put("ever", "z");
  let_pass(milliseconds(60));
  EXPECT_EQ(content_of("short"), std::nullopt);
  Result<std::optional<BlobInfo>> found = store().find("short");
  ASSERT_OK(found);
  EXPECT_FALSE(*found);
  Result<std::optional<Blob>> range = store().get_range("short", 0, 1);
  ASSERT_OK(range);
  EXPECT_FALSE(*range);
  EXPECT_EQ(keys({}), (std::vector<std::string>{"ever", "long"}));
  EXPECT_EQ(keys({.by_folder = true}), (std::vector<std::string>{"ever", "long"}));
  EXPECT_EQ(content_of("long"), "y");
  Result<bool> removed = store().remove("d/short");
  ASSERT_OK(removed);
  EXPECT_FALSE(*removed);
  if (!abilities().conditional_puts) return;
  EXPECT_EQ(error_of(store().put("short", as_bytes("n"), {.if_match = gone.version})), Code::kConflict);
  put("short", "new", {.if_absent = true});
  EXPECT_EQ(content_of("short"), "new");
}

TEST_P(BlobStoreTest, APutReplacesTheTimeToLive) {
  if (!abilities().ttl) GTEST_SKIP() << "no time to live";
  put("stays", "x", {.ttl = milliseconds(30)});
  put("stays", "y");
  put("goes", "x");
  put("goes", "y", {.ttl = milliseconds(30)});
  let_pass(milliseconds(60));
  EXPECT_EQ(content_of("stays"), "y");
  EXPECT_EQ(content_of("goes"), std::nullopt);
}

TEST_P(BlobStoreTest, ATimeToLiveMustBePositive) {
  if (!abilities().ttl) GTEST_SKIP() << "no time to live";
  EXPECT_EQ(error_of(store().put("a", as_bytes("x"), {.ttl = milliseconds(0)})), Code::kInvalid);
  EXPECT_EQ(error_of(store().put("a", as_bytes("x"), {.ttl = milliseconds(-1)})), Code::kInvalid);
  EXPECT_EQ(content_of("a"), std::nullopt);
  put("a", "x", {.ttl = milliseconds::max()});
  EXPECT_EQ(content_of("a"), "x");
}

// Batches.

TEST_P(BlobStoreTest, ABatchHappensInOrder) {
  put("old", "x");
  std::vector<BlobChange> changes = {
      {.key = "a", .content = as_bytes("1"), .options = {}},     {.key = "old", .content = std::nullopt, .options = {}},
      {.key = "a", .content = as_bytes("2"), .options = {}},     {.key = "b", .content = as_bytes(""), .options = {}},
      {.key = "c", .content = as_bytes("3"), .options = {}},     {.key = "c", .content = std::nullopt, .options = {}},
      {.key = "missing", .content = std::nullopt, .options = {}}};
  ASSERT_OK(store().apply(changes));
  EXPECT_EQ(content_of("a"), "2");
  EXPECT_EQ(content_of("b"), "");
  EXPECT_EQ(keys({}), (std::vector<std::string>{"a", "b"}));
  EXPECT_OK(store().apply({}));
}

TEST_P(BlobStoreTest, ABatchEndsWithItsFirstFailure) {
  if (!abilities().conditional_puts) GTEST_SKIP() << "no conditions";
  put("b", "there");
  std::vector<BlobChange> changes = {{.key = "a", .content = as_bytes("1"), .options = {}},
                                     {.key = "b", .content = as_bytes("2"), .options = {.if_absent = true}},
                                     {.key = "c", .content = as_bytes("3"), .options = {}}};
  EXPECT_EQ(error_of(store().apply(changes)), Code::kExists);
  EXPECT_EQ(content_of("b"), "there");
  EXPECT_EQ(content_of("c"), std::nullopt);
  if (abilities().whole_batches) EXPECT_EQ(content_of("a"), std::nullopt);
  else EXPECT_EQ(content_of("a"), "1");
  changes[1].options = {.if_match = "no version"};
  EXPECT_EQ(error_of(store().apply(changes)), Code::kConflict);
  EXPECT_EQ(content_of("b"), "there");
}

TEST_P(BlobStoreTest, ARemovalIfMatchNeedsTheCurrentVersion) {
  BlobInfo first = put("a", "one");
  auto remove_if = [&](const std::string& key, const std::string& version) {
    const BlobChange change{.key = key, .content = std::nullopt, .options = {.if_match = version}};
    return store().apply({&change, 1});
  };
  if (!abilities().conditional_removals) {
    EXPECT_EQ(error_of(remove_if("a", first.version)), Code::kUnsupported);
    EXPECT_EQ(content_of("a"), "one");
    return;
  }
  BlobInfo second = put("a", "two");
  for (const std::string& wrong : {first.version, std::string(), std::string("no version")}) {
    EXPECT_EQ(error_of(remove_if("a", wrong)), Code::kConflict) << wrong;
  }
  EXPECT_EQ(content_of("a"), "two");
  EXPECT_EQ(error_of(remove_if("missing", first.version)), Code::kConflict);
  EXPECT_OK(remove_if("a", second.version));
  EXPECT_EQ(content_of("a"), std::nullopt);
}

TEST_P(BlobStoreTest, AMoveInABatchIsRefusedAfterAnotherWriter) {
  if (!abilities().conditional_removals || !abilities().whole_batches) GTEST_SKIP() << "no moves in a batch";
  BlobInfo first = put("a", "one");
  auto move = [&](const BlobInfo& info, std::string_view content) {
    const BlobChange changes[] = {{.key = "b", .content = as_bytes(content), .options = {}},
                                  {.key = "a", .content = std::nullopt, .options = {.if_match = info.version}}};
    return store().apply(changes);
  };
  BlobInfo second = put("a", "two");
  EXPECT_EQ(error_of(move(first, "one")), Code::kConflict);
  EXPECT_EQ(content_of("a"), "two");
  EXPECT_EQ(content_of("b"), std::nullopt);
  EXPECT_OK(move(second, "two"));
  EXPECT_EQ(content_of("a"), std::nullopt);
  EXPECT_EQ(content_of("b"), "two");
}

// The store itself.

TEST_P(BlobStoreTest, NoMessageHasASecret) {
  EXPECT_FALSE(store().name().empty());
  if (GetParam().secret.empty()) return;
  EXPECT_EQ(store().name().find(GetParam().secret), std::string::npos);
  Result<BlobInfo> info = store().put("a/../b", as_bytes("x"));
  ASSERT_FALSE(info.ok());
  EXPECT_EQ(info.error().message().find(GetParam().secret), std::string::npos);
}

TEST_P(BlobStoreTest, AnotherHandleSeesWhatWasAcknowledged) {
  if (!GetParam().open_again) GTEST_SKIP() << "a store of its own";
  BlobInfo info = put("a", "one");
  std::unique_ptr<BlobStore> other = GetParam().open_again();
  ASSERT_NE(other, nullptr);
  Result<std::optional<Blob>> blob = other->get("a");
  ASSERT_OK(blob);
  ASSERT_TRUE(*blob);
  EXPECT_EQ((*blob)->content, "one");
  EXPECT_EQ((*blob)->info.version, info.version);
  ASSERT_OK(other->put("a", as_bytes("two")));
  EXPECT_EQ(content_of("a"), "two");
  ASSERT_OK(other->remove("a"));
  EXPECT_EQ(content_of("a"), std::nullopt);
  if (!abilities().conditional_puts) return;
  EXPECT_EQ(error_of(store().put("a", as_bytes("x"), {.if_match = info.version})), Code::kConflict);
}

}  // namespace warren::testing
