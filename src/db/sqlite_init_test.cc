#include "db/sqlite_init.h"

#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "testing/temp_dir.h"

namespace warren {
namespace {

using Model = std::map<std::string, std::string>;

// A file that grows and shrinks, with small pages, so that SQLite rebalances its trees all the time, and a cache that
// holds every page.
class SqliteInitTest : public ::testing::Test {
 protected:
  SqliteInitTest() {
    initialise_sqlite();
    EXPECT_EQ(sqlite3_open(dir.file("x.db").c_str(), &db), SQLITE_OK);
    execute("PRAGMA page_size=512; PRAGMA auto_vacuum=FULL; PRAGMA journal_mode=WAL; PRAGMA cache_size=-65536");
    execute("CREATE TABLE t (name TEXT PRIMARY KEY, body TEXT); CREATE INDEX i ON t(body, name)");
  }
  ~SqliteInitTest() override { sqlite3_close(db); }

  void execute(const std::string& sql) {
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
  }

  void change(Model& model, unsigned removals) {
    for (int i = 0; i < 200; ++i) {
      std::string key = std::to_string(random() % 5000);
      if (random() % 100 < removals) {
        execute("DELETE FROM t WHERE name = '" + key + "'");
        model.erase(key);
        continue;
      }
      std::string body(random() % 700, static_cast<char>('a' + random() % 26));
      execute("INSERT OR REPLACE INTO t VALUES ('" + key + "', '" + body + "')");
      model[key] = body;
    }
  }

  Model rows_of(const char* sql) {
    Model found;
    auto add = [](void* all, int, char** values, char**) {
      static_cast<Model*>(all)->emplace(values[0], values[1]);
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(db, sql, add, &found, nullptr), SQLITE_OK);
    return found;
  }

  int cached_bytes() {
    int now = 0;
    int most = 0;
    EXPECT_EQ(sqlite3_db_status(db, SQLITE_DBSTATUS_CACHE_USED, &now, &most, 0), SQLITE_OK);
    return now;
  }

  testing::TempDir dir;
  std::mt19937 random{7};
  sqlite3* db = nullptr;
};

TEST_F(SqliteInitTest, RowsStayCorrectWhileTheFileGrowsAndShrinks) {
  Model rows;
  for (int step = 0; step < 120; ++step) {
    Model changed = rows;
    execute("BEGIN");
    change(changed, step / 20 % 2 == 0 ? 20 : 90);
    execute(step % 3 == 0 ? "ROLLBACK" : "COMMIT");
    if (step % 3 != 0) rows = changed;
    if (step % 10 != 9) continue;
    EXPECT_EQ(rows_of("SELECT name, body FROM t"), rows);
  }
  EXPECT_EQ(rows_of("SELECT integrity_check, '' FROM pragma_integrity_check"), (Model{{"ok", ""}}));
}

// Pages beyond the end are dropped after a deletion and after a rollback.
TEST_F(SqliteInitTest, PagesBeyondTheEndAreNotKept) {
  Model rows;
  int empty = cached_bytes();
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 20; ++i) change(rows, 0);
    int full = cached_bytes();
    EXPECT_GT(full, 20 * empty);
    execute("DELETE FROM t");
    EXPECT_LT(cached_bytes(), full / 10);
    execute("BEGIN");
    for (int i = 0; i < 5; ++i) change(rows, 0);
    execute("ROLLBACK");
    EXPECT_LT(cached_bytes(), full / 10);
  }
}

}  // namespace
}  // namespace warren
