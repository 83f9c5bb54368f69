// The public API on an agent with a base: users see the merged tree.
#include <warren/v1/agent.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "store/overlay/overlay_schema.h"
#include "store/store.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

TEST(OverlayApi, FilesOfTheBaseAreReadAndChangedWithoutWritingToTheBase) {
  testing::TempDir dir;
  SystemClock clock;
  std::string base = dir.file("base");
  std::filesystem::create_directories(base + "/d");
  std::ofstream(base + "/f") << "of the base";
  std::ofstream(base + "/d/x") << "x";
  std::string path = dir.file("a.db");
  {
    auto store = Store::open(path, {.mode = OpenMode::kCreate}, clock).value();
    ASSERT_OK(make_overlay(*store, base));
  }
  for (int again = 0; again < 2; ++again) {
    auto agent = v1::Agent::open({.path = path}).value();
    v1::Files files = agent->files();
    EXPECT_EQ(files.read_file("/f").value(), again == 0 ? "of the base" : "changed");
    EXPECT_EQ(files.read_dir("/").value().size(), again == 0 ? 2U : 3U);
    ASSERT_OK(files.write_file("/f", "changed"));
    ASSERT_OK(files.write_file("/new", "new"));
    if (again == 0) {
      ASSERT_OK(files.remove("/d/x"));
    }
    EXPECT_EQ(error_of(files.read_file("/d/x")), Code::kNotFound);
  }
  std::ifstream in(base + "/f");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "of the base");
  EXPECT_TRUE(std::filesystem::exists(base + "/d/x"));
  EXPECT_FALSE(std::filesystem::exists(base + "/new"));
}

TEST(OverlayApi, AUnitHoldsChangesOfFilesAndNamespaceTogether) {
  testing::TempDir dir;
  SystemClock clock;
  std::string base = dir.file("base");
  std::filesystem::create_directories(base);
  std::string path = dir.file("a.db");
  {
    auto store = Store::open(path, {.mode = OpenMode::kCreate}, clock).value();
    ASSERT_OK(make_overlay(*store, base));
  }
  auto agent = v1::Agent::open({.path = path}).value();
  {
    auto unit = agent->begin_unit().value();
    EXPECT_EQ(error_of(agent->vfs().write("/mem/semantic/x", "early")), Code::kBusy);
  }
  ASSERT_OK(agent->vfs().write("/mem/semantic/x", "old"));
  {
    auto unit = agent->begin_unit().value();
    ASSERT_OK(agent->vfs().write("/mem/semantic/x", "new"));
    ASSERT_OK(agent->files().write_file("/made", "made"));
  }
  EXPECT_EQ(agent->vfs().read("/mem/semantic/x").value(), "old");
  EXPECT_EQ(error_of(agent->files().read_file("/made")), Code::kNotFound);
  {
    auto unit = agent->begin_unit().value();
    ASSERT_OK(agent->vfs().write("/mem/semantic/x", "new"));
    ASSERT_OK(agent->files().write_file("/made", "made"));
    ASSERT_OK(unit->commit());
  }
  EXPECT_EQ(agent->vfs().read("/mem/semantic/x").value(), "new");
  EXPECT_EQ(agent->files().read_dir("/").value(), std::vector<std::string>{"made"});
}

// A unit and a reader take the same locks in the same order; otherwise this hangs.
TEST(OverlayApi, AUnitAndAReaderOnAnotherThreadDoNotWaitForEachOther) {
  testing::TempDir dir;
  SystemClock clock;
  std::string base = dir.file("base");
  std::filesystem::create_directories(base);
  std::ofstream(base + "/f") << "of the base";
  std::string path = dir.file("a.db");
  {
    auto store = Store::open(path, {.mode = OpenMode::kCreate}, clock).value();
    ASSERT_OK(make_overlay(*store, base));
  }
  auto agent = v1::Agent::open({.path = path, .durability = v1::Durability::kProcess}).value();
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) EXPECT_OK(agent->files().read_file("/f"));
  });
  for (int i = 0; i < 300; ++i) {
    auto unit = agent->begin_unit().value();
    ASSERT_OK(agent->kv().set("n", std::to_string(i)));
    ASSERT_OK(agent->files().write_file("/f", std::to_string(i)));
    if (i % 3 == 0) continue;  // rolled back
    ASSERT_OK(unit->commit());
  }
  done = true;
  reader.join();
  EXPECT_EQ(agent->files().read_file("/f").value(), "299");
  EXPECT_EQ(agent->kv().get("n").value(), "299");
}

}  // namespace
}  // namespace warren
