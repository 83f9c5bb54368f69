#include "cli/relay/relay_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace warren::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

const std::vector<double> kBounds = {0.001, 0.01, 0.1};

TEST(Quantile, IsInterpolatedInItsBucket) {
  EXPECT_DOUBLE_EQ(quantile(kBounds, {10, 0, 0, 0}, 0.5), 0.0005);
  EXPECT_DOUBLE_EQ(quantile(kBounds, {5, 5, 0, 0}, 0.5), 0.001);
  EXPECT_DOUBLE_EQ(quantile(kBounds, {0, 10, 0, 0}, 0.5), 0.0055);
  EXPECT_DOUBLE_EQ(quantile(kBounds, {99, 0, 1, 0}, 0.99), 0.001);
}

TEST(Quantile, IsUnknownIfEmptyAndTheLastBoundIfBeyondIt) {
  EXPECT_EQ(quantile(kBounds, {0, 0, 0, 0}, 0.5), -1);
  EXPECT_EQ(quantile({}, {}, 0.5), -1);
  EXPECT_EQ(quantile(kBounds, {0, 0, 0, 3}, 0.5), 0.1);
}

Json stats(double uptime, int accepted, std::vector<int> buckets) {
  return {{"started_at", 100.0},
          {"uptime", uptime},
          {"accepted", accepted},
          {"latency", {{"bounds", kBounds}, {"buckets", buckets}}},
          {"waiting", {{"bob", 3}, {"carol", 12}}},
          {"problems", {"the disk is nearly full"}}};
}

TEST(RelayFrame, RatesAndLatenciesAreForTheTimeBetweenTwoReadings) {
  RelayReading before{.is_up = true, .root = "/r", .at_seconds = 160, .stats = stats(60, 100, {100, 0, 0, 0})};
  RelayReading now{.is_up = true, .root = "/r", .at_seconds = 162, .stats = stats(62, 300, {100, 0, 10, 0})};
  std::vector<std::string> lines = relay_frame(before, now, 200, 50);
  EXPECT_EQ(lines.front(), "relay /r   up 1m 02s");
  EXPECT_THAT(lines, Contains(HasSubstr("accepted 100.0")));
  EXPECT_THAT(lines, Contains(HasSubstr("p50 55.0 ms")));
  EXPECT_THAT(lines, Contains("PROBLEM     the disk is nearly full"));
  EXPECT_EQ(lines.at(lines.size() - 2), "        12  carol");
  EXPECT_EQ(lines.back(), "         3  bob");
}

TEST(RelayFrame, ARestartedRelayIsShownSinceItsStart) {
  RelayReading before{.is_up = true, .root = "/r", .stats = stats(60, 100'000, {1, 0, 0, 0})};
  before.stats["started_at"] = 50.0;
  RelayReading now{.is_up = true, .root = "/r", .at_seconds = 110, .stats = stats(10, 50, {1, 0, 0, 0})};
  EXPECT_THAT(relay_frame(before, now, 200, 50), Contains(HasSubstr("accepted 5.0")));
}

TEST(RelayFrame, FitsItsWindow) {
  RelayReading now{.is_up = true, .root = std::string(300, 'r'), .stats = stats(10, 50, {1, 0, 0, 0})};
  std::vector<std::string> lines = relay_frame({}, now, 20, 3);
  EXPECT_EQ(lines.size(), 3U);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 20U);
}

TEST(RelayFrame, WorksWithoutNumbers) {
  EXPECT_EQ(relay_frame({}, {.root = "/r", .stats = Json::object()}, 80, 50).front(), "relay /r   down");
}

}  // namespace
}  // namespace warren::cli
