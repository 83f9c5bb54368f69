#include "backends/vector/vector_blobs.h"

#include <gtest/gtest.h>

#include "backends/vector/memory_vectors.h"
#include "testing/matchers.h"

namespace warren {
namespace {

using testing::error_of;

constexpr std::string_view kItem = R"({"text":"t","embedding":[0.1,2.0],"metadata":{"n":1}})";

TEST(VectorBlobs, AnItemIsAValue) {
  VectorBlobs blobs(std::make_unique<MemoryVectors>());
  auto info = blobs.put("a/b.json", as_bytes(kItem), {});
  ASSERT_OK(info);
  EXPECT_EQ(info->size, kItem.size());
  auto got = blobs.get("a/b.json");
  ASSERT_OK(got);
  EXPECT_EQ((**got).content, kItem);
  EXPECT_EQ((**got).info.version, info->version);
  EXPECT_EQ((**blobs.get_range("a/b.json", 2, 4)).content, "text");
  EXPECT_TRUE(*blobs.remove("a/b.json"));
  EXPECT_FALSE(*blobs.remove("a/b.json"));
  EXPECT_FALSE((*blobs.get("a/b.json")).has_value());
}

TEST(VectorBlobs, WhatIsNotAnItemIsRefused) {
  VectorBlobs blobs(std::make_unique<MemoryVectors>());
  auto put = [&](std::string_view key, std::string_view content, const PutOptions& options = {}) {
    return error_of(blobs.put(key, as_bytes(content), options));
  };
  EXPECT_EQ(put("a.txt", kItem), Code::kInvalid);
  EXPECT_EQ(put(".json", kItem), Code::kInvalid);
  EXPECT_EQ(put("a.json", "{"), Code::kInvalid);
  EXPECT_EQ(put("a.json", R"({"embedding": [1], "more": 1})"), Code::kInvalid);  // would be lost
  EXPECT_EQ(put("a.json", kItem, {.if_absent = true}), Code::kUnsupported);
  EXPECT_FALSE((*blobs.get("a.txt")).has_value());
  EXPECT_FALSE(*blobs.remove("a.txt"));
}

TEST(VectorBlobs, AValueWithoutContentWaitsForItHere) {
  VectorBlobs blobs(std::make_unique<MemoryVectors>());
  for (std::string_view key : {"a/.warren-dir", "a/new.json", "a/plain.txt"}) {
    ASSERT_OK(blobs.put(key, {}, {}));
    ASSERT_TRUE(blobs.get(key)->has_value()) << key;
    EXPECT_EQ((**blobs.find(key)).size, 0U);
  }
  EXPECT_EQ(blobs.list({.by_folder = true})->folders, std::vector<std::string>{"a/"});
  EXPECT_EQ(*blobs.index().count(), 0U);
  ASSERT_OK(blobs.put("a/new.json", as_bytes(kItem), {}));
  EXPECT_EQ(blobs.list({.prefix = "a/new"})->blobs.size(), 1U);
  EXPECT_EQ(error_of(blobs.put("a/new.json", {}, {})), Code::kInvalid) << "an item does not become empty";
  EXPECT_EQ(error_of(blobs.put("a/plain.txt", as_bytes(kItem), {})), Code::kInvalid);
  for (std::string_view key : {"a/.warren-dir", "a/new.json", "a/plain.txt"}) {
    EXPECT_TRUE(*blobs.remove(key)) << key;
    EXPECT_FALSE(blobs.get(key)->has_value()) << key;
  }
  EXPECT_TRUE(blobs.list({})->blobs.empty());
}

TEST(VectorBlobs, KeysAreListedInTheirOrder) {
  VectorBlobs blobs(std::make_unique<MemoryVectors>());
  for (std::string_view key : {"a.json", "a.b.json", "a/x.json", "a/y/z.json", "b.json"}) {
    ASSERT_OK(blobs.put(key, as_bytes(kItem), {}));
  }
  auto keys = [&](const ListOptions& options) {
    std::vector<std::string> found;
    auto page = blobs.list(options);
    EXPECT_OK(page);
    for (const BlobInfo& blob : page->blobs) found.push_back(blob.key);
    for (const std::string& folder : page->folders) found.push_back(folder);
    return found;
  };
  using Keys = std::vector<std::string>;
  EXPECT_EQ(keys({}), (Keys{"a.b.json", "a.json", "a/x.json", "a/y/z.json", "b.json"}));
  EXPECT_EQ(keys({.by_folder = true}), (Keys{"a.b.json", "a.json", "b.json", "a/"}));
  EXPECT_EQ(keys({.prefix = "a/", .by_folder = true}), (Keys{"a/x.json", "a/y/"}));
  EXPECT_EQ(keys({.prefix = "a.j"}), (Keys{"a.json"}));
  EXPECT_EQ(keys({.after = "a.json", .limit = 2}), (Keys{"a/x.json", "a/y/z.json"}));
}

}  // namespace
}  // namespace warren
