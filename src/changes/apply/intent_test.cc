#include "changes/apply/intent.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

HostNode node(std::uint64_t number) {
  return {.device = 7, .inode = number, .type = S_IFREG, .size = 12, .mtime = {-5, 999'999'999}};
}

Intent example() {
  Intent intent{.staging = ".warren-apply-1", .steps = {}, .changes = {}};
  Step take{.kind = StepKind::kTakeOut, .path = std::string("/a\n\xff\0b", 6), .slot = 1};
  take.old_node = node(3);
  take.tree = 4;
  take.content = 5;
  Step set{.kind = StepKind::kSetMetadata, .path = "/d"};
  set.before = {.mode = 0755, .uid = 1, .gid = 2, .atime = {1, 2}, .mtime = {3, 4}, .xattrs = {{"user.x", "\0y"}}};
  set.after = {.mode = 0700, .uid = 1, .gid = 2, .atime = {1, 2}, .mtime = {3, 4}, .xattrs = {}};
  intent.steps = {take, set};
  AppliedChange change{.kind = TreeChangeKind::kRenamed, .path = "/new", .base_path = "/old", .type = S_IFDIR};
  change.upper = Inode{9};
  change.ctime = {1, 1};
  change.written = node(11);
  change.has_unseen = true;
  change.brings_unseen = true;
  change.own = AppliedChange::Own{.content = "agent\n", .ancestor = "first\n", .metadata = set.before};
  intent.changes = {change};
  return intent;
}

TEST(Intent, SurvivesEncodingAndDecoding) {
  Intent intent = example();
  Result<Intent> back = decode_intent(encode(intent));
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(*back, intent);
}

TEST(Intent, WithoutStepsSurvivesToo) {
  Result<Intent> back = decode_intent(encode(Intent{}));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, Intent{});
}

// What is kept for undo, or was interrupted, may be of an older version.
TEST(Intent, OfAnOlderVersionIsRead) {
  Intent intent{.staging = ".warren-apply-1", .steps = {}, .changes = {}};
  auto number = [](std::uint64_t value) { return std::string(reinterpret_cast<const char*>(&value), sizeof value); };
  std::string body = number(intent.staging.size());
  body += intent.staging;
  for (std::uint64_t value : {1, 1, 2}) body += number(value);
  body += "/a";
  body.append(15 * 8, '\0');
  body += number(0);
  intent.steps = {Step{.kind = StepKind::kTakeOut, .path = "/a"}};
  for (const std::string& bytes : {"warren-apply-3\n" + body, "warren-apply-4\n" + body + number(0)}) {
    Result<Intent> back = decode_intent(bytes);
    ASSERT_TRUE(back.ok()) << bytes;
    EXPECT_EQ(*back, intent);
  }
}

TEST(Intent, OfTheVersionBeforeHasNoWrittenNodes) {
  Intent intent = example();
  intent.changes.front().written = {};
  intent.changes.front().own = {};
  std::string bytes = encode(intent);
  constexpr std::size_t kWrittenBytes = std::size_t{6} * 8;
  bytes.erase(bytes.size() - 8 - kWrittenBytes, kWrittenBytes);  // the number of mount points comes last
  bytes.replace(0, 14, "warren-apply-5");
  Result<Intent> back = decode_intent(bytes);
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(*back, intent);
}

Intent over_two_filesystems() {
  Intent intent = example();
  intent.tops = {"/mnt/a\n", "/mnt/b"};
  intent.steps[0].slot = 2 * kSlotsPerTop + 1;
  return intent;
}

TEST(Intent, KeepsTheFilesystemsItConcerns) {
  Result<Intent> back = decode_intent(encode(over_two_filesystems()));
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(*back, over_two_filesystems());
}

TEST(Intent, ASlotOnAFilesystemThatIsNotListedIsCorrupt) {
  Intent intent = over_two_filesystems();
  intent.tops.pop_back();
  EXPECT_FALSE(decode_intent(encode(intent)).ok());
}

class IntentCut : public ::testing::TestWithParam<bool> {
 protected:
  Intent intent() const { return GetParam() ? over_two_filesystems() : example(); }
};
INSTANTIATE_TEST_SUITE_P(Each, IntentCut, ::testing::Bool());

TEST_P(IntentCut, AnywhereIsCorrupt) {
  std::string bytes = encode(intent());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    Result<Intent> back = decode_intent(std::string_view(bytes).substr(0, size));
    ASSERT_FALSE(back.ok()) << size;
    EXPECT_EQ(back.error().code(), Code::kCorrupt);
  }
  EXPECT_FALSE(decode_intent(bytes + "x").ok());
}

TEST_P(IntentCut, OrAWrongByteNeverBreaksTheReader) {
  std::string bytes = encode(intent());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x80);
    Result<Intent> back = decode_intent(damaged);
    EXPECT_TRUE(!back.ok() || *back != intent()) << at;
  }
}

}  // namespace
}  // namespace warren
