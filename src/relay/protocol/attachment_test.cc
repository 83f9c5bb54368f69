#include "relay/protocol/attachment.h"

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren::relay {
namespace {

using ::warren::testing::error_of;

const std::string kHash(64, 'a');

TEST(Attachment, AReferenceIsAHashAndOptionallyAName) {
  EXPECT_EQ(*parse_attachment("sha256:" + kHash), (Attachment{kHash, ""}));
  EXPECT_EQ(*parse_attachment("SHA256:" + std::string(64, 'A')), (Attachment{kHash, ""}));
  EXPECT_EQ(*parse_attachment("sha256:" + kHash + " a b.txt"), (Attachment{kHash, "a b.txt"}));
  for (const Attachment& one : {Attachment{kHash, ""}, Attachment{kHash, "Ä ö"}}) {
    EXPECT_EQ(*parse_attachment(write_attachment(one)), one);
  }
}

TEST(Attachment, AnInvalidReferenceIsRefused) {
  for (const std::string& bad : {std::string(), std::string("sha256:"), kHash, "sha256:" + kHash.substr(1),
                                 "sha256:" + kHash + "a", "md5:" + kHash, "sha256:" + std::string(64, 'g'),
                                 "sha256:../" + kHash, "sha256:" + kHash + " ", "sha256:" + kHash + "  two"}) {
    EXPECT_EQ(error_of(parse_attachment(bad)), Code::kInvalid) << bad;
  }
}

TEST(Attachment, ANameIsASafeFileName) {
  for (std::string_view good : {"a", "a.txt", "a b", "a..b", "\xff"}) EXPECT_TRUE(is_attachment_name(good)) << good;
  for (std::string_view bad : {"", ".", "..", ".a", "-a", "a/b", "/a", "a\n", "a\tb", " a", "a ", "\x7f"}) {
    EXPECT_FALSE(is_attachment_name(bad)) << bad;
    EXPECT_FALSE(parse_attachment("sha256:" + kHash + " " + std::string(bad)).ok()) << bad;
  }
  EXPECT_TRUE(is_attachment_name(std::string(255, 'a')));
  EXPECT_FALSE(is_attachment_name(std::string(256, 'a')));
}

TEST(Attachment, AMessageMayReferToSixteen) {
  Message message{.to = "bob"};
  EXPECT_TRUE(attachments_of(message)->empty());
  for (std::size_t i = 0; i < kAttachmentCount; ++i) message.others.push_back({"Attachment", "sha256:" + kHash});
  EXPECT_EQ(attachments_of(message)->size(), kAttachmentCount);
  message.others.push_back({"ATTACHMENT", "sha256:" + kHash});
  EXPECT_EQ(error_of(attachments_of(message)), Code::kInvalid);
}

}  // namespace
}  // namespace warren::relay
