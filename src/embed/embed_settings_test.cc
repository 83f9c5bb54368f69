#include "embed/embed_settings.h"

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren {
namespace {

using testing::error_of;

TEST(EmbedSettings, ATableSaysKindModelAndAddress) {
  EmbedderOptions empty = parse_embed_table(Json::object()).value();
  EXPECT_EQ(empty.kind, "local");
  EXPECT_EQ(empty.folder, "");
  EmbedderOptions local = parse_embed_table({{"model", "bge-small-en-v1.5"}}).value();
  EXPECT_EQ(local.kind, "local");
  EXPECT_EQ(local.folder, "bge-small-en-v1.5");
  EXPECT_EQ(local.model, "");
  EmbedderOptions folder = parse_embed_table({{"kind", "local"}, {"model", "/models/gte"}}).value();
  EXPECT_EQ(folder.folder, "/models/gte");
  EmbedderOptions http = parse_embed_table({{"url", "http://localhost:11434/v1"}, {"model", "m"}}).value();
  EXPECT_EQ(http.kind, "http");
  EXPECT_EQ(http.url, "http://localhost:11434/v1");
  EXPECT_EQ(http.model, "m");
  EXPECT_EQ(parse_embed_table({{"kind", "none"}}).value().kind, "none");
}

TEST(EmbedSettings, AWrongTableIsRefused) {
  for (const Json& table : {Json{{"kind", "hashing"}}, Json{{"kind", 5}}, Json{{"key", "secret"}},
                            Json{{"url", "localhost"}, {"model", "m"}}, Json{{"url", "http://x/v1"}},
                            Json{{"kind", "local"}, {"url", "http://x/v1"}}, Json{{"model", "a/b"}},
                            Json{{"model", ".."}}, Json{{"kind", "http"}, {"model", "m"}}}) {
    EXPECT_EQ(error_of(parse_embed_table(table)), Code::kInvalid) << table;
  }
}

TEST(EmbedSettings, AWordSaysTheSame) {
  EXPECT_EQ(parse_embed_word("none").value().kind, "none");
  EXPECT_EQ(parse_embed_word("local").value().folder, "");
  EXPECT_EQ(parse_embed_word("gte-small").value().folder, "gte-small");
  EXPECT_EQ(parse_embed_word("/models/gte-small").value().folder, "/models/gte-small");
  EmbedderOptions http = parse_embed_word("https://host/v1#org/m").value();
  EXPECT_EQ(http.kind, "http");
  EXPECT_EQ(http.url, "https://host/v1");
  EXPECT_EQ(http.model, "org/m");
  for (std::string_view wrong : {"http://host/v1", "http://host/v1#", "a/b", "..", "../x"}) {
    EXPECT_EQ(error_of(parse_embed_word(wrong)), Code::kInvalid) << wrong;
  }
}

}  // namespace
}  // namespace warren
