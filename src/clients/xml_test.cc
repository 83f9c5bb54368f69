#include "clients/xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren {
namespace {

using testing::error_of;

TEST(Xml, ADocumentIsATree) {
  XmlElement root = parse_xml(
                        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<List xmlns=\"http://x/\">"
                        "<Name>a&amp;b &#228;</Name><s:Item><Key>1</Key></s:Item><Item/><![CDATA[<raw>]]></List>")
                        .value();
  EXPECT_EQ(root.name, "List");
  EXPECT_EQ(root.text_of("Name"), "a&b \xC3\xA4");
  ASSERT_EQ(root.children.size(), 3U);
  EXPECT_EQ(root.find("Item")->text_of("Key"), "1");
  EXPECT_EQ(root.text_of("Missing"), "");
  EXPECT_EQ(root.text, "<raw>");
}

TEST(Xml, ADamagedDocumentIsRefused) {
  for (const char* text : {"", " ", "no xml", "<a>", "<a></b>", "<a/><b/>", "<a>&undefined;</a>", "<a>\x01</a>",
                           "<a>\xff</a>", "<a b=c/>", "{\"json\": 1}", "<!doctype html><html><body></html>"}) {
    EXPECT_EQ(error_of(parse_xml(text)), Code::kCorrupt) << text;
  }
}

TEST(Xml, EntitiesOfItsOwnAreRefused) {
  Result<XmlElement> laughs = parse_xml(
      "<!DOCTYPE a [<!ENTITY b \"ha\"><!ENTITY c \"&b;&b;&b;&b;&b;&b;&b;&b;\"><!ENTITY d \"&c;&c;&c;&c;&c;&c;&c;\">]>"
      "<a>&d;</a>");
  ASSERT_EQ(error_of(laughs), Code::kCorrupt);
  EXPECT_THAT(laughs.error().message(), ::testing::HasSubstr("document type"));
  EXPECT_EQ(error_of(parse_xml("<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>")), Code::kCorrupt);
}

TEST(Xml, DepthAndNumberAreLimited) {
  auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "<a>";
    for (int i = 0; i < depth; ++i) text += "</a>";
    return text;
  };
  EXPECT_OK(parse_xml(nested(30)));
  EXPECT_EQ(error_of(parse_xml(nested(100'000))), Code::kCorrupt);
  std::string many = "<a>";
  for (int i = 0; i < 200'001; ++i) many += "<b/>";
  EXPECT_EQ(error_of(parse_xml(many + "</a>")), Code::kCorrupt);
}

TEST(Xml, WhatIsEscapedIsParsedBack) {
  std::string text = "a<b>&\"'\r\n\t\xC3\xA4]]>";
  XmlElement root = parse_xml("<a>" + escape_xml(text).value() + "</a>").value();
  EXPECT_EQ(root.text, text);
  EXPECT_EQ(error_of(escape_xml("\x01")), Code::kInvalid);
  EXPECT_EQ(error_of(escape_xml("\xff")), Code::kInvalid);
  EXPECT_EQ(error_of(escape_xml("\xEF\xBF\xBF")), Code::kInvalid);
}

}  // namespace
}  // namespace warren
