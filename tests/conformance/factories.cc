#include "conformance/factories.h"

#include "base/check.h"
#include "fs/memory_fs.h"
#include "store/sqlite_fs.h"
#include "store/store.h"
#include "testing/temp_dir.h"

namespace warren::testing {
namespace {

class TestMemoryFs final : public TestFs {
 public:
  explicit TestMemoryFs(Clock& clock) : fs_(clock) {}
  FileSystem& fs() override { return fs_; }

 private:
  MemoryFs fs_;
};

template <Commits commits>
class TestSqliteFs final : public TestFs {
 public:
  explicit TestSqliteFs(Clock& clock) {
    auto opened =
        Store::open(dir_.file("agent.db"),
                    {.mode = OpenMode::kCreate, .durability = Durability::kProcess, .commits = commits}, clock);
    WARREN_CHECK(opened.ok());
    store_ = std::move(opened).take_value();
  }
  FileSystem& fs() override { return store_->fs(); }

 private:
  TempDir dir_;
  std::unique_ptr<Store> store_;
};

template <class T>
std::unique_ptr<TestFs> make(Clock& clock) {
  return std::make_unique<T>(clock);
}

}  // namespace

std::vector<Factory> factories() {
  return {
      {.name = "memory", .make = make<TestMemoryFs>},
      {.name = "sqlite", .make = make<TestSqliteFs<Commits::kEach>>},
      {.name = "sqlite_grouped", .make = make<TestSqliteFs<Commits::kGrouped>>},
  };
}

}  // namespace warren::testing
