#include "changes/review/review.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

TreeChange reviewed(TreeChangeKind kind, std::string path, std::uint32_t type = S_IFREG) {
  TreeChange made;
  made.kind = kind;
  made.path = std::move(path);
  made.base_path = kind == TreeChangeKind::kAdded ? "" : made.path;
  made.place = made.path;
  Attributes node;
  node.mode = type;
  if (kind != TreeChangeKind::kAdded) made.before = node;
  if (kind != TreeChangeKind::kDeleted) made.after = node;
  return made;
}

std::vector<TreeChange> some_changes() {
  return {reviewed(TreeChangeKind::kModified, "/a"), reviewed(TreeChangeKind::kAdded, "/d", S_IFDIR),
          reviewed(TreeChangeKind::kAdded, "/d/x"), reviewed(TreeChangeKind::kAdded, "/d/y"),
          reviewed(TreeChangeKind::kModified, "/e/f/z")};
}

Selection offer(const std::vector<TreeChange>& all, const ChangeFilter& filter = {}) {
  Selection offered(all);
  offered.take_if(filter);
  return offered;
}

std::vector<std::string> names_of(const Review& review) {
  std::vector<std::string> names;
  for (std::size_t row : review.visible())
    names.push_back(std::string(2 * review.rows()[row].depth, ' ') + review.rows()[row].name);
  return names;
}

std::size_t row_named(const Review& review, std::string_view name) {
  for (std::size_t i = 0; i < review.rows().size(); ++i) {
    if (review.rows()[i].name == name) return i;
  }
  ADD_FAILURE() << "no row " << name;
  return 0;
}

std::vector<FilePart> two_parts(bool is_second_in_conflict = false) {
  return {{.hunk = {{0, 1}, {0, 1}}}, {.hunk = {{5, 1}, {5, 2}}, .is_in_conflict = is_second_in_conflict}};
}

TEST(Review, ShowsATreeWithTheDirectoriesFirst) {
  std::vector<TreeChange> all = some_changes();
  Review review(all, offer(all), {});
  EXPECT_EQ(names_of(review), (std::vector<std::string>{"d", "  x", "  y", "e", "  f", "    z", "a"}));
  EXPECT_EQ(review.change_of(row_named(review, "f")), nullptr);
  review.fold(row_named(review, "d"));
  EXPECT_EQ(names_of(review), (std::vector<std::string>{"d", "e", "  f", "    z", "a"}));
}

TEST(Review, TakesNothingAtFirst) {
  std::vector<TreeChange> all = some_changes();
  Review review(all, offer(all), {});
  EXPECT_EQ(review.count().taken, 0U);
  EXPECT_EQ(review.count().all, 5U);
}

TEST(Review, ADirectoryIsTakenWithEverythingBelowIt) {
  std::vector<TreeChange> all = some_changes();
  Review review(all, offer(all), {});
  std::size_t dir = row_named(review, "d");
  EXPECT_TRUE(review.toggle(dir));
  EXPECT_EQ(review.taken(dir), Taken::kYes);
  EXPECT_EQ(review.count().taken, 3U);
  review.toggle(row_named(review, "x"));
  EXPECT_EQ(review.taken(dir), Taken::kPart);
  review.toggle(dir);
  EXPECT_EQ(review.taken(dir), Taken::kYes);
  review.toggle(dir);
  EXPECT_EQ(review.taken(dir), Taken::kNo);
}

TEST(Review, AConflictIsTakenOnlyByItself) {
  std::vector<TreeChange> all = some_changes();
  std::vector<ApplyConflict> conflicts{{"/d/x", "it was changed in the base"}};
  Review review(all, offer(all), conflicts);
  review.take_all();
  EXPECT_EQ(review.taken(row_named(review, "x")), Taken::kNo);
  EXPECT_EQ(review.count().taken, 4U);
  EXPECT_TRUE(review.toggle(row_named(review, "x")));
  EXPECT_EQ(review.count().conflicts, 1U);
  review.toggle_merged(*review.rows()[row_named(review, "x")].change);
  EXPECT_EQ(review.count().conflicts, 0U);
}

TEST(Review, AFileCanBeTakenInPart) {
  std::vector<TreeChange> all = some_changes();
  Review review(all, offer(all), {});
  std::size_t row = row_named(review, "a");
  std::size_t change = *review.rows()[row].change;
  review.set_parts(change, two_parts());
  review.toggle_part(change, 1);
  EXPECT_EQ(review.choice_of(change, 0), PartChoice::kLeft);
  EXPECT_EQ(review.choice_of(change, 1), PartChoice::kTaken);
  EXPECT_EQ(review.taken(row), Taken::kPart);
  EXPECT_EQ(review.count().partly, 1U);
  review.toggle_part(change, 0);
  EXPECT_EQ(review.taken(row), Taken::kYes);
}

TEST(Review, PartsOfAFileThatWasTakenAreTaken) {
  std::vector<TreeChange> all = some_changes();
  Review review(all, offer(all), {});
  std::size_t row = row_named(review, "a");
  review.toggle(row);
  review.set_parts(*review.rows()[row].change, two_parts());
  EXPECT_EQ(review.taken(row), Taken::kYes);
}

TEST(Review, PartsThatHaveChangedAreDecidedAgain) {
  std::vector<TreeChange> all = some_changes();
  Review review(all, offer(all), {});
  std::size_t row = row_named(review, "a");
  std::size_t change = *review.rows()[row].change;
  review.set_parts(change, two_parts());
  review.toggle(row);
  review.set_parts(change, two_parts());
  EXPECT_EQ(review.taken(row), Taken::kYes);
  review.set_parts(change, {{.hunk = {{0, 1}, {0, 3}}}});
  EXPECT_EQ(review.taken(row), Taken::kNo);
}

// A conflict in /a, whose second part both have changed.
class ReviewOfAConflict : public ::testing::Test {
 protected:
  ReviewOfAConflict() { review_.set_parts(change_, two_parts(true)); }

  std::vector<PartChoice> choices() const { return {review_.choice_of(change_, 0), review_.choice_of(change_, 1)}; }

  std::vector<TreeChange> all_ = some_changes();
  std::vector<ApplyConflict> conflicts_{{"/a", "it was changed in the base"}};
  Review review_{all_, offer(all_), conflicts_};
  std::size_t row_ = row_named(review_, "a");
  std::size_t change_ = *review_.rows()[row_].change;
};

TEST_F(ReviewOfAConflict, IsTakenAgainAsItWasWhenItWasLeft) {
  review_.toggle(row_);
  EXPECT_EQ(choices(), (std::vector{PartChoice::kTaken, PartChoice::kTaken}));
  for (PartChoice both : {PartChoice::kMarked, PartChoice::kLeft, PartChoice::kTaken}) {
    review_.take_parts_with(change_, both);
    review_.toggle(row_);
    EXPECT_EQ(review_.taken(row_), Taken::kNo);
    review_.leave_all();
    review_.toggle(row_);
    EXPECT_EQ(choices(), (std::vector{PartChoice::kTaken, both}));
  }
}

TEST_F(ReviewOfAConflict, OnlyWhatIsTakenOfAConflictReplacesNewerWork) {
  review_.take_parts_with(change_, PartChoice::kLeft);
  EXPECT_EQ(review_.taken(row_), Taken::kPart);
  EXPECT_EQ(review_.count().conflicts, 0U);
  EXPECT_TRUE(review_.toggle_markers(change_, 1));
  EXPECT_EQ(review_.taken(row_), Taken::kYes);
  EXPECT_EQ(review_.count().conflicts, 0U);
  EXPECT_EQ(review_.count().marked, 1U);
  review_.toggle_part(change_, 1);
  EXPECT_EQ(review_.count().conflicts, 1U);
  EXPECT_EQ(review_.count().marked, 0U);
}

TEST_F(ReviewOfAConflict, OnlyAPartInConflictCanHaveMarkers) {
  EXPECT_TRUE(review_.has_part_in_conflict(change_));
  EXPECT_FALSE(review_.toggle_markers(change_, 0));
  EXPECT_FALSE(review_.toggle_markers(change_, 7));
  EXPECT_EQ(review_.taken(row_), Taken::kNo);
}

TEST(Review, AMergeWithoutPartsIsRemembered) {
  std::vector<TreeChange> all = some_changes();
  std::vector<ApplyConflict> conflicts{{"/a", "it was changed in the base"}};
  Review review(all, offer(all), conflicts);
  std::size_t row = row_named(review, "a");
  std::size_t change = *review.rows()[row].change;
  review.toggle_merged(change);
  EXPECT_TRUE(review.is_merged(change));
  review.toggle(row);
  EXPECT_FALSE(review.is_merged(change));
  EXPECT_EQ(review.taken(row), Taken::kNo);
  review.toggle(row);
  EXPECT_TRUE(review.is_merged(change));
  review.toggle_merged(change);
  EXPECT_EQ(review.taken(row), Taken::kYes);
  EXPECT_EQ(review.count().conflicts, 1U);
}

TEST(Review, OnlyWhatIsOfferedIsListed) {
  std::vector<TreeChange> all = some_changes();
  Review review(all, offer(all, [](std::string_view path) { return path.starts_with("/e"); }), {});
  EXPECT_EQ(names_of(review), (std::vector<std::string>{"e", "  f", "    z"}));
  review.take_all();
  EXPECT_EQ(review.count().taken, 1U);
}

TEST(Review, ALargeDirectoryIsFoldedAtFirst) {
  std::vector<TreeChange> all{reviewed(TreeChangeKind::kAdded, "/big", S_IFDIR)};
  for (int i = 0; i < 60; ++i) all.push_back(reviewed(TreeChangeKind::kAdded, "/big/" + std::to_string(100 + i)));
  Review review(all, offer(all), {});
  EXPECT_EQ(names_of(review), (std::vector<std::string>{"big"}));
}

TEST(Review, AFileInPlaceOfADirectoryHasItsOwnRow) {
  std::vector<TreeChange> all{reviewed(TreeChangeKind::kDeleted, "/d", S_IFDIR), reviewed(TreeChangeKind::kAdded, "/d"),
                              reviewed(TreeChangeKind::kDeleted, "/d/x")};
  Review review(all, offer(all), {});
  EXPECT_EQ(names_of(review), (std::vector<std::string>{"d", "  x", "d"}));
}

TEST(Review, TakesWhatWasTakenBeforeExceptForChangesThatAreOthersNow) {
  std::vector<TreeChange> all = some_changes();
  Review review(all, offer(all), {});
  review.take_all();
  std::vector<TreeChange> later = some_changes();
  later[0].before->size = 7;       // /a, in the base
  later[2].after->ctime = {9, 0};  // /d/x, in the agent
  Review again(later, offer(later), {{"/e/f/z", "it was changed in the base"}});
  std::optional<std::size_t> first = again.take_as_before(review.list_taken());
  ASSERT_TRUE(first);
  EXPECT_EQ(*first, row_named(again, "x"));
  EXPECT_EQ(again.taken(row_named(again, "y")), Taken::kYes);
  EXPECT_EQ(again.count().taken, 2U);  // with the directory
  for (const char* name : {"a", "x", "z"}) EXPECT_EQ(again.taken(row_named(again, name)), Taken::kNo) << name;
}

TEST(Review, TakesAllOfWhatWasTakenBeforeIfNothingElseHasChanged) {
  std::vector<TreeChange> all = some_changes();
  Review review(all, offer(all), {});
  review.set_parts(0, two_parts());
  review.toggle_part(0, 1);
  review.toggle(row_named(review, "x"));
  Review again(all, offer(all), {});
  EXPECT_FALSE(again.take_as_before(review.list_taken()));
  EXPECT_EQ(again.count().partly, 1U);
  EXPECT_EQ(again.choice_of(0, 1), PartChoice::kTaken);
  EXPECT_EQ(again.taken(row_named(again, "x")), Taken::kYes);
  EXPECT_EQ(again.taken(row_named(again, "y")), Taken::kNo);
}

TEST(Review, LeavesWhatHasBecomeAnotherKindOfChange) {
  std::vector<TreeChange> all{reviewed(TreeChangeKind::kModified, "/a")};
  Review review(all, offer(all), {});
  review.take_all();
  std::vector<TreeChange> later{reviewed(TreeChangeKind::kAdded, "/a")};
  Review again(later, offer(later), {});
  EXPECT_EQ(again.take_as_before(review.list_taken()), std::optional<std::size_t>(0));
  EXPECT_EQ(again.count().taken, 0U);
}

}  // namespace
}  // namespace warren
