#include "backends/blob/memory_blobs.h"

#include "backends/blob/blob_suite_testing.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"

namespace warren::testing {
namespace {

FakeClock& memory_clock() {
  static FakeClock clock;
  return clock;
}

INSTANTIATE_TEST_SUITE_P(Memory, BlobStoreTest,
                         ::testing::Values(BlobSuiteCase{
                             .name = "memory",
                             .make = [] { return std::make_unique<MemoryBlobs>(memory_clock()); },
                             .let_pass =
                                 [](std::chrono::milliseconds time) {
                                   memory_clock().advance_ns(std::chrono::nanoseconds(time).count());
                                 }}),
                         name_of_case);

TEST(MemoryBlobs, HoldsNoMoreThanItsLimit) {
  FakeClock clock;
  MemoryBlobs store(clock, 100);
  ASSERT_OK(store.put("a", as_bytes(std::string(90, 'x')), {}));
  EXPECT_EQ(error_of(store.put("b", as_bytes(std::string(20, 'x')), {})), Code::kNoSpace);
  ASSERT_OK(store.put("a", as_bytes("small"), {}));
  ASSERT_OK(store.put("b", as_bytes(std::string(20, 'x')), {}));
  ASSERT_OK(store.remove("b"));
  std::vector<BlobChange> changes = {{.key = "c", .content = as_bytes("1"), .options = {}},
                                     {.key = "d", .content = as_bytes("2"), .options = {.if_match = "none"}}};
  for (int i = 0; i < 100; ++i) EXPECT_EQ(error_of(store.apply(changes)), Code::kConflict);
  ASSERT_OK(store.put("b", as_bytes(std::string(90, 'x')), {})) << "a batch that was taken back takes no room";
}

}  // namespace
}  // namespace warren::testing
