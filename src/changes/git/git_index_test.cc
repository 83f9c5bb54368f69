#include "changes/git/git_index.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace warren {
namespace {

using Names = std::vector<std::string>;

constexpr std::size_t kIdBytes = 20;

std::string big_endian(std::uint32_t value, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) text += static_cast<char>(value >> shift & 0xff);
  return text;
}

// Its name is written as a whole, also in version 4: `cut` bytes of the name before it are cut.
std::string entry(int version, std::string_view name, std::uint32_t stage, std::size_t cut, std::uint32_t flags = 0) {
  std::string text(40 + kIdBytes, 'x');
  text += big_endian(flags | stage << 12 | static_cast<std::uint32_t>(name.size()), 2);
  if ((flags & 0x4000) != 0) text += std::string(2, '\1');
  if (version == 4 && cut > 0x7f) text += static_cast<char>(0x80 | ((cut >> 7) - 1));
  if (version == 4) text += static_cast<char>(cut & 0x7f);
  text.append(name).push_back('\0');
  while (version < 4 && text.size() % 8 != 0) text += '\0';
  return text;
}

std::string index_of(int version, const Names& entries) {
  std::string text = "DIRC" + big_endian(static_cast<std::uint32_t>(version), 4) +
                     big_endian(static_cast<std::uint32_t>(entries.size()), 4);
  for (const std::string& one : entries) text += one;
  return text;
}

std::string sample(int version) {
  std::string lengthy(300, 'l');
  return index_of(version, {entry(version, "a", 0, 0), entry(version, "both", 1, 1), entry(version, "both", 2, 4),
                            entry(version, "both", 3, 4), entry(version, lengthy, 0, 4, 0x4000),
                            entry(version, "ours", 2, lengthy.size()), entry(version, "z", 0, 4)});
}

Names unmerged_in(std::string_view index) {
  Unmerged found = find_unmerged(index, kIdBytes).value();
  EXPECT_EQ(found.count, found.names.size());
  return found.names;
}

TEST(GitIndex, ListsEachUnmergedNameOnce) {
  for (int version : {2, 3, 4}) EXPECT_EQ(unmerged_in(sample(version)), (Names{"both", "ours"})) << version;
  EXPECT_EQ(unmerged_in(index_of(2, {})), Names{});
}

TEST(GitIndex, NamesOfVersion4ContinueTheOneBefore) {
  std::string text = index_of(4, {entry(4, "src/aa", 0, 0), entry(4, "bb", 1, 2), entry(4, "c", 3, 1)});
  EXPECT_EQ(unmerged_in(text), (Names{"src/bb", "src/bc"}));
}

TEST(GitIndex, DamagedTextIsAnError) {
  for (int version : {2, 4}) {
    std::string whole = sample(version);
    std::size_t last_name = whole.find_last_of('z');
    for (std::size_t size = 0; size <= last_name; ++size)
      EXPECT_EQ(find_unmerged(whole.substr(0, size), kIdBytes).error().code(), Code::kCorrupt) << size;
  }
  EXPECT_EQ(find_unmerged(index_of(5, {}), kIdBytes).error().code(), Code::kCorrupt);
  std::string cut_too_much = index_of(4, {entry(4, "a", 0, 0), entry(4, "b", 1, 2)});
  EXPECT_EQ(find_unmerged(cut_too_much, kIdBytes).error().code(), Code::kCorrupt);
}

TEST(GitIndex, ANameThatGrowsBeyondAPathIsAnError) {
  Names grows{entry(4, std::string(1000, 'a'), 1, 0)};
  for (std::size_t bytes = 1000; bytes <= limits::kPathBytes; bytes += 1000) {
    EXPECT_EQ(find_unmerged(index_of(4, grows), kIdBytes).value().count, grows.size());
    grows.push_back(entry(4, std::string(1000, 'a'), 1, 0));
  }
  EXPECT_EQ(find_unmerged(index_of(4, grows), kIdBytes).error().code(), Code::kCorrupt);
}

TEST(GitIndex, OfVeryManyNamesTheFirstAreKeptAndAllAreCounted) {
  Names many{entry(4, "0", 1, 0)};
  for (std::size_t i = 1; i < limits::kUnmergedNames + 5; ++i) {
    std::string before = std::to_string(i - 1);
    many.push_back(entry(4, std::to_string(i), 1, before.size()));
  }
  Unmerged found = find_unmerged(index_of(4, many), kIdBytes).value();
  EXPECT_EQ(found.count, limits::kUnmergedNames + 5);
  EXPECT_EQ(found.names.size(), limits::kUnmergedNames);
}

TEST(GitIndex, WhateverByteIsDamagedTheNamesAreThoseOfPaths) {
  for (int version : {2, 4}) {
    std::string whole = sample(version);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      for (char byte : {'\x00', '\x01', '\x7f', '\xff'}) {
        std::string damaged = whole;
        damaged[at] = byte;
        Result<Unmerged> found = find_unmerged(damaged, kIdBytes);
        if (!found.ok()) EXPECT_EQ(found.error().code(), Code::kCorrupt);
        else
          for (const std::string& name : found->names) EXPECT_LE(name.size(), limits::kPathBytes);
      }
    }
  }
}

}  // namespace
}  // namespace warren
