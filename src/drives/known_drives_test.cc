#include "drives/known_drives.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "testing/matchers.h"

namespace warren {
namespace {

using testing::error_of;

std::string ref_of(std::string_view address) {
  Result<WebItem> item = find_web_item(address);
  return item.ok() ? to_string(item->ref) : std::string(name_of(item.error().code()));
}

TEST(KnownDrives, GithubKeepsOwnerRepositoryBranchOrNumberAndPath) {
  EXPECT_EQ(ref_of("https://github.com/o/r/blob/main/docs/a.md"), "github:/o/r/docs/a.md");
  EXPECT_EQ(ref_of("https://github.com/o/r/blob/dev/docs/a.md?plain=1#L3"), "github:/o/r@dev/docs/a.md");
  EXPECT_EQ(ref_of("https://github.com/o/r/raw/HEAD/a.md"), "github:/o/r/a.md");
  EXPECT_EQ(ref_of("https://raw.githubusercontent.com/o/r/main/a.md"), "github:/o/r/a.md");
  EXPECT_EQ(ref_of("https://raw.githubusercontent.com/o/r/refs/heads/main/a.md"), "github:/o/r/a.md");
  EXPECT_EQ(ref_of("https://github.com/o/r/raw/refs/heads/dev/src/a.cc"), "github:/o/r@dev/src/a.cc");
  EXPECT_EQ(ref_of("https://github.com/o/r/blob/refs/tags/v1/a.cc"), "github:/o/r@v1/a.cc");
  EXPECT_EQ(ref_of("https://github.com/o/r/raw/refs/a.cc"), "github:/o/r@refs/a.cc");
  EXPECT_EQ(find_web_item("https://github.com/o/r/raw/refs/heads/dev/a.cc").value().fetch_url,
            "https://raw.githubusercontent.com/o/r/refs/heads/dev/a.cc");
  EXPECT_EQ(ref_of("https://github.com/o/r/issues/12"), "github:/o/r/issues/12");
  EXPECT_EQ(ref_of("https://github.com/o/r/pull/34/files"), "github:/o/r/pull/34");
  EXPECT_EQ(ref_of("https://github.com/o/r/tree/main/docs"), "github:/o/r/docs");
  WebItem blob = find_web_item("https://github.com/o/r/blob/dev/a.md").value();
  EXPECT_EQ(blob.fetch_url, "https://raw.githubusercontent.com/o/r/dev/a.md");
  EXPECT_EQ(blob.source, "https://github.com/o/r/blob/dev/a.md");
  EXPECT_EQ(find_web_item("https://github.com/o/r/pull/34").value().fetch_url,
            "https://api.github.com/repos/o/r/pulls/34");
  WebItem tree = find_web_item("https://github.com/o/r/tree/main/docs").value();
  EXPECT_EQ(tree.fetch_url, "");
  EXPECT_NE(tree.problem, "");
}

TEST(KnownDrives, OtherPagesOfGithubArePagesOfTheWeb) {
  EXPECT_EQ(ref_of("https://github.com/o/r"), "url:/https://github.com/o/r");
  EXPECT_EQ(ref_of("https://github.com/o/r/issues/new"), "url:/https://github.com/o/r/issues/new");
  EXPECT_EQ(ref_of("https://github.com.evil.example/o/r/blob/main/a"),
            "url:/https://github.com.evil.example/o/r/blob/main/a");
}

TEST(KnownDrives, GoogleDocumentsGoByTheirId) {
  EXPECT_EQ(ref_of("https://docs.google.com/document/d/1AbCDEFGhij_-k/edit#heading=h.1"),
            "google-docs:/1AbCDEFGhij_-k");
  EXPECT_EQ(ref_of("https://docs.google.com/spreadsheets/d/1AbCDEFGhij/edit?gid=0"), "google-docs:/1AbCDEFGhij");
  EXPECT_EQ(ref_of("https://docs.google.com/presentation/d/1AbCDEFGhij/"), "google-docs:/1AbCDEFGhij");
  EXPECT_EQ(ref_of("https://docs.google.com/forms/d/1AbCDEFGhij/"),
            "url:/https://docs.google.com/forms/d/1AbCDEFGhij/index.html");
  EXPECT_EQ(find_web_item("https://docs.google.com/spreadsheets/d/1AbCDEFGhij/edit").value().fetch_url,
            "https://docs.google.com/spreadsheets/d/1AbCDEFGhij/export?format=csv");
}

TEST(KnownDrives, AnythingElseIsItsWholeAddress) {
  EXPECT_EQ(ref_of("HTTPS://Example.COM/Post"), "url:/https://example.com/Post");
  EXPECT_EQ(ref_of("https://example.com"), "url:/https://example.com/index.html");
  EXPECT_EQ(ref_of("https://example.com/a/"), "url:/https://example.com/a/index.html");
  EXPECT_EQ(ref_of("http://example.com:8080/a?x=/b#c"), "url:/http://example.com:8080/a?x=%2Fb");
  EXPECT_EQ(ref_of("https://example.com/a/../../b/%2e%2e/c"), "url:/https://example.com/c");
  EXPECT_EQ(find_web_item("https://example.com/a/").value().fetch_url, "https://example.com/a/");
}

TEST(KnownDrives, ALongAddressStaysApartFromOthers) {
  std::string beginning = "https://example.com/" + std::string(300, 'x');
  std::string first = find_web_item(beginning + "1").value().ref.path;
  std::string second = find_web_item(beginning + "2").value().ref.path;
  EXPECT_NE(first, second);
  EXPECT_LE(first.size(), limits::kNameBytes + 30);
}

TEST(KnownDrives, WhatIsNotAWebAddressIsRefused) {
  for (std::string_view text :
       {"", "example.com", "ftp://example.com", "file:///etc/passwd", "https://", "https:///x", "https://a b/",
        "https://me:secret@example.com/", "https://a/\n", "https://a\\b/", "javascript:https://x"}) {
    EXPECT_EQ(error_of(parse_web_address(text)), Code::kInvalid) << text;
  }
  EXPECT_EQ(error_of(parse_web_address("https://a/" + std::string(9000, 'x'))), Code::kInvalid);
  Result<WebAddress> secret = parse_web_address("https://me:secret@example.com/");
  EXPECT_EQ(secret.error().message().find("secret"), std::string::npos);
}

}  // namespace
}  // namespace warren
