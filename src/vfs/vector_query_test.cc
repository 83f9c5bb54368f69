#include "vfs/vector_query.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/vector/memory_vectors.h"
#include "testing/matchers.h"

namespace warren {
namespace {

TEST(QueryMounted, WhatMayNotBeReadIsReplacedByTheNextBest) {
  MemoryVectors index;
  std::vector<VectorItem> items;
  for (int i = 0; i < 300; ++i) {
    items.push_back(
        {.id = fmt::format("{}/{}", i % 2 == 0 ? "even" : "odd", i), .embedding = {1, static_cast<float>(i)}});
  }
  ASSERT_OK(index.upsert(items));
  auto ask = [&](std::string_view path, int from) {
    std::vector<std::string> paths;
    auto may_read = [&](const std::string& at) { return Result(std::stoi(at.substr(at.rfind('/') + 1)) >= from); };
    auto found = query_mounted(index, "/mem/x", path, {.embedding = {1, 0}, .top_k = 2, .filter = {}}, may_read);
    EXPECT_OK(found);
    for (const VectorMatch& match : *found) paths.push_back(match.item.id);
    return paths;
  };
  using Paths = std::vector<std::string>;
  EXPECT_EQ(ask("/mem/x", 0), (Paths{"/mem/x/even/0.json", "/mem/x/odd/1.json"}));
  EXPECT_EQ(ask("/mem/x/odd", 0), (Paths{"/mem/x/odd/1.json", "/mem/x/odd/3.json"}));
  EXPECT_EQ(ask("/mem/x", 298), (Paths{"/mem/x/even/298.json", "/mem/x/odd/299.json"}));
  EXPECT_EQ(ask("/mem/x/odd/299.json", 0), (Paths{"/mem/x/odd/299.json"}));
  EXPECT_EQ(ask("/mem/x", 1000), Paths{});
}

}  // namespace
}  // namespace warren
