#include "text/chunker.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace warren {
namespace {

std::string repeated(std::string_view text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

// What every division of any text fulfils.
void expect_sound(std::string_view text, TextShape shape) {
  std::string_view left = text;
  std::size_t last_line = 0;
  for (const TextChunk& chunk : chunk_text(text, shape)) {
    ASSERT_FALSE(chunk.body.empty());
    EXPECT_LE(chunk.body.size(), kChunkTextBytes);
    EXPECT_LE(chunk.heading.size(), kChunkHeadingBytes);
    std::size_t skipped = static_cast<std::size_t>(chunk.body.data() - left.data());
    ASSERT_LE(skipped, left.size());
    EXPECT_EQ(left.substr(0, skipped).find_first_not_of(" \t\r\n"), std::string_view::npos) << "text was left out";
    std::size_t offset = static_cast<std::size_t>(chunk.body.data() - text.data());
    auto before = static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<long>(offset), '\n'));
    EXPECT_EQ(chunk.first_line, before + 1);
    EXPECT_GE(chunk.first_line, last_line);
    EXPECT_GE(chunk.last_line, chunk.first_line);
    last_line = chunk.last_line;
    left.remove_prefix(skipped + chunk.body.size());
  }
  EXPECT_EQ(left.find_first_not_of(" \t\r\n"), std::string_view::npos) << "text was left out";
}

TEST(Chunker, AShortTextIsOneChunkWithItsLines) {
  auto chunks = chunk_text("one\n\ntwo\n", TextShape::kPlain);
  ASSERT_EQ(chunks.size(), 1U);
  EXPECT_EQ(chunks[0].body, "one\n\ntwo\n");
  EXPECT_EQ(chunks[0].first_line, 1U);
  EXPECT_EQ(chunks[0].last_line, 3U);
}

TEST(Chunker, NothingAndWhiteSpaceHaveNoChunks) {
  EXPECT_TRUE(chunk_text("", TextShape::kMarkdown).empty());
  EXPECT_TRUE(chunk_text(" \n\t\r\n\n", TextShape::kPlain).empty());
}

TEST(Chunker, AChunkOfMarkdownEndsWhereASectionBegins) {
  std::string text = "# Guide\n\n" + repeated("Some words about it. ", 20) + "\n\n## Linux\n\n" +
                     repeated("Use apt. ", 40) + "\n\n## Windows\n\nNot supported.\n";
  auto chunks = chunk_text(text, TextShape::kMarkdown);
  ASSERT_EQ(chunks.size(), 3U);
  EXPECT_EQ(chunks[0].heading, "Guide");
  EXPECT_EQ(chunks[1].heading, "Guide > Linux");
  EXPECT_TRUE(chunks[1].body.starts_with("## Linux"));
  EXPECT_EQ(chunks[2].heading, "Guide > Windows");
  EXPECT_EQ(chunks[2].first_line, 9U);
  expect_sound(text, TextShape::kMarkdown);
}

TEST(Chunker, ShortSectionsShareAChunk) {
  auto chunks = chunk_text("# A\n\nx\n\n## B\n\ny\n\n## C\n\nz\n", TextShape::kMarkdown);
  ASSERT_EQ(chunks.size(), 1U);
  EXPECT_EQ(chunks[0].heading, "A");
}

TEST(Chunker, AHeadingStaysWithWhatFollowsIt) {
  std::string text = "# Title\n\n## Part\n\n" + repeated(repeated("word ", 20) + "\n", 30);
  auto chunks = chunk_text(text, TextShape::kMarkdown);
  ASSERT_GT(chunks.size(), 2U);
  EXPECT_TRUE(chunks[0].body.starts_with("# Title\n\n## Part\n\nword"));
  for (const TextChunk& chunk : chunks) EXPECT_EQ(chunk.heading, "Title > Part");
  expect_sound(text, TextShape::kMarkdown);
}

TEST(Chunker, UnderlinedHeadingsCount) {
  std::string text = "Title\n=====\n\n" + repeated("word ", 80) + "\n\nPart\n----\n\nmore\n";
  auto chunks = chunk_text(text, TextShape::kMarkdown);
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_EQ(chunks[1].heading, "Title > Part");
}

TEST(Chunker, AHashInACodeBlockIsNoHeading) {
  auto chunks =
      chunk_text("# A\n\n" + repeated("text ", 80) + "\n\n```sh\n# not a heading\nls\n```\n", TextShape::kMarkdown);
  for (const TextChunk& chunk : chunks) EXPECT_EQ(chunk.heading, "A");
}

TEST(Chunker, AFunctionIsNotDivided) {
  std::string function = "int f() {\n" + repeated("  call_something(1, 2, 3);\n", 20) + "}\n";
  std::string text = function + "\n" + function + "\n" + function;
  auto chunks = chunk_text(text, TextShape::kCode);
  ASSERT_EQ(chunks.size(), 3U);
  for (const TextChunk& chunk : chunks) EXPECT_TRUE(chunk.body.starts_with("int f() {"));
  expect_sound(text, TextShape::kCode);
}

TEST(Chunker, PartsOfALongFunctionNameIt) {
  std::string text = "def work(self):\n" + repeated("    step()\n", 300);
  auto chunks = chunk_text(text, TextShape::kCode);
  ASSERT_GT(chunks.size(), 2U);
  EXPECT_EQ(chunks[0].heading, "");
  EXPECT_EQ(chunks[1].heading, "def work(self):");
  expect_sound(text, TextShape::kCode);
}

TEST(Chunker, ALineOfAMegabyteIsDividedBetweenWordsAndCharacters) {
  std::string words = repeated("wörter ", 150'000);
  auto chunks = chunk_text(words, TextShape::kPlain);
  ASSERT_GT(chunks.size(), 1000U);
  for (const TextChunk& chunk : chunks) {
    EXPECT_TRUE(is_utf8(chunk.body));
    EXPECT_EQ(chunk.first_line, 1U);
    EXPECT_EQ(chunk.last_line, 1U);
  }
  expect_sound(words, TextShape::kPlain);
  std::string characters = repeated("\xE6\x97\xA5", 5000);  // no blank at all
  for (const TextChunk& chunk : chunk_text(characters, TextShape::kPlain)) EXPECT_TRUE(is_utf8(chunk.body));
  expect_sound(characters, TextShape::kPlain);
}

TEST(Chunker, AnyBytesAreDividedCompletely) {
  std::string crlf = repeated("# Head\r\n\r\nsome words here\r\n", 200);
  std::string invalid = repeated("\xFF\x80\x80\x80\x80 a\n", 2000) + repeated("\x80", 5000);
  std::string fences = repeated("```\n", 999) + repeated("#\n##\n---\n===\n", 500);
  for (TextShape shape : {TextShape::kPlain, TextShape::kMarkdown, TextShape::kCode}) {
    expect_sound(crlf, shape);
    expect_sound(invalid, shape);
    expect_sound(fences, shape);
    expect_sound("no line end", shape);
    expect_sound("---\nnot: ended\n", shape);
    expect_sound(std::string(3, '\0') + "\n" + std::string(5000, '}'), shape);
  }
}

TEST(Chunker, CutsOnlyBetweenCharacters) {
  EXPECT_EQ(cut_utf8("a\xC3\xA4", 2), "a");
  EXPECT_EQ(cut_utf8("a\xC3\xA4", 3), "a\xC3\xA4");
  EXPECT_EQ(cut_utf8("\xF0\x9F\x98\x80x", 3).size(), 3U);  // not even one character fits: then bytes
  EXPECT_EQ(cut_utf8("\x80\x80\x80\x80\x80\x80", 5).size(), 5U);
}

TEST(Chunker, KnowsTheShapeByTheName) {
  EXPECT_EQ(shape_of_name("README.MD"), TextShape::kMarkdown);
  EXPECT_EQ(shape_of_name("a.cc"), TextShape::kCode);
  EXPECT_EQ(shape_of_name("notes"), TextShape::kPlain);
}

}  // namespace
}  // namespace warren
