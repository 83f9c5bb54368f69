#include "drives/drive_ref.h"

#include <gtest/gtest.h>

#include "drives/uuid.h"
#include "testing/matchers.h"

namespace warren {
namespace {

using testing::error_of;

TEST(DriveRef, ADriveNameIsALowerCaseWord) {
  for (const char* name : {"a", "disk", "google-docs", "my_drive2"}) EXPECT_TRUE(is_drive_name(name)) << name;
  for (const char* name : {"", "Disk", "2x", "-a", "_a", "a b", "a/b", "..", "d\xc3\xacsk", "a%"}) {
    EXPECT_FALSE(is_drive_name(name)) << name;
  }
  EXPECT_TRUE(is_drive_name(std::string(64, 'a')));
  EXPECT_FALSE(is_drive_name(std::string(65, 'a')));
}

TEST(DriveRef, ARefIsADriveAndANormalisedPath) {
  Ref ref = parse_ref("disk:/a//b/./c/").value();
  EXPECT_EQ(ref, (Ref{"disk", "/a/b/c"}));
  EXPECT_EQ(to_string(ref), "disk:/a/b/c");
  EXPECT_EQ(namespace_path(ref), "/context/disk/a/b/c");
  EXPECT_EQ(find_ref_of("/context/disk/a/b/c"), ref);
  EXPECT_EQ(parent_of(ref), (Ref{"disk", "/a/b"}));
  EXPECT_EQ(name_of(ref), "c");
  Ref drive = parse_ref("disk:/").value();
  EXPECT_TRUE(drive.is_drive());
  EXPECT_EQ(namespace_path(drive), "/context/disk");
  EXPECT_EQ(find_ref_of("/context/disk"), drive);
  EXPECT_EQ(parent_of(drive), drive);
  EXPECT_EQ(child_of(drive, "x"), (Ref{"disk", "/x"}));
}

TEST(DriveRef, WhatCannotBeARefIsRefused) {
  for (std::string_view text : {"disk", "disk:a", ":/a", "Disk:/a", "/disk:/a", "http//x", ""}) {
    EXPECT_EQ(error_of(parse_ref(text)), Code::kInvalid) << text;
  }
  EXPECT_EQ(error_of(parse_ref("disk:/a/../b")), Code::kInvalid);
  EXPECT_EQ(error_of(parse_ref("disk:/..")), Code::kInvalid);
  EXPECT_EQ(error_of(make_ref("disk", std::string_view("/a\0b", 4))), Code::kInvalid);
  EXPECT_EQ(error_of(make_ref("disk", "/" + std::string(256, 'x'))), Code::kNameTooLong);
  std::string long_path(5000, 'x');
  for (std::size_t i = 0; i < long_path.size(); i += 100) long_path[i] = '/';
  EXPECT_EQ(error_of(make_ref("disk", long_path)), Code::kNameTooLong);
  EXPECT_EQ(make_ref("disk", "..a/...").value().path, "/..a/...");
}

TEST(DriveRef, ARefOfTheWebShowsBothSlashes) {
  Ref ref = parse_ref("url:/https://example.com/a").value();
  EXPECT_EQ(ref.path, "/https:/example.com/a");
  EXPECT_EQ(to_string(ref), "url:/https://example.com/a");
  EXPECT_EQ(parse_ref(to_string(ref)).value(), ref);
}

TEST(DriveRef, OnlyWhatIsInADriveHasARef) {
  for (std::string_view path : {"/", "/context", "/context/", "/contextual/a", "/mem/x", "/context/Bad/x"}) {
    EXPECT_EQ(find_ref_of(path), std::nullopt) << path;
  }
}

TEST(DriveRef, BelowIsDecidedByWholeNames) {
  Ref top{"disk", "/a"};
  EXPECT_TRUE(is_at_or_below({"disk", "/a"}, top));
  EXPECT_TRUE(is_at_or_below({"disk", "/a/b"}, top));
  EXPECT_FALSE(is_at_or_below({"disk", "/ab"}, top));
  EXPECT_FALSE(is_at_or_below({"url", "/a/b"}, top));
  EXPECT_TRUE(is_at_or_below({"disk", "/x"}, {"disk", "/"}));
}

TEST(Uuid, Version7BeginsWithTheTime) {
  // The example of RFC 9562, appendix A.6.
  UuidRandom random{std::byte{0x0C}, std::byte{0xC3}, std::byte{0x18}, std::byte{0xC4}, std::byte{0xDC},
                    std::byte{0x0C}, std::byte{0x0C}, std::byte{0x07}, std::byte{0x39}, std::byte{0x8F}};
  EXPECT_EQ(make_uuid7({1645557742, 0}, random), "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
  EXPECT_TRUE(looks_like_uuid(make_uuid7({1645557742, 0})));
  EXPECT_NE(make_uuid7({1, 0}), make_uuid7({1, 0}));
  EXPECT_FALSE(looks_like_uuid("017f22e2-79b0-7cc3-98c4-dc0c0c07398"));
  EXPECT_FALSE(looks_like_uuid("017f22e2-79b0-7cc3-98c4_dc0c0c07398f"));
}

}  // namespace
}  // namespace warren
