#include "backends/open_backend.h"

#include <gtest/gtest.h>

#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using ::warren::testing::error_of;
using ::warren::testing::FakeClock;
using ::warren::testing::TempDir;

TEST(OpenBackend, OpensByScheme) {
  FakeClock clock;
  TempDir dir;
  Result<std::unique_ptr<BlobStore>> memory = open_blob_store("memory:", {.clock = clock});
  ASSERT_OK(memory);
  EXPECT_EQ((*memory)->name(), "memory:");
  EXPECT_FALSE((*memory)->abilities().lasts);
  Result<std::unique_ptr<BlobStore>> sqlite = open_blob_store("SQLite:" + dir.file("a.db"), {.clock = clock});
  ASSERT_OK(sqlite);
  EXPECT_EQ((*sqlite)->name(), "sqlite:" + dir.file("a.db"));
}

TEST(OpenBackend, NamesTheKnownSchemes) {
  FakeClock clock;
  for (const char* bad : {"", "nothing", ":", "//host", "ftp://host/x", "memory", "sqlite"}) {
    Result<std::unique_ptr<BlobStore>> store = open_blob_store(bad, {.clock = clock});
    ASSERT_EQ(error_of(store), Code::kInvalid) << bad;
    EXPECT_NE(store.error().hint().find("memory:, sqlite:PATH"), std::string::npos) << store.error().hint();
  }
  for (const char* bad : {"memory:x", "sqlite:"}) {
    EXPECT_EQ(error_of(open_blob_store(bad, {.clock = clock})), Code::kInvalid) << bad;
  }
  Result<std::unique_ptr<BlobStore>> store = open_blob_store("ftp://user:geheim@host", {.clock = clock});
  EXPECT_EQ(store.error().message().find("geheim"), std::string::npos);
}

}  // namespace
}  // namespace warren
