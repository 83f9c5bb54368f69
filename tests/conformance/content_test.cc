// Content of regular files: bytes, holes, sizes.
#include "conformance/file_system_fixture.h"

#include "base/limits.h"

namespace warren::testing {
namespace {

class ContentTest : public FileSystemTest {
 protected:
  Status allocate(Inode node, AllocateMode mode, std::uint64_t offset, std::uint64_t length) {
    return fs_.allocate(node, mode, offset, length);
  }
  void resize(Inode node, std::uint64_t to) { must(fs_.set_attributes(node, {.size = to})); }
};

// Bytes that encode their position, so that misplaced ones are noticed. Never zero.
std::string pattern(std::size_t length, std::size_t seed = 0) {
  std::string text(length, '\0');
  for (std::size_t i = 0; i < length; ++i) text[i] = static_cast<char>(1 + (i * 7 + i / 251 + seed) % 255);
  return text;
}

std::string zeros(std::size_t length) { return std::string(length, '\0'); }

TEST_P(ContentTest, EverySizeAroundAChunkReadsBack) {
  for (std::size_t length : {0UL, 1UL, 4095UL, 4096UL, 4097UL, 8191UL, 8192UL, 8193UL, 50'000UL}) {
    std::string text = pattern(length);
    Inode file = make_file("f", text);
    EXPECT_EQ(size(file), length);
    EXPECT_EQ(read(file), text);
    EXPECT_EQ(read(file, 0, length + 100), text);
    must(fs_.unlink(kRootInode, "f"));
  }
}

TEST_P(ContentTest, EveryOffsetAndLengthAroundAChunkReadsRight) {
  std::string text = pattern(3 * kChunk + 10);
  Inode file = make_file("f", text);
  for (std::uint64_t offset : {0UL, 1UL, 4095UL, 4096UL, 4097UL, 8192UL, 12'288UL, 12'297UL, 12'298UL, 20'000UL}) {
    for (std::size_t length : {0UL, 1UL, 2UL, 4095UL, 4096UL, 4097UL, 9000UL}) {
      std::string want = offset < text.size() ? text.substr(offset, length) : "";
      EXPECT_EQ(read(file, offset, length), want) << offset << " + " << length;
    }
  }
}

TEST_P(ContentTest, OverwritingPartsKeepsTheRest) {
  for (std::uint64_t offset : {0UL, 1UL, 4095UL, 4096UL, 4097UL, 8191UL, 10'000UL, 12'000UL}) {
    for (std::size_t length : {1UL, 2UL, 4095UL, 4096UL, 4097UL, 9000UL}) {
      std::string want = pattern(12'000);
      Inode file = make_file("f", want);
      std::string part = pattern(length, 99);
      write(file, offset, part);
      if (want.size() < offset + length) want.resize(offset + length, '\0');
      want.replace(offset, length, part);
      EXPECT_EQ(read(file), want) << offset << " + " << length;
      must(fs_.unlink(kRootInode, "f"));
    }
  }
}

TEST_P(ContentTest, WritingPastTheEndLeavesAHole) {
  Inode file = make_file("f", "ab");
  write(file, 3 * kChunk + 5, "z");
  EXPECT_EQ(size(file), 3 * kChunk + 6);
  EXPECT_EQ(read(file), "ab" + zeros(3 * kChunk + 3) + "z");
}

TEST_P(ContentTest, AHugeFileMadeSmallKeepsTheContentBeforeItsNewEnd) {
  constexpr std::uint64_t kMany = std::uint64_t{300} << 20;  // more than is removed in one step
  for (std::uint64_t end : {0UL, 1UL, 8UL, 4096UL, 5000UL}) {
    std::string text = pattern(5000);
    Inode file = make_file("f", text);
    write(file, kMany, "far");
    write(file, kMany * 2, "farther");
    resize(file, std::uint64_t{1} << 50);
    resize(file, end);
    EXPECT_EQ(size(file), end);
    EXPECT_EQ(read(file), text.substr(0, end));
    resize(file, 6000);
    EXPECT_EQ(read(file), text.substr(0, end) + zeros(6000 - end));
    must(fs_.unlink(kRootInode, "f"));
  }
}

TEST_P(ContentTest, AHugeFileThatIsUnlinkedAndForgottenIsGone) {
  Inode file = make_file("f", "near");
  write(file, std::uint64_t{300} << 20, "far");
  must(fs_.retain(file));
  must(fs_.unlink(kRootInode, "f"));
  EXPECT_EQ(read(file, 0, 4), "near");
  fs_.forget(file, 1);
  must(fs_.sync(kRootInode));
  EXPECT_EQ(fs_.lookup(kRootInode, "f").error().code(), Code::kNotFound);
}

TEST_P(ContentTest, AFarOffsetCostsNothing) {
  Inode file = make_file("f");
  constexpr std::uint64_t kFar = std::uint64_t{1} << 40;
  write(file, kFar - 1, "xyz");
  EXPECT_EQ(size(file), kFar + 2);
  EXPECT_EQ(read(file, kFar - 3, 100), zeros(2) + "xyz");
  EXPECT_EQ(read(file, kFar / 2, 3), zeros(3));
  EXPECT_EQ(must(fs_.seek_data(file, 0)), kFar - kChunk);
  EXPECT_EQ(must(fs_.seek_hole(file, 0)), 0U);
  EXPECT_EQ(must(fs_.seek_hole(file, kFar)), kFar + 2);
}

TEST_P(ContentTest, TheLastPossibleByteCanBeWritten) {
  Inode file = make_file("f");
  write(file, limits::kFileBytes - 1, "x");
  EXPECT_EQ(size(file), limits::kFileBytes);
  EXPECT_EQ(read(file, limits::kFileBytes - 2, 10), zeros(1) + "x");
}

TEST_P(ContentTest, NothingGoesBeyondTheLargestSize) {
  Inode file = make_file("f", "kept");
  Attributes before = attributes(file);
  tick();
  EXPECT_EQ(error_of(fs_.write(file, limits::kFileBytes, as_bytes("x"))), Code::kTooLarge);
  EXPECT_EQ(error_of(fs_.write(file, limits::kFileBytes - 1, as_bytes("xy"))), Code::kTooLarge);
  EXPECT_EQ(error_of(fs_.write(file, UINT64_MAX, as_bytes("xy"))), Code::kTooLarge);
  EXPECT_EQ(error_of(fs_.set_attributes(file, {.size = limits::kFileBytes + 1})), Code::kTooLarge);
  EXPECT_EQ(error_of(fs_.set_attributes(file, {.size = UINT64_MAX})), Code::kTooLarge);
  for (AllocateMode mode : {AllocateMode::kAllocate, AllocateMode::kKeepSize, AllocateMode::kPunchHole,
                            AllocateMode::kZeroRange, AllocateMode::kZeroRangeKeepSize}) {
    EXPECT_EQ(error_of(allocate(file, mode, limits::kFileBytes, 1)), Code::kTooLarge);
    EXPECT_EQ(error_of(allocate(file, mode, 1, UINT64_MAX)), Code::kTooLarge);
  }
  EXPECT_EQ(error_of(fs_.copy_range(file, 0, file, limits::kFileBytes - 1, 4)), Code::kTooLarge);
  EXPECT_EQ(attributes(file), before);
}

TEST_P(ContentTest, AppendingToTheLargestFileIsRefused) {
  Inode file = make_file("f");
  resize(file, limits::kFileBytes);
  EXPECT_EQ(error_of(fs_.append(file, as_bytes("x"))), Code::kTooLarge);
  EXPECT_EQ(must(fs_.append(file, {})), limits::kFileBytes);
}

TEST_P(ContentTest, WritingNothingChangesNothing) {
  Inode file = make_file("f", "ab");
  Attributes before = attributes(file);
  tick();
  EXPECT_OK(fs_.write(file, 0, {}));
  EXPECT_OK(fs_.write(file, 1000, {}));
  EXPECT_EQ(must(fs_.append(file, {})), 2U);
  EXPECT_EQ(attributes(file), before);
}

TEST_P(ContentTest, AppendSaysWhereTheDataBegins) {
  Inode file = make_file("f");
  std::string want;
  for (std::size_t length : {1UL, 4094UL, 1UL, 1UL, 4096UL, 10'000UL}) {
    std::string part = pattern(length, want.size());
    EXPECT_EQ(must(fs_.append(file, as_bytes(part))), want.size());
    want += part;
  }
  EXPECT_EQ(read(file), want);
}

TEST_P(ContentTest, ContentIsBytesNotText) {
  std::string text("\0\xff\r\n\0", 5);
  EXPECT_EQ(read(make_file("f", text)), text);
}

TEST_P(ContentTest, TruncatingAndGrowingAgainReadsZeros) {
  for (std::uint64_t cut : {0UL, 1UL, 4095UL, 4096UL, 4097UL, 9999UL}) {
    std::string text = pattern(10'000);
    Inode file = make_file("f", text);
    resize(file, cut);
    EXPECT_EQ(size(file), cut);
    EXPECT_EQ(read(file), text.substr(0, cut));
    resize(file, 12'000);
    EXPECT_EQ(read(file), text.substr(0, cut) + zeros(12'000 - cut)) << cut;
    must(fs_.unlink(kRootInode, "f"));
  }
}

TEST_P(ContentTest, WritingAfterATruncateShowsNoOldData) {
  Inode file = make_file("f", pattern(10'000));
  resize(file, 5000);
  write(file, 7000, "new");
  EXPECT_EQ(read(file), pattern(10'000).substr(0, 5000) + zeros(2000) + "new");
  resize(file, 4097);
  EXPECT_EQ(must(fs_.append(file, as_bytes("!"))), 4097U);
  EXPECT_EQ(read(file), pattern(10'000).substr(0, 4097) + "!");
}

TEST_P(ContentTest, PunchedAndZeroedRangesReadAsZeros) {
  for (AllocateMode mode : {AllocateMode::kPunchHole, AllocateMode::kZeroRange, AllocateMode::kZeroRangeKeepSize}) {
    for (std::uint64_t offset : {0UL, 1UL, 4095UL, 4096UL, 4097UL, 9000UL}) {
      for (std::uint64_t length : {1UL, 4095UL, 4096UL, 4097UL, 8192UL, 50'000UL}) {
        std::string want = pattern(10'000);
        Inode file = make_file("f", want);
        EXPECT_OK(allocate(file, mode, offset, length));
        if (mode == AllocateMode::kZeroRange && offset + length > want.size()) want.resize(offset + length, '\0');
        std::uint64_t end = std::min<std::uint64_t>(offset + length, want.size());
        std::fill_n(want.begin() + static_cast<std::ptrdiff_t>(offset), end - offset, '\0');
        EXPECT_EQ(read(file), want) << offset << " + " << length;
        must(fs_.unlink(kRootInode, "f"));
      }
    }
  }
}

TEST_P(ContentTest, AllocateGrowsAndKeepSizeDoesNot) {
  Inode file = make_file("f", "ab");
  EXPECT_OK(allocate(file, AllocateMode::kKeepSize, 0, 9000));
  EXPECT_EQ(size(file), 2U);
  EXPECT_OK(allocate(file, AllocateMode::kZeroRangeKeepSize, 1, 9000));
  EXPECT_EQ(read(file), "a" + zeros(1));
  EXPECT_OK(allocate(file, AllocateMode::kPunchHole, 100, 9000));
  EXPECT_EQ(size(file), 2U);
  EXPECT_OK(allocate(file, AllocateMode::kAllocate, 1, 1));
  EXPECT_EQ(size(file), 2U);
  EXPECT_OK(allocate(file, AllocateMode::kAllocate, 5000, 5));
  EXPECT_EQ(read(file), "a" + zeros(5004));
  EXPECT_OK(allocate(file, AllocateMode::kZeroRange, 5000, 10));
  EXPECT_EQ(size(file), 5010U);
}

TEST_P(ContentTest, AllocatingNothingIsRefused) {
  Inode file = make_file("f", "ab");
  for (AllocateMode mode : {AllocateMode::kAllocate, AllocateMode::kKeepSize, AllocateMode::kPunchHole,
                            AllocateMode::kZeroRange, AllocateMode::kZeroRangeKeepSize}) {
    EXPECT_EQ(error_of(allocate(file, mode, 0, 0)), Code::kInvalid);
  }
}

TEST_P(ContentTest, DataAndHolesAreFoundChunkByChunk) {
  Inode file = make_file("f");
  write(file, 2 * kChunk + 100, "data");
  write(file, 3 * kChunk, "data");
  resize(file, 6 * kChunk + 10);
  EXPECT_EQ(must(fs_.seek_data(file, 0)), 2 * kChunk);
  EXPECT_EQ(must(fs_.seek_data(file, 2 * kChunk + 7)), 2 * kChunk + 7);
  EXPECT_EQ(must(fs_.seek_hole(file, 0)), 0U);
  EXPECT_EQ(must(fs_.seek_hole(file, 5)), 5U);
  EXPECT_EQ(must(fs_.seek_hole(file, 2 * kChunk + 1)), 4 * kChunk);
  EXPECT_EQ(error_of(fs_.seek_data(file, 4 * kChunk)), Code::kNoData);
  EXPECT_EQ(must(fs_.seek_hole(file, 6 * kChunk)), 6 * kChunk);
}

TEST_P(ContentTest, TheEndCountsAsAHole) {
  Inode file = make_file("f", pattern(5000));
  EXPECT_EQ(must(fs_.seek_hole(file, 0)), 5000U);
  EXPECT_EQ(must(fs_.seek_hole(file, 4999)), 5000U);
  EXPECT_EQ(error_of(fs_.seek_hole(file, 5000)), Code::kNoData);
  EXPECT_EQ(error_of(fs_.seek_data(file, 5000)), Code::kNoData);
  EXPECT_EQ(error_of(fs_.seek_hole(file, UINT64_MAX)), Code::kNoData);
  EXPECT_EQ(error_of(fs_.seek_data(file, UINT64_MAX)), Code::kNoData);
  Inode empty = make_file("empty");
  EXPECT_EQ(error_of(fs_.seek_hole(empty, 0)), Code::kNoData);
  EXPECT_EQ(error_of(fs_.seek_data(empty, 0)), Code::kNoData);
}

TEST_P(ContentTest, WholeChunksThatArePunchedBecomeHoles) {
  Inode file = make_file("f", pattern(4 * kChunk));
  EXPECT_OK(allocate(file, AllocateMode::kPunchHole, kChunk - 1, kChunk + 2));
  EXPECT_EQ(must(fs_.seek_hole(file, 0)), kChunk);
  EXPECT_EQ(must(fs_.seek_data(file, kChunk)), 2 * kChunk);
  EXPECT_OK(allocate(file, AllocateMode::kZeroRange, 0, kChunk));
  EXPECT_EQ(must(fs_.seek_data(file, 0)), 2 * kChunk);
  EXPECT_OK(allocate(file, AllocateMode::kPunchHole, 2 * kChunk + 1, kChunk - 1));
  EXPECT_EQ(must(fs_.seek_data(file, 2 * kChunk)), 2 * kChunk);
}

TEST_P(ContentTest, PunchingUpToTheEndMakesAHoleOfTheLastChunk) {
  Inode file = make_file("f", pattern(kChunk + 100));
  EXPECT_OK(allocate(file, AllocateMode::kPunchHole, kChunk, 100));
  EXPECT_EQ(must(fs_.seek_hole(file, 0)), kChunk);
  EXPECT_EQ(read(file), pattern(kChunk + 100).substr(0, kChunk) + zeros(100));
}

TEST_P(ContentTest, ZerosThatAreWrittenAreData) {
  Inode file = make_file("f", zeros(2 * kChunk));
  EXPECT_EQ(must(fs_.seek_data(file, 0)), 0U);
  EXPECT_EQ(must(fs_.seek_hole(file, 0)), 2 * kChunk);
}

TEST_P(ContentTest, CopyRangeCopiesWhatIsThere) {
  std::string text = pattern(10'000);
  Inode from = make_file("from", text);
  Inode to = make_file("to", pattern(9000, 50));
  EXPECT_EQ(must(fs_.copy_range(from, 100, to, 4090, 5000)), 5000U);
  std::string want = pattern(9000, 50);
  want.resize(9090);
  want.replace(4090, 5000, text.substr(100, 5000));
  EXPECT_EQ(read(to), want);
  EXPECT_EQ(read(from), text);
}

TEST_P(ContentTest, CopyRangeEndsAtTheSourcesEnd) {
  Inode from = make_file("from", pattern(5000));
  Inode to = make_file("to");
  Attributes before = attributes(to);
  tick();
  EXPECT_EQ(must(fs_.copy_range(from, 5000, to, 0, 10)), 0U);
  EXPECT_EQ(must(fs_.copy_range(from, UINT64_MAX, to, 0, 10)), 0U);
  EXPECT_EQ(must(fs_.copy_range(from, 0, to, 0, 0)), 0U);
  EXPECT_EQ(attributes(to), before);
  EXPECT_EQ(must(fs_.copy_range(from, 4000, to, 7000, UINT64_MAX)), 1000U);
  EXPECT_EQ(read(to), zeros(7000) + pattern(5000).substr(4000));
  EXPECT_EQ(attributes(to).mtime, clock_.now());
}

TEST_P(ContentTest, CopiedHolesReadAsZeros) {
  Inode from = make_file("from", "a");
  write(from, 3 * kChunk, "b");
  Inode to = make_file("to", pattern(5 * kChunk));
  EXPECT_EQ(must(fs_.copy_range(from, 0, to, 10, 3 * kChunk + 1)), 3 * kChunk + 1);
  std::string want = pattern(5 * kChunk);
  want.replace(10, 3 * kChunk + 1, "a" + zeros(3 * kChunk - 1) + "b");
  EXPECT_EQ(read(to), want);
}

TEST_P(ContentTest, RangesOfOneFileMustNotOverlap) {
  std::string text = pattern(10'000);
  Inode file = make_file("f", text);
  EXPECT_EQ(error_of(fs_.copy_range(file, 0, file, 99, 100)), Code::kInvalid);
  EXPECT_EQ(error_of(fs_.copy_range(file, 99, file, 0, 100)), Code::kInvalid);
  EXPECT_EQ(error_of(fs_.copy_range(file, 5, file, 5, 1)), Code::kInvalid);
  EXPECT_EQ(read(file), text);
  EXPECT_EQ(must(fs_.copy_range(file, 0, file, 100, 100)), 100U);
  EXPECT_EQ(must(fs_.copy_range(file, 5000, file, 10'000, 5000)), 5000U);
  std::string want = text;
  want.replace(100, 100, text.substr(0, 100));
  EXPECT_EQ(read(file), want + want.substr(5000));
}

TEST_P(ContentTest, OnlyRegularFilesHaveContent) {
  struct Case {
    Inode node;
    Code code;
  };
  Inode file = make_file("f", "x");
  for (Case bad : {Case{make_dir("d"), Code::kIsDirectory}, Case{make_symlink("l", "f"), Code::kInvalid},
                   Case{make_fifo("p"), Code::kInvalid}, Case{Inode{987'654'321}, Code::kStale}}) {
    std::string out(1, '?');
    EXPECT_EQ(error_of(fs_.open(bad.node)), bad.code);
    EXPECT_EQ(error_of(fs_.read(bad.node, 0, as_mutable_bytes(out))), bad.code);
    EXPECT_EQ(error_of(fs_.write(bad.node, 0, as_bytes("x"))), bad.code);
    EXPECT_EQ(error_of(fs_.write(bad.node, 0, {})), bad.code);
    EXPECT_EQ(error_of(fs_.append(bad.node, as_bytes("x"))), bad.code);
    EXPECT_EQ(error_of(allocate(bad.node, AllocateMode::kAllocate, 0, 1)), bad.code);
    EXPECT_EQ(error_of(allocate(bad.node, AllocateMode::kKeepSize, 0, 1)), bad.code);
    EXPECT_EQ(error_of(fs_.seek_data(bad.node, 0)), bad.code);
    EXPECT_EQ(error_of(fs_.seek_hole(bad.node, 0)), bad.code);
    EXPECT_EQ(error_of(fs_.copy_range(bad.node, 0, file, 0, 1)), bad.code);
    EXPECT_EQ(error_of(fs_.copy_range(file, 0, bad.node, 0, 1)), bad.code);
    EXPECT_EQ(error_of(fs_.set_attributes(bad.node, {.size = 0})), bad.code);
  }
}

TEST_P(ContentTest, SyncSucceeds) {
  Inode file = make_file("f", "x");
  EXPECT_OK(fs_.sync(file));
  EXPECT_OK(fs_.sync(kRootInode));
}

WARREN_EACH_FILE_SYSTEM(ContentTest);

}  // namespace
}  // namespace warren::testing
