#include "fs/memory/sparse_bytes.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

std::string all_of(const SparseBytes& bytes) {
  std::string out(bytes.size(), '?');
  EXPECT_EQ(bytes.read(0, as_mutable_bytes(out)), bytes.size());
  return out;
}

TEST(SparseBytes, WhatIsWrittenReadsBackAndHolesAreZeros) {
  SparseBytes bytes(4);
  bytes.write(3, as_bytes("abcdef"));
  EXPECT_EQ(bytes.size(), 9U);
  EXPECT_EQ(all_of(bytes), std::string("\0\0\0abcdef", 9));
  bytes.write(12, as_bytes("z"));
  EXPECT_EQ(all_of(bytes), std::string("\0\0\0abcdef\0\0\0z", 13));
}

TEST(SparseBytes, AChunkThatIsZeroedWholeBecomesAHole) {
  SparseBytes bytes(4);
  bytes.write(0, as_bytes("abcdefghij"));
  bytes.zero(3, 5);
  EXPECT_EQ(all_of(bytes), std::string("abc\0\0\0\0\0ij", 10));
  EXPECT_EQ(bytes.find_hole(0), 4U);
  EXPECT_EQ(bytes.find_data(4), 8U);
  bytes.zero(8, 2);
  EXPECT_EQ(bytes.find_data(4), std::nullopt);
  EXPECT_EQ(bytes.stored_bytes(), 4U);
}

TEST(SparseBytes, WhatWasCutOffDoesNotComeBack) {
  SparseBytes bytes(4);
  bytes.write(0, as_bytes("abcdefgh"));
  bytes.resize(5);
  bytes.resize(8);
  EXPECT_EQ(all_of(bytes), std::string("abcde\0\0\0", 8));
  bytes.resize(4);
  EXPECT_EQ(bytes.stored_bytes(), 4U);
}

TEST(SparseBytes, TheEndCountsAsAHole) {
  SparseBytes bytes(4);
  bytes.write(0, as_bytes("abcdef"));
  EXPECT_EQ(bytes.find_hole(0), 6U);
  EXPECT_EQ(bytes.find_hole(6), std::nullopt);
  EXPECT_EQ(bytes.find_data(6), std::nullopt);
}

}  // namespace
}  // namespace warren
