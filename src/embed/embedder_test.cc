#include "embed/embedder.h"

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren {
namespace {

using testing::error_of;

TEST(OpenEmbedder, NoneIsNull) {
  auto none = open_embedder({.kind = "none"});
  ASSERT_OK(none);
  EXPECT_EQ(*none, nullptr);
}

TEST(OpenEmbedder, AnUnknownKindIsRefused) {
  EXPECT_EQ(error_of(open_embedder({.kind = "hashing"})), Code::kInvalid);
  EXPECT_EQ(error_of(open_embedder({.kind = "http", .url = "http://localhost/v1"})), Code::kInvalid);
  EXPECT_EQ(error_of(open_embedder({.kind = "local", .folder = "no-such-model"})), Code::kNotFound);
  EXPECT_EQ(error_of(open_embedder({.kind = "local", .folder = "/no/such/folder"})), Code::kNotFound);
}

TEST(OpenEmbedder, AnAddressIsOpenedWithoutACall) {
  auto service = open_embedder({.kind = "http", .url = "http://127.0.0.1:1/v1", .model = "m", .key = "k"});
  ASSERT_OK(service);
  EXPECT_EQ((*service)->model(), "http:m");
}

TEST(OpenEmbedder, TheDefaultIsTheInstalledModel) {
  auto local = open_embedder({});
  ASSERT_OK(local);
  EXPECT_EQ((*local)->model(), "all-MiniLM-L6-v2");
}

}  // namespace
}  // namespace warren
