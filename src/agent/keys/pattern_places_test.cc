#include "agent/keys/pattern_places.h"

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren {
namespace {

using Places = std::vector<std::string>;

TEST(PatternPlaces, APatternThatMatchesOnlyWhatIsNotAFileIsRefused) {
  for (const char* pattern : {"/mem/working", "/mem/working/*", "/mem/working/a/**", "/mem/work\\ing/x",
                              "/state/checkpoints/*", "/state/checkpoints", "/audit/events.jsonl"}) {
    Status checked = check_matches_files(pattern);
    ASSERT_FALSE(checked.ok()) << pattern;
    EXPECT_EQ(checked.error().code(), Code::kInvalid);
    EXPECT_NE(checked.error().hint().find("whole agent"), std::string::npos);
  }
}

TEST(PatternPlaces, OtherPatternsAreNotRefused) {
  for (const char* pattern : {"/", "/mem", "/mem/*", "/mem/work*", "/mem/episodic", "/mem/workings/x", "/state/*", "**",
                              "**/*.key", "/audit/*", "/state/checkpoint"}) {
    EXPECT_OK(check_matches_files(pattern));
  }
}

TEST(PatternPlaces, PlacesThatAPatternSeemsToCoverAreListed) {
  Places all{"/mem/working", "/state/checkpoints", "/audit/events.jsonl"};
  EXPECT_EQ(list_places_left_out("/", {}), all);
  EXPECT_EQ(list_places_left_out("**", {}), all);
  EXPECT_EQ(list_places_left_out("/mem", {}), Places{"/mem/working"});
  EXPECT_EQ(list_places_left_out("/mem/*/x", {}), Places{"/mem/working"});
  EXPECT_EQ(list_places_left_out("/state/*", {}), Places{"/state/checkpoints"});
  EXPECT_EQ(list_places_left_out("/mem/episodic", {}), Places{});
  EXPECT_EQ(list_places_left_out("/secrets", {}), Places{});
  EXPECT_EQ(list_places_left_out("**/*.key", {}), Places{});
}

TEST(PatternPlaces, MountsAreListedOnce) {
  EXPECT_EQ(list_places_left_out("/data/*", {"/data", "/other"}), Places{"/data"});
  EXPECT_EQ(list_places_left_out("/mem", {"/mem/working"}), Places{"/mem/working"});
}

}  // namespace
}  // namespace warren
