#include "text/mime.h"

#include <gtest/gtest.h>

namespace warren {
namespace {

using namespace std::string_view_literals;

TEST(Mime, TheBytesDecideAndTheNameSaysWhatKindOfText) {
  EXPECT_EQ(mime_type_of("a.md", "# hello\n"), "text/markdown");
  EXPECT_EQ(mime_type_of("A.MD", ""), "text/markdown");
  EXPECT_EQ(mime_type_of("notes", "hello"), "text/plain");
  EXPECT_EQ(mime_type_of("x.unknown", "hello"), "text/plain");
  EXPECT_EQ(mime_type_of("a.md", "\x89PNG\r\n\x1a\n\0\0"sv), "image/png");
  EXPECT_EQ(mime_type_of("a.txt", "%PDF-1.7\n"), "application/pdf");
  EXPECT_EQ(mime_type_of("a.md", "a\0b"sv), "application/octet-stream");
  EXPECT_EQ(mime_type_of("a.png", "just text"), "text/plain");
  EXPECT_EQ(mime_type_of("a.zip", "PK\x03\x04"), "application/zip");
  EXPECT_EQ(mime_type_of("a.ODT", "PK\x03\x04"), "application/vnd.oasis.opendocument.text");
  EXPECT_EQ(mime_type_of("a.odt", "just text"), "text/plain");
  EXPECT_EQ(mime_type_of("post", "\n <!DOCTYPE HTML><p>"), "text/html");
  EXPECT_EQ(mime_type_of("post", "<html lang=en>"), "text/html");
  EXPECT_EQ(mime_type_of("post.md", "<html>"), "text/markdown");
}

TEST(Mime, TextIsUtf8WithoutNul) {
  EXPECT_TRUE(is_text(""));
  EXPECT_TRUE(
      is_text("gr\xc3\xbc\xc3\x9f"
              "e\n"));
  EXPECT_FALSE(is_text("a\0"sv));
  EXPECT_FALSE(is_text("latin-1: \xfc\n"));
}

TEST(Mime, ACutCharacterAtTheEndOfABeginningIsNoProblem) {
  std::string_view euro = "\xe2\x82\xac";
  std::string_view rocket = "\xf0\x9f\x9a\x80";
  for (std::size_t bytes = 1; bytes < rocket.size(); ++bytes) {
    std::string text = "x" + std::string(rocket.substr(0, bytes));
    EXPECT_FALSE(is_text(text)) << bytes;
    EXPECT_TRUE(is_text(text, Extent::kBeginning)) << bytes;
  }
  EXPECT_TRUE(is_text("x" + std::string(euro), Extent::kBeginning));
  EXPECT_FALSE(is_text("\xff\xff\xff\xff\xff", Extent::kBeginning));
  EXPECT_FALSE(is_text("\x80\x80\x80\x80\x80x", Extent::kBeginning));
}

TEST(Mime, ANameAloneMaySayIt) {
  EXPECT_EQ(mime_type_by_name("a.MD"), "text/markdown");
  EXPECT_EQ(mime_type_by_name("a.jsonl"), mime_type_of("a.jsonl", "{}"));
  EXPECT_EQ(mime_type_by_name("a.png"), "image/png");
  EXPECT_EQ(mime_type_by_name("a.odt"), "application/vnd.oasis.opendocument.text");
  EXPECT_EQ(mime_type_by_name("a.unknown"), "");
  EXPECT_EQ(mime_type_by_name("png"), "");
  EXPECT_EQ(mime_type_of("a", "RIFF\0\0\0\0WAVEfmt "sv), "audio/wav");
}

}  // namespace
}  // namespace warren
