#include "changes/git/git_index.h"

#include <gtest/gtest.h>

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

TEST(GitIndex, ListsEachUnmergedNameOnce) {
  for (int version : {2, 3, 4})
    EXPECT_EQ(*list_unmerged(sample(version), kIdBytes), (Names{"both", "ours"})) << version;
  EXPECT_EQ(*list_unmerged(index_of(2, {}), kIdBytes), Names{});
}

TEST(GitIndex, NamesOfVersion4ContinueTheOneBefore) {
  std::string text = index_of(4, {entry(4, "src/aa", 0, 0), entry(4, "bb", 1, 2), entry(4, "c", 3, 1)});
  EXPECT_EQ(*list_unmerged(text, kIdBytes), (Names{"src/bb", "src/bc"}));
}

TEST(GitIndex, DamagedTextIsAnError) {
  for (int version : {2, 4}) {
    std::string whole = sample(version);
    std::size_t last_name = whole.find_last_of('z');
    for (std::size_t size = 0; size <= last_name; ++size)
      EXPECT_EQ(list_unmerged(whole.substr(0, size), kIdBytes).error().code(), Code::kCorrupt) << size;
  }
  EXPECT_EQ(list_unmerged(index_of(5, {}), kIdBytes).error().code(), Code::kCorrupt);
  std::string cut_too_much = index_of(4, {entry(4, "a", 0, 0), entry(4, "b", 1, 2)});
  EXPECT_EQ(list_unmerged(cut_too_much, kIdBytes).error().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace warren
