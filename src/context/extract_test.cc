#include "context/extract.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace warren {
namespace {

std::string text_or(std::string_view bytes, std::string_view path = "/a.txt") {
  std::optional<ExtractedText> text = text_of(path, as_bytes(bytes));
  return text ? text->text : "(none)";
}

TEST(Extract, ReadsTheUsualEncodings) {
  EXPECT_EQ(text_or("gr\xC3\xBC\xC3\x9F"), "grüß");
  EXPECT_EQ(text_or("\xEF\xBB\xBFwith mark"), "with mark");
  EXPECT_EQ(text_or(std::string("\xFF\xFEg\0\xFC\0\n\0", 8)), "gü\n");
  EXPECT_EQ(text_or(std::string("\xFE\xFF\0g\0\xFC", 6)), "gü");
  EXPECT_EQ(text_or(std::string("\xFF\xFE\x3D\xD8\x00\xDE", 6)), "😀");
  EXPECT_EQ(text_or(std::string("\xFF\xFE\x3D\xD8x\0", 6)), "(none)");  // half of a character
  EXPECT_EQ(text_or("a text with gr\xFC\xDF and \x93quotes\x94"), "a text with grüß and “quotes”");
  EXPECT_EQ(text_or(""), "");
}

TEST(Extract, BinaryFilesHaveNoText) {
  EXPECT_EQ(text_or(std::string("\x7F"
                                "ELF\0\1",
                                6)),
            "(none)");
  EXPECT_EQ(text_or("\x89PNG\r\n\x1A\n\x01\x02"), "(none)");
  EXPECT_EQ(text_or(std::string(100, '\xE9')), "(none)");
}

TEST(Extract, OfAnItemOfSemanticMemoryOnlyTheText) {
  std::string item = R"({"text": "birds fly", "embedding": [0.1, 0.2], "metadata": {}})";
  EXPECT_EQ(text_or(item, "/mem/semantic/a.json"), "birds fly");
  EXPECT_EQ(text_or(item, "/notes/a.json"), item);
  EXPECT_EQ(text_or("{broken", "/mem/semantic/a.json"), "{broken");
}

TEST(Extract, AnyBytesHaveAnAnswerInUtf8) {
  std::string seed = "\xFF\xFE text \xC3\xA4 and more \x80\x81 {\"text\": 1}";
  for (unsigned i = 0; i < 5000; ++i) {
    for (std::size_t at = 0; at < seed.size(); ++at) {
      if ((i * 2654435761U + at * 40503U) % 7 == 0) seed[at] = static_cast<char>(i * 31 + at * 17);
    }
    std::optional<ExtractedText> text = text_of("/mem/semantic/x.json", as_bytes(seed));
    EXPECT_TRUE(!text || is_utf8(text->text));
  }
}

TEST(Extract, KnowsTypesByBytesAndName) {
  auto type = [](std::string_view path, std::string_view bytes) {
    return indexed_type_of(path, bytes, text_of(path, as_bytes(bytes)));
  };
  EXPECT_EQ(type("/a/README.MD", "# hello"), "text/markdown");
  EXPECT_EQ(type("/a/latin.md", "gr\xFCn is green"), "text/markdown");
  EXPECT_EQ(type("/a.d/file", "hello"), "text/plain");
  EXPECT_EQ(type("/x.unknown", std::string_view("\0\1", 2)), "application/octet-stream");
  EXPECT_EQ(type("/a.md", "\x89PNG\r\n\x1A\n\x01"), "image/png");
}

TEST(Extract, APageOnADriveIsWhatItSaysAndElsewhereItsSource) {
  std::string page = "<html><head><title>T</title></head><body><h1>Head</h1><p>one <b>two</b></p></body></html>";
  EXPECT_EQ(text_of("/context/url/https:/example.com/index.html", as_bytes(page))->text, "# Head\n\none two\n");
  EXPECT_EQ(text_of("/context/url/https:/example.com/post", as_bytes(page))->text, "# Head\n\none two\n");
  EXPECT_EQ(text_of("/src/index.html", as_bytes(page))->text, page);
}

TEST(Extract, ADamagedPdfIsNoReasonToStop) {
  std::string damaged = "%PDF-1.4\n1 0 obj<</Type/Cat";
  std::optional<ExtractedText> text = text_of("/a.pdf", as_bytes(damaged));
  if (text) {
    EXPECT_EQ(text->text, damaged);
  }
}

}  // namespace
}  // namespace warren
