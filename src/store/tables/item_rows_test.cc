#include "store/tables/item_rows.h"

#include <gtest/gtest.h>

#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

class ItemRowsTest : public ::testing::Test {
 protected:
  static ItemRow row(std::uint64_t node, std::string id, std::string path) {
    return {.node = Inode{node}, .id = std::move(id), .path = std::move(path)};
  }
  std::string path_of(std::uint64_t node) {
    std::optional<ItemRow> found = rows_.find(Inode{node}).value();
    return found ? found->path : "none";
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  std::unique_ptr<Store> store_ =
      Store::open(dir_.file("a.db"), {.mode = OpenMode::kCreate, .durability = Durability::kProcess}, clock_).value();
  ItemRows rows_{*store_};
};

TEST_F(ItemRowsTest, WithoutATableThereAreNoRows) {
  Transaction scope = store_->begin_write().value();
  EXPECT_EQ(rows_.find(Inode{2}).value(), std::nullopt);
  EXPECT_EQ(rows_.find_by_id("x").value(), std::nullopt);
  EXPECT_OK(rows_.remove(Inode{2}));
}

TEST_F(ItemRowsTest, ARowIsFoundByInodeIdAndPath) {
  Transaction scope = store_->begin_write().value();
  ItemRow whole{.node = Inode{7},
                .id = "0190163d-8694-739b-aea5-966c26f8ad91",
                .path = "/context/url/a\xff",
                .source = "https://example.com/a",
                .fetched_at = 5,
                .sha256 = "ab",
                .mime = "text/html",
                .title = "A",
                .stamp = "1 2.3"};
  ASSERT_OK(rows_.put(whole));
  EXPECT_EQ(rows_.find(Inode{7}).value(), whole);
  EXPECT_EQ(rows_.find_by_id(whole.id).value(), whole);
  EXPECT_EQ(rows_.find_by_path(whole.path).value(), whole);
  whole.title = "B";
  whole.fetched_at = std::nullopt;
  ASSERT_OK(rows_.put(whole));
  EXPECT_EQ(rows_.find(Inode{7}).value(), whole);
  EXPECT_FALSE(rows_.put(row(8, whole.id, "/context/url/b")).ok());  // two items never share an id
  ASSERT_OK(rows_.rekey(Inode{7}, Inode{9}));
  EXPECT_EQ(rows_.find(Inode{7}).value(), std::nullopt);
  EXPECT_EQ(rows_.find(Inode{9}).value()->id, whole.id);
  ASSERT_OK(rows_.remove(Inode{9}));
  EXPECT_EQ(rows_.find_by_id(whole.id).value(), std::nullopt);
}

TEST_F(ItemRowsTest, MovingADirectoryMovesThePathsBelowItAndNoOthers) {
  Transaction scope = store_->begin_write().value();
  ASSERT_OK(rows_.put(row(2, "a", "/context/disk/d/x")));
  ASSERT_OK(rows_.put(row(3, "b", "/context/disk/d/e/\xd1\x8f")));
  ASSERT_OK(rows_.put(row(4, "c", "/context/disk/d%/x")));
  ASSERT_OK(rows_.put(row(5, "d", "/context/disk/d0")));
  ASSERT_OK(rows_.put(row(6, "e", "/context/disk/d.x")));
  ASSERT_OK(rows_.move_below("/context/disk/d", "/context/agent/new"));
  EXPECT_EQ(path_of(2), "/context/agent/new/x");
  EXPECT_EQ(path_of(3), "/context/agent/new/e/\xd1\x8f");
  EXPECT_EQ(path_of(4), "/context/disk/d%/x");
  EXPECT_EQ(path_of(5), "/context/disk/d0");
  EXPECT_EQ(path_of(6), "/context/disk/d.x");
  ASSERT_OK(rows_.move_below("/context/disk/d%", "/context/agent/p"));
  EXPECT_EQ(path_of(4), "/context/agent/p/x");
  EXPECT_EQ(path_of(2), "/context/agent/new/x");
}

}  // namespace
}  // namespace warren
