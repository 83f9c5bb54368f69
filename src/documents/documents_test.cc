#include <cstdlib>

#include <gtest/gtest.h>

#include "documents/content_type.h"
#include "documents/document_text.h"
#include "documents/encoding.h"
#include "os/files/host_files.h"
#include "testing/matchers.h"
#include "testing/mutations.h"
#include "testing/temp_dir.h"
#include "text/mime.h"

namespace warren {
namespace {

using namespace std::string_view_literals;

// A ZIP archive with one member that is stored as it is.
std::string stored_zip(std::string_view name, std::string_view content, std::uint32_t crc) {
  auto number = [](std::uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
    return text;
  };
  std::string sizes = number(crc, 4) + number(content.size(), 4) + number(content.size(), 4) + number(name.size(), 2);
  std::string local = "PK\x03\x04" + number(20, 2) + number(0, 8) + sizes + number(0, 2) + std::string(name);
  std::string central = "PK\x01\x02" + number(20, 2) + number(20, 2) + number(0, 8) + sizes + number(0, 12) +
                        number(0, 4) + std::string(name);
  std::string body = local + std::string(content);
  return body + central + "PK\x05\x06" + number(0, 4) + number(1, 2) + number(1, 2) + number(central.size(), 4) +
         number(body.size(), 4) + number(0, 2);
}

constexpr std::string_view kOpenDocument = "application/vnd.oasis.opendocument.text";

TEST(Encoding, TextInKnownEncodingsBecomesUtf8) {
  EXPECT_EQ(decode_text("gr\xc3\xbcn"), "gr\xc3\xbcn");
  EXPECT_EQ(decode_text("\xef\xbb\xbfgr\xc3\xbcn"), "gr\xc3\xbcn");
  EXPECT_EQ(decode_text("gr\xfcn"), "gr\xc3\xbcn");
  EXPECT_EQ(decode_text("\xff\xfeg\0\xfc\0"sv), "g\xc3\xbc");
  EXPECT_EQ(decode_text("\xfe\xff\0g\0\xfc"sv), "g\xc3\xbc");
  EXPECT_EQ(decode_text("\x83\x65\x83\x58\x83\x67", "shift_jis"), "\xe3\x83\x86\xe3\x82\xb9\xe3\x83\x88");
  EXPECT_EQ(decode_text(""), "");
}

// As bytes in old encodings.
constexpr std::string_view kRussian = "Привет, мир. Это обычный русский текст в старой кодировке.";
constexpr std::string_view kRussianKoi8 =
    "\360\322\311\327\305\324, \315\311\322. \374\324\317 \317\302\331\336\316\331\312 \322\325\323\323\313\311\312 "
    "\324\305\313\323\324 \327 \323\324\301\322\317\312 \313\317\304\311\322\317\327\313\305.";
constexpr std::string_view kJapanese = "これは日本語のテキストです。文字コードを調べます。";
constexpr std::string_view kJapaneseShiftJis =
    "\202\261\202\352\202\315\223\372\226{"
    "\214\352\202\314\203e\203L\203X\203g\202\305\202\267\201B\225\266\216\232\203R\201["
    "\203h\202\360\222\262\202\327\202\334\202\267\201B";

TEST(Encoding, ShortWesternTextIsNotTakenForAnotherLatinAlphabet) {
  constexpr std::string_view kDutch =
      "Ge\xefnteresseerd? Bel onze co\xf6rdinator in Belgi\xeb. Re\xfcnie, idee\xebn, na\xefviteit";
  EXPECT_EQ(decode_text(kDutch), "Geïnteresseerd? Bel onze coördinator in België. Reünie, ideeën, naïviteit");
}

TEST(Encoding, TheAlphabetOfUndeclaredTextIsRecognised) {
  EXPECT_EQ(decode_text(kRussianKoi8), kRussian);
  EXPECT_EQ(decode_text(kJapaneseShiftJis), kJapanese);
  EXPECT_EQ(decode_text("C:\\x " + std::string(kJapaneseShiftJis)), "C:\\x " + std::string(kJapanese));
  std::string french =
      "Voil\xe0 une phrase fran\xe7"
      "aise, tr\xe8s \xe0 propos, \xe9t\xe9 comme hiver";
  EXPECT_EQ(decode_text(french), "Voilà une phrase française, très à propos, été comme hiver");
}

TEST(Encoding, WhatATextDeclaresIsObeyed) {
  auto in_russian = [](std::string_view before) { return std::string(before) + std::string(kRussian); };
  for (std::string_view before :
       {"<!doctype html><meta charset=\"koi8-r\"><title>",
        "<META http-equiv=Content-Type content='text/html; charset=KOI8-R'>",
        "<?xml version=\"1.0\" encoding='koi8-r'?>\n<a>", "<html><meta name=x content=y><meta charset = koi8-r ><p>"}) {
    EXPECT_EQ(decode_text(std::string(before) + std::string(kRussianKoi8)), in_russian(before));
  }
  // Too short to be recognised, so only the declaration can say it.
  EXPECT_EQ(decode_text("<meta charset=koi8-r>\xcd\xc9\xd2"), "<meta charset=koi8-r>мир");
  EXPECT_EQ(declared_charset("print('<meta charset=koi8-r>')"), "");
  EXPECT_EQ(declared_charset("<meta charset=utf-16>"), "");
  EXPECT_EQ(declared_charset("<meta charset"), "");
}

TEST(Encoding, WhatIsNotTextIsNotGuessedAt) {
  EXPECT_EQ(decode_text("\x89PNG\r\n\x1a\n\0\0"sv), std::nullopt);
  EXPECT_EQ(decode_text("\xff\xfe\x00\xd8"sv), std::nullopt);  // half of a pair
  EXPECT_EQ(decode_text("a\0b"sv), std::nullopt);
  std::string nothing;
  for (int i = 0; i < 20; ++i) nothing += "\x81\x8d\x8f\x90\x9d";  // letters of no alphabet in a row
  EXPECT_EQ(decode_text(nothing), std::nullopt);
}

TEST(Encoding, ANameOfAnEncodingIsNotACommand) {
  for (std::string_view name : {""sv, "../x"sv, "utf-8//IGNORE"sv, "no such"sv, "x\0y"sv, "%s"sv}) {
    EXPECT_EQ(convert_to_utf8("abc", name), std::nullopt) << name;
  }
  EXPECT_EQ(decode_text("gr\xfcn", "no-such-charset"), "gr\xc3\xbcn");
}

TEST(Html, APageIsItsTitleAndItsTextWithHeadingsAndLists) {
  DocumentText page = html_text(R"(<!doctype html><html><head><title> A
      page </title><style>p {}</style></head><body><h1>Hello</h1><p>one   <b>two</b>
      three<script>alert(1)</script></p><ul><li>first<li>second</ul><pre>a
  b</pre><table><tr><td>x<td>y</table><img alt="a cat"><!-- no --><h3>End</h3></body>)")
                          .value();
  EXPECT_EQ(page.title, "A page");
  EXPECT_EQ(page.text, "# Hello\n\none two three\n\n- first\n- second\n\na\n  b\n\nx y\n\na cat\n\n### End\n");
}

TEST(Html, EntitiesAndEncodingsAreResolved) {
  EXPECT_EQ(html_text("<p>a&amp;b &lt;c&gt; &euro; &#228;</p>").value().text, "a&b <c> \xe2\x82\xac \xc3\xa4\n");
  EXPECT_EQ(html_text("<meta charset=iso-8859-1><p>gr\xfcn").value().text, "gr\xc3\xbcn\n");
  EXPECT_EQ(html_text("<meta charset=utf-8><p>gr\xc3\xbcn").value().text, "gr\xc3\xbcn\n");
}

TEST(Html, EntitiesOfDocumentTypesAreNotExpanded) {
  std::string bomb =
      "<!DOCTYPE html [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\"><!ENTITY x SYSTEM "
      "\"file:///etc/passwd\">]><p>&b;&x;</p>";
  std::string text = html_text(bomb).value().text;
  EXPECT_EQ(text.find("aaaaaaaaaaaaaaa"), std::string::npos) << text;
  EXPECT_EQ(text.find("root:"), std::string::npos) << text;
}

TEST(Html, DeepAndBrokenPagesAreSurvived) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<div>";
  EXPECT_OK(html_text(deep + "x"));
  for (std::string_view page : {"", "<", "<!", "</", "<a", "&", "&#x;", "<p><p></b>", "\xff\xfe", "<title>"}) {
    Result<DocumentText> text = html_text(page);
    if (text.ok()) {
      EXPECT_TRUE(is_text(text->text));
    }
  }
}

TEST(Html, MutatedPagesGiveTextOrAnError) {
  std::string page = "<html><head><title>T</title></head><body><h1>a</h1><p>b &amp; c<ul><li>d</ul><pre>e</pre>";
  testing::Mutations mutations(1);
  for (int i = 0; i < 3000; ++i) {
    Result<DocumentText> text = html_text(mutations.of(page));
    if (text.ok()) {
      EXPECT_TRUE(is_text(text->text));
    }
  }
}

TEST(ContentType, TheBytesDecide) {
  auto types = ContentTypes::open().value();
  EXPECT_EQ(types->type_of("a.md", "# hello\n"), "text/markdown");
  EXPECT_EQ(types->type_of("a.txt", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR"sv), "image/png");
  EXPECT_EQ(types->type_of("a.md", "%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"), "application/pdf");
  EXPECT_EQ(types->type_of("page", "<!DOCTYPE html><html><head><title>x</title></head><body></body></html>"),
            "text/html");
  EXPECT_EQ(types->type_of("empty", ""), "text/plain");
  EXPECT_EQ(types->type_of("a.zip", stored_zip("x", "y", 0)), "application/zip");
  EXPECT_EQ(types->type_of("a.odt", stored_zip("x", "y", 0)), kOpenDocument);
  EXPECT_EQ(types->type_of("a.py", "import os\n"), "text/x-python");
}

// One page with the text "Hello PDF".
std::string small_pdf() {
  return "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
         "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources<</Font<</F1 5 0 "
         "R>>>>>>endobj\n"
         "4 0 obj<</Length 42>>stream\nBT /F1 24 Tf 20 100 Td (Hello PDF) Tj ET  \nendstream endobj\n"
         "5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n";
}

TEST(Pdf, ItsTextIsTakenOutByAnotherProcess) {
  Result<DocumentText> text = pdf_text(small_pdf());
  ASSERT_OK(text);
  EXPECT_NE(text->text.find("Hello PDF"), std::string::npos) << text->text;
  EXPECT_EQ(extract_text("application/pdf", small_pdf()).value()->text, text->text);
}

// The document reaches no disk, and the program that reads it nothing else (os/processes/confined_test.cc).
TEST(Pdf, ItIsReadFromMemory) {
  ::setenv("TMPDIR", "/no/such/directory", 1);
  Result<DocumentText> text = pdf_text(small_pdf());
  ::unsetenv("TMPDIR");
  ASSERT_OK(text);
  EXPECT_NE(text->text.find("Hello"), std::string::npos) << text->text;
}

TEST(Pdf, ADamagedOneIsAnErrorOrText) {
  testing::Mutations mutations(2);
  for (int i = 0; i < 100; ++i) {
    Result<DocumentText> text = pdf_text(mutations.of(small_pdf()));
    if (text.ok()) {
      EXPECT_TRUE(is_text(text->text));
    }
  }
  EXPECT_FALSE(pdf_text("not a pdf").ok());
}

TEST(Office, TheTextOfADocumentIsTakenOut) {
  std::string xml =
      "<?xml version=\"1.0\"?><o:d xmlns:o=\"o\" xmlns:t=\"t\"><t:h>Head</t:h><t:p>one "
      "<t:span>two</t:span></t:p></o:d>";
  Result<DocumentText> text = office_text(kOpenDocument, stored_zip("content.xml", xml, 0x98F846A1));
  ASSERT_OK(text);
  EXPECT_EQ(text->text, "Head\none two\n");
}

TEST(Office, ADamagedOneIsAnErrorOrText) {
  testing::Mutations mutations(3);
  std::string archive = stored_zip("content.xml", "<?xml version=\"1.0\"?><a>x</a>", 0);
  for (int i = 0; i < 20; ++i) {
    Result<DocumentText> text = office_text(kOpenDocument, mutations.of(archive));
    if (text.ok()) {
      EXPECT_TRUE(is_text(text->text));
    }
  }
  EXPECT_FALSE(office_text(kOpenDocument, "not an archive").ok());
}

TEST(DocumentText, OtherKindsHaveNone) {
  EXPECT_EQ(extract_text("image/png", "x").value().has_value(), false);
  EXPECT_EQ(extract_text("text/plain", "x").value().has_value(), false);
}

}  // namespace
}  // namespace warren
