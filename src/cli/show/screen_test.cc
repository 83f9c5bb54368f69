#include "cli/show/screen.h"

#include <gtest/gtest.h>

namespace warren::cli {
namespace {

std::vector<Key> keys_in(std::string bytes) {
  std::vector<Key> keys;
  while (std::optional<Key> key = take_key(bytes, KeyBytes::kAll)) keys.push_back(*key);
  return keys;
}

TEST(Screen, KnowsTheKeysThatTerminalsSend) {
  EXPECT_EQ(keys_in("q \r\t\x03"), (std::vector<Key>{{KeyKind::kText, 'q'},
                                                     {KeyKind::kText, ' '},
                                                     {KeyKind::kEnter, '\0'},
                                                     {KeyKind::kTab, '\0'},
                                                     {KeyKind::kText, '\x03'}}));
  EXPECT_EQ(keys_in("\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[H\x1b[4~"), (std::vector<Key>{{KeyKind::kUp, '\0'},
                                                                                  {KeyKind::kDown, '\0'},
                                                                                  {KeyKind::kPageUp, '\0'},
                                                                                  {KeyKind::kPageDown, '\0'},
                                                                                  {KeyKind::kHome, '\0'},
                                                                                  {KeyKind::kEnd, '\0'}}));
}

TEST(Screen, ALoneEscapeIsAKeyOnceNothingFollows) {
  std::string bytes = "\x1b";
  EXPECT_EQ(take_key(bytes, KeyBytes::kMoreMayFollow), std::nullopt);
  EXPECT_EQ(take_key(bytes, KeyBytes::kAll), (Key{KeyKind::kEscape, '\0'}));
  EXPECT_TRUE(bytes.empty());
}

TEST(Screen, ASequenceThatArrivesInPartsIsOneKey) {
  std::string bytes = "\x1b[";
  EXPECT_EQ(take_key(bytes, KeyBytes::kMoreMayFollow), std::nullopt);
  bytes += "B";
  EXPECT_EQ(take_key(bytes, KeyBytes::kMoreMayFollow), (Key{KeyKind::kDown, '\0'}));
}

TEST(Screen, UnknownKeysAreNeverText) {
  EXPECT_EQ(keys_in("\x1b[200~"), (std::vector<Key>{{KeyKind::kOther, '\0'}}));
  EXPECT_EQ(keys_in("\xc3\xa9"), (std::vector<Key>{{KeyKind::kOther, '\0'}}));
  EXPECT_EQ(keys_in("\x1b[1;5").size(), 1U);
}

TEST(Screen, FitCutsAndFills) {
  EXPECT_EQ(fit("abc", 5), "abc  ");
  EXPECT_EQ(fit("abcdef", 4), "abcd");
  EXPECT_EQ(fit("abcdef", 4, 3), "def ");
  EXPECT_EQ(fit("", 2), "  ");
  EXPECT_EQ(fit("a\tb", 10), "a       b ");
}

TEST(Screen, FitCountsWideCharactersAsTwoColumns) {
  EXPECT_EQ(fit("\xe6\xbc\xa2\xe5\xad\x97", 3), "\xe6\xbc\xa2 ");
  EXPECT_EQ(display_columns("\xe6\xbc\xa2\xe5\xad\x97x"), 5U);
  EXPECT_EQ(display_columns("e\xcc\x81"), 1U);
}

TEST(Screen, FitLetsNothingControlTheTerminal) {
  EXPECT_EQ(fit("\x1b[31mred\n", 16), "\\x1b[31mred\\x0a ");
  EXPECT_EQ(fit("\xff", 4), "\\xff");
}

}  // namespace
}  // namespace warren::cli
