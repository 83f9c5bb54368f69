#include "store/record/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "store/store.h"
#include "store/tables/kv.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using testing::FakeClock;
using ::testing::IsEmpty;
using testing::TempDir;

class JournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    store_ = open(OpenMode::kCreate);
    start_ = journal().last_seq().value();
  }

  std::unique_ptr<Store> open(OpenMode mode) {
    return Store::open(directory_.file("a.db"), {.mode = mode, .durability = Durability::kProcess}, clock_).value();
  }

  Journal& journal() { return *store_->journal(); }

  std::vector<JournalRow> rows() {
    auto found = journal().read_after(start_, SIZE_MAX).value();
    return found ? *std::move(found) : std::vector<JournalRow>();
  }

  // A change like those of the filesystem: changes a row and notes it.
  template <class Note>
  void change(Note note) {
    Transaction change = store_->begin_write().value();
    ASSERT_OK(store_->database().execute("INSERT OR REPLACE INTO wr_meta VALUES ('test', 1)"));
    note(journal());
    ASSERT_OK(change.commit());
  }

  TempDir directory_;
  FakeClock clock_;
  std::unique_ptr<Store> store_;
  std::int64_t start_ = 0;
};

TEST_F(JournalTest, OneTransactionIsOneRowWithEverythingItChanged) {
  change([](Journal& notes) {
    notes.note_entry(Inode{1}, "a name\n\xff");
    notes.note_data(Inode{UINT64_MAX});
    notes.note_attributes(Inode{128});
    notes.note_key("key");
    notes.note_tool_call(300);
  });
  std::vector<JournalRow> found = rows();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].seq, start_ + 1);
  EXPECT_EQ(found[0].at_us, clock_.now_us());
  EXPECT_EQ(found[0].origin, journal().origin());
  EXPECT_THAT(found[0].changes,
              ElementsAre(Change{ChangeKind::kEntry, 1, "a name\n\xff"}, Change{ChangeKind::kData, UINT64_MAX, ""},
                          Change{ChangeKind::kAttributes, 128, ""}, Change{ChangeKind::kKey, 0, "key"},
                          Change{ChangeKind::kToolCall, 300, ""}));
}

TEST_F(JournalTest, AThousandSetsInOneTransactionAreOneRow) {
  Transaction batch = store_->begin_write().value();
  for (int i = 0; i < 1000; ++i) ASSERT_OK(store_->kv().set(std::to_string(i), "1"));
  ASSERT_OK(batch.commit());
  ASSERT_EQ(rows().size(), 1U);
  EXPECT_EQ(rows()[0].changes.size(), 1000U);
}

TEST_F(JournalTest, ATransactionThatChangesNothingLeavesNoRow) {
  change([](Journal&) {});
  EXPECT_FALSE(store_->kv().remove("absent").value());
  EXPECT_THAT(rows(), IsEmpty());
}

TEST_F(JournalTest, RolledBackChangesAreNotListed) {
  {
    Transaction dropped = store_->begin_write().value();
    ASSERT_OK(store_->kv().set("dropped", "1"));
  }
  ASSERT_OK(store_->kv().set("kept", "1"));
  ASSERT_EQ(rows().size(), 1U);
  EXPECT_THAT(rows()[0].changes, ElementsAre(Change{ChangeKind::kKey, 0, "kept"}));
}

TEST_F(JournalTest, ARepeatedChangeIsListedOnce) {
  change([](Journal& notes) {
    for (int i = 0; i < 5; ++i) notes.note_data(Inode{7});
    notes.note_data(Inode{8});
    notes.note_data(Inode{7});
  });
  EXPECT_THAT(rows()[0].changes, ElementsAre(Change{ChangeKind::kData, 7, ""}, Change{ChangeKind::kData, 8, ""},
                                             Change{ChangeKind::kData, 7, ""}));
}

TEST_F(JournalTest, AChangeTooLargeToListBecomesEverythingAndTheNextIsListedAgain) {
  change([](Journal& notes) {
    for (int i = 0; i < 100'000; ++i) notes.note_key(std::to_string(i));
  });
  ASSERT_OK(store_->kv().set("k", "1"));
  ASSERT_EQ(rows().size(), 2U);
  EXPECT_THAT(rows()[0].changes, ElementsAre(Change{ChangeKind::kEverything, 0, ""}));
  EXPECT_THAT(rows()[1].changes, ElementsAre(Change{ChangeKind::kKey, 0, "k"}));
}

TEST_F(JournalTest, AReaderContinuesFromItsOwnPosition) {
  for (int i = 0; i < 5; ++i) ASSERT_OK(store_->kv().set(std::to_string(i), "1"));
  auto page = journal().read_after(start_ + 1, 2).value();
  ASSERT_TRUE(page.has_value());
  ASSERT_EQ(page->size(), 2U);
  EXPECT_EQ((*page)[0].seq, start_ + 2);
  EXPECT_EQ((*page)[1].changes[0].name, "2");
  EXPECT_THAT(*journal().read_after(start_ + 5, 10).value(), IsEmpty());
  EXPECT_EQ(journal().last_seq().value(), start_ + 5);
}

TEST_F(JournalTest, AnotherStoreReadsItAndKnowsWhoWroteWhat) {
  std::unique_ptr<Store> other = open(OpenMode::kReadWrite);
  EXPECT_NE(other->journal()->origin(), journal().origin());
  ASSERT_OK(store_->kv().set("mine", "1"));
  ASSERT_OK(other->kv().set("theirs", "1"));
  auto found = other->journal()->read_after(start_, 10).value();
  ASSERT_TRUE(found && found->size() == 2);
  EXPECT_EQ((*found)[0].origin, journal().origin());
  EXPECT_EQ((*found)[1].origin, other->journal()->origin());
}

TEST_F(JournalTest, ARowSaysThroughWhichDoorItWasWritten) {
  change([](Journal& notes) { notes.note_key("unknown"); });
  auto fs = Store::open(directory_.file("a.db"), {.author = {.door = "fs", .space = "kernel"}}, clock_).value();
  ASSERT_OK(fs->kv().set("known", "1"));
  std::vector<JournalRow> found = rows();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].author.door, "");
  EXPECT_EQ(found[1].author.door, "fs");
  EXPECT_EQ(found[1].author.space, "kernel");
}

TEST_F(JournalTest, AFileOfAnOlderWarrenWithoutDoorsIsReadAsItIsAndCompletedWhenItIsWritten) {
  change([](Journal& notes) { notes.note_key("old"); });
  ASSERT_OK(store_->database().execute("ALTER TABLE wr_journal DROP COLUMN door"));
  ASSERT_OK(store_->database().execute("ALTER TABLE wr_journal DROP COLUMN space"));
  store_.reset();
  {
    auto reader = open(OpenMode::kReadOnly);
    auto old = Journal::open(reader->database(), reader->schema(), clock_).value();
    std::vector<JournalRow> found = *old->read_after(start_, SIZE_MAX).value();
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].changes.at(0).name, "old");
    EXPECT_EQ(found[0].author.door, "");
  }
  store_ = open(OpenMode::kReadWrite);
  EXPECT_TRUE(store_->schema().journal_has_authors);
  change([](Journal& notes) { notes.note_key("new"); });
  EXPECT_EQ(rows().size(), 2U);
}

TEST_F(JournalTest, AReaderTooFarBehindGetsNoRows) {
  for (int i = 0; i < 3; ++i) ASSERT_OK(store_->kv().set(std::to_string(i), "1"));
  ASSERT_OK(store_->database().execute("DELETE FROM wr_journal WHERE seq <= (SELECT max(seq) - 1 FROM wr_journal)"));
  EXPECT_EQ(journal().read_after(start_, 10).value(), std::nullopt);
  EXPECT_EQ(journal().read_after(start_ + 2, 10).value()->size(), 1U) << "nothing of interest to it is gone";
}

TEST_F(JournalTest, OnlyTheNewestRowsAreKept) {
  ASSERT_OK(store_->kv().set("old", "1"));
  ASSERT_OK(store_->database().execute(
      "INSERT INTO wr_journal (seq, at_us, origin, changes) VALUES (4096 * 100 - 1, 0, 0, x'2a00')"));
  ASSERT_OK(store_->kv().set("new", "1"));
  EXPECT_EQ(journal().last_seq().value(), 4096 * 100);
  EXPECT_EQ(journal().read_after(start_, 10).value(), std::nullopt);
  EXPECT_EQ(journal().read_after(4096 * 100 - 1, 10).value()->size(), 1U);
}

TEST(JournalDecode, BytesThatAreNotRecordsAreCorrupt) {
  for (std::string_view bytes : {"x", "d", "k\x01",
                                 "k\x01\x05"
                                 "abc",
                                 "d\xff\xff", "zz"}) {
    EXPECT_EQ(error_of(decode_changes(as_bytes(bytes))), Code::kCorrupt) << bytes;
  }
  std::string endless = "d" + std::string(20, '\x80');
  EXPECT_EQ(error_of(decode_changes(as_bytes(endless))), Code::kCorrupt);
  EXPECT_THAT(decode_changes({}).value(), IsEmpty());
}

}  // namespace
}  // namespace warren
