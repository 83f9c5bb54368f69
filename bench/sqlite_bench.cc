// The lower bound: the same rows written and read by bare SQLite, with prepared statements and none of our rules,
// journal or locks. The difference is Warren's own overhead.
#include <algorithm>
#include <functional>
#include <vector>

#include <sqlite3.h>

#include "bench_util.h"

namespace {

using namespace bench;  // NOLINT

enum class Durability { kPower, kProcess };

class Bare {
 public:
  explicit Bare(Durability durability) {
    sqlite3_initialize();
    check(sqlite3_open(scratch_.file("bare.db").c_str(), &db_));
    execute("PRAGMA page_size=4096");
    execute("PRAGMA cache_size=-16384");
    execute("PRAGMA journal_mode=WAL");
    execute(durability == Durability::kPower ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
    execute(
        "CREATE TABLE fs_inode (ino INTEGER PRIMARY KEY AUTOINCREMENT, mode INTEGER NOT NULL, nlink INTEGER NOT NULL, "
        "uid INTEGER NOT NULL, gid INTEGER NOT NULL, size INTEGER NOT NULL, atime INTEGER NOT NULL, "
        "mtime INTEGER NOT NULL, ctime INTEGER NOT NULL, rdev INTEGER NOT NULL DEFAULT 0, "
        "atime_nsec INTEGER NOT NULL DEFAULT 0, mtime_nsec INTEGER NOT NULL DEFAULT 0, "
        "ctime_nsec INTEGER NOT NULL DEFAULT 0);"
        "CREATE TABLE fs_dentry (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, "
        "parent_ino INTEGER NOT NULL, ino INTEGER NOT NULL, UNIQUE(parent_ino, name));"
        "CREATE INDEX idx_fs_dentry_parent ON fs_dentry(parent_ino, name);"
        "CREATE TABLE fs_data (ino INTEGER NOT NULL, chunk_index INTEGER NOT NULL, data BLOB NOT NULL, "
        "PRIMARY KEY (ino, chunk_index));"
        "CREATE TABLE kv_store (key TEXT PRIMARY KEY, value TEXT NOT NULL, created_at INTEGER, updated_at INTEGER);"
        "CREATE INDEX idx_kv_store_created_at ON kv_store(created_at);"
        "CREATE TABLE tool_calls (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, parameters TEXT, "
        "result TEXT, error TEXT, status TEXT NOT NULL, started_at INTEGER NOT NULL, completed_at INTEGER, "
        "duration_ms INTEGER);"
        "CREATE INDEX idx_tool_calls_name ON tool_calls(name);"
        "CREATE INDEX idx_tool_calls_started_at ON tool_calls(started_at);"
        "INSERT INTO fs_inode VALUES (1, 16877, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)");
    inode_ = prepare(
        "INSERT INTO fs_inode (mode, nlink, uid, gid, size, atime, mtime, ctime) "
        "VALUES (33188, 1, 0, 0, ?, 1, 1, 1)");
    entry_ = prepare("INSERT INTO fs_dentry (name, parent_ino, ino) VALUES (?, ?, ?)");
    chunk_ = prepare("INSERT INTO fs_data (ino, chunk_index, data) VALUES (?, ?, ?)");
    find_ = prepare(
        "SELECT i.ino, i.mode, i.size FROM fs_dentry d JOIN fs_inode i ON i.ino = d.ino "
        "WHERE d.parent_ino = ? AND d.name = ?");
    read_ = prepare("SELECT data FROM fs_data WHERE ino = ? AND chunk_index BETWEEN ? AND ? ORDER BY chunk_index");
    list_ = prepare("SELECT name FROM fs_dentry WHERE parent_ino = ? ORDER BY name");
    begin_ = prepare("BEGIN IMMEDIATE");
    read_begin_ = prepare("BEGIN");
    commit_ = prepare("COMMIT");
    kv_set_ = prepare(
        "INSERT INTO kv_store VALUES (?, ?, 1, 1) "
        "ON CONFLICT(key) DO UPDATE SET value = excluded.value, updated_at = 1");
    kv_get_ = prepare("SELECT value FROM kv_store WHERE key = ?");
    tool_ = prepare(
        "INSERT INTO tool_calls (name, parameters, result, status, started_at, completed_at, duration_ms) "
        "VALUES ('search', '{\"query\":\"x\"}', '{\"hits\":3}', 'success', 1700000000, 1700000001, 1000)");
    erase_entry_ = prepare("DELETE FROM fs_dentry WHERE parent_ino = ? AND name = ?");
    erase_inode_ = prepare("DELETE FROM fs_inode WHERE ino = ?");
    erase_data_ = prepare("DELETE FROM fs_data WHERE ino = ?");
  }
  ~Bare() {
    for (sqlite3_stmt* statement : statements_) sqlite3_finalize(statement);
    sqlite3_close(db_);
  }
  Bare(const Bare&) = delete;
  Bare& operator=(const Bare&) = delete;

  void begin() { run(begin_); }
  void commit() { run(commit_); }

  sqlite3_int64 make_file(const std::string& name, const std::string& content) {
    sqlite3_bind_int64(inode_, 1, static_cast<sqlite3_int64>(content.size()));
    run(inode_);
    sqlite3_int64 ino = sqlite3_last_insert_rowid(db_);
    bind(entry_, 1, name);
    sqlite3_bind_int64(entry_, 2, 1);
    sqlite3_bind_int64(entry_, 3, ino);
    run(entry_);
    for (std::size_t at = 0; at < content.size(); at += 4096) {
      sqlite3_bind_int64(chunk_, 1, ino);
      sqlite3_bind_int64(chunk_, 2, static_cast<sqlite3_int64>(at / 4096));
      sqlite3_bind_blob64(chunk_, 3, content.data() + at, std::min<std::size_t>(4096, content.size() - at),
                          SQLITE_STATIC);
      run(chunk_);
    }
    return ino;
  }

  sqlite3_int64 find(sqlite3_int64 parent, const std::string& name) {
    sqlite3_bind_int64(find_, 1, parent);
    bind(find_, 2, name);
    if (sqlite3_step(find_) != SQLITE_ROW) std::abort();
    sqlite3_int64 ino = sqlite3_column_int64(find_, 0);
    sqlite3_reset(find_);
    return ino;
  }

  void read(sqlite3_int64 ino, std::uint64_t first, std::uint64_t last, std::string& out) {
    out.clear();
    sqlite3_bind_int64(read_, 1, ino);
    sqlite3_bind_int64(read_, 2, static_cast<sqlite3_int64>(first));
    sqlite3_bind_int64(read_, 3, static_cast<sqlite3_int64>(last));
    while (sqlite3_step(read_) == SQLITE_ROW) {
      out.append(static_cast<const char*>(sqlite3_column_blob(read_, 0)),
                 static_cast<std::size_t>(sqlite3_column_bytes(read_, 0)));
    }
    sqlite3_reset(read_);
  }

  std::vector<std::string> list() {
    std::vector<std::string> names;
    sqlite3_bind_int64(list_, 1, 1);
    while (sqlite3_step(list_) == SQLITE_ROW) {
      names.emplace_back(reinterpret_cast<const char*>(sqlite3_column_text(list_, 0)));
    }
    sqlite3_reset(list_);
    return names;
  }

  void set(const std::string& key, const std::string& value) {
    bind(kv_set_, 1, key);
    bind(kv_set_, 2, value);
    run(kv_set_);
  }

  std::string get(const std::string& key) {
    bind(kv_get_, 1, key);
    if (sqlite3_step(kv_get_) != SQLITE_ROW) std::abort();
    std::string value(reinterpret_cast<const char*>(sqlite3_column_text(kv_get_, 0)));
    sqlite3_reset(kv_get_);
    return value;
  }

  void record() { run(tool_); }

  void unlink(const std::string& name) {
    begin();
    sqlite3_int64 ino = find(1, name);
    sqlite3_bind_int64(erase_entry_, 1, 1);
    bind(erase_entry_, 2, name);
    run(erase_entry_);
    sqlite3_bind_int64(erase_inode_, 1, ino);
    run(erase_inode_);
    sqlite3_bind_int64(erase_data_, 1, ino);
    run(erase_data_);
    commit();
  }

  void begin_read() { run(read_begin_); }

 private:
  void check(int code) {
    if (code != SQLITE_OK) {
      std::fprintf(stderr, "%s\n", sqlite3_errmsg(db_));
      std::abort();
    }
  }
  void execute(const char* sql) { check(sqlite3_exec(db_, sql, nullptr, nullptr, nullptr)); }
  sqlite3_stmt* prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr));
    statements_.push_back(statement);
    return statement;
  }
  static void bind(sqlite3_stmt* statement, int index, const std::string& text) {
    sqlite3_bind_text(statement, index, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
  }
  void run(sqlite3_stmt* statement) {
    if (sqlite3_step(statement) != SQLITE_DONE) check(SQLITE_ERROR);
    sqlite3_reset(statement);
  }

  Scratch scratch_;
  sqlite3* db_ = nullptr;
  std::vector<sqlite3_stmt*> statements_;
  sqlite3_stmt *inode_, *entry_, *chunk_, *find_, *read_, *list_, *begin_, *read_begin_, *commit_, *kv_set_, *kv_get_,
      *tool_, *erase_entry_, *erase_inode_, *erase_data_;
};

std::string name_of(std::uint64_t i) { return "f" + std::to_string(i); }

void fill(Bare& bare, int files) {
  std::string content(kFileBytes, 'x');
  bare.begin();
  for (int i = 0; i < files; ++i) {
    vary(content, static_cast<std::uint64_t>(i));
    bare.make_file(name_of(static_cast<std::uint64_t>(i)), content);
  }
  bare.commit();
}

void write_file(benchmark::State& state, Durability durability) {
  Bare bare(durability);
  std::string content(kFileBytes, 'x');
  std::uint64_t i = 0;
  for (auto _ : state) {
    vary(content, ++i);
    bare.begin();
    bare.make_file(name_of(i), content);
    bare.commit();
  }
}
BENCHMARK_CAPTURE(write_file, sqlite_power, Durability::kPower)->UseRealTime();
BENCHMARK_CAPTURE(write_file, sqlite_process, Durability::kProcess)->UseRealTime();

void batch(benchmark::State& state, const std::function<void(Bare&, std::uint64_t)>& call) {
  Bare bare(Durability::kPower);
  std::uint64_t i = 0;
  for (auto _ : state) {
    bare.begin();
    for (int n = 0; n < kBatch; ++n) call(bare, ++i);
    bare.commit();
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}

void write_file_batch(benchmark::State& state) {
  std::string content(kFileBytes, 'x');
  batch(state, [&](Bare& bare, std::uint64_t i) {
    vary(content, i);
    bare.make_file(name_of(i), content);
  });
}
BENCHMARK(write_file_batch)->Name("write_file/sqlite_batch")->UseRealTime();

void read_file(benchmark::State& state) {
  Bare bare(Durability::kPower);
  fill(bare, kFiles);
  std::uint64_t random = 1;
  std::string out;
  for (auto _ : state) {
    bare.begin_read();
    bare.read(bare.find(1, name_of(next_random(random) % kFiles)), 0, 0, out);
    bare.commit();
  }
}
BENCHMARK(read_file)->Name("read_file/sqlite")->UseRealTime();

void stat_file(benchmark::State& state) {
  Bare bare(Durability::kPower);
  fill(bare, kFiles);
  std::uint64_t random = 1;
  for (auto _ : state) benchmark::DoNotOptimize(bare.find(1, name_of(next_random(random) % kFiles)));
}
BENCHMARK(stat_file)->Name("stat/sqlite")->UseRealTime();

void read_dir(benchmark::State& state) {
  Bare bare(Durability::kPower);
  fill(bare, kFiles);
  for (auto _ : state) benchmark::DoNotOptimize(bare.list());
}
BENCHMARK(read_dir)->Name("readdir_1000/sqlite")->UseRealTime();

void write_big(benchmark::State& state, Durability durability) {
  Bare bare(durability);
  std::string content(kBigBytes, 'x');
  std::uint64_t i = 0;
  for (auto _ : state) {
    state.PauseTiming();
    vary(content, ++i);
    state.ResumeTiming();
    bare.begin();
    bare.make_file(name_of(i), content);
    bare.commit();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBigBytes));
}
BENCHMARK_CAPTURE(write_big, sqlite_power, Durability::kPower)->UseRealTime()->Iterations(4);
BENCHMARK_CAPTURE(write_big, sqlite_process, Durability::kProcess)->UseRealTime()->Iterations(4);

void read_big(benchmark::State& state) {
  Bare bare(Durability::kPower);
  std::string content(kBigBytes, 'x');
  vary(content, 1);
  bare.begin();
  sqlite3_int64 ino = bare.make_file("big", content);
  bare.commit();
  for (auto _ : state) {
    std::string out;
    out.reserve(kBigBytes);
    bare.read(ino, 0, kBigBytes / 4096, out);
    benchmark::DoNotOptimize(out);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBigBytes));
}
BENCHMARK(read_big)->Name("read_big/sqlite")->UseRealTime();

void pread_random(benchmark::State& state) {
  Bare bare(Durability::kPower);
  std::string content(kBigBytes, 'x');
  vary(content, 1);
  bare.begin();
  sqlite3_int64 ino = bare.make_file("big", content);
  bare.commit();
  std::string out;
  std::uint64_t random = 1;
  for (auto _ : state) {
    std::uint64_t offset = next_random(random) % (kBigBytes - kFileBytes);
    bare.read(ino, offset / 4096, (offset + kFileBytes - 1) / 4096, out);
  }
}
BENCHMARK(pread_random)->Name("pread_4k/sqlite")->UseRealTime();

void kv_set(benchmark::State& state, Durability durability) {
  Bare bare(durability);
  std::uint64_t i = 0;
  for (auto _ : state) {
    ++i;
    bare.set("key" + std::to_string(i), "{\"v\":" + std::to_string(i) + "}");
  }
}
BENCHMARK_CAPTURE(kv_set, sqlite_power, Durability::kPower)->UseRealTime();
BENCHMARK_CAPTURE(kv_set, sqlite_process, Durability::kProcess)->UseRealTime();

void kv_set_batch(benchmark::State& state) {
  batch(state,
        [](Bare& bare, std::uint64_t i) { bare.set("key" + std::to_string(i), "{\"v\":" + std::to_string(i) + "}"); });
}
BENCHMARK(kv_set_batch)->Name("kv_set/sqlite_batch")->UseRealTime();

void kv_get(benchmark::State& state) {
  Bare bare(Durability::kPower);
  bare.begin();
  for (int i = 0; i < kFiles; ++i) bare.set("key" + std::to_string(i), "{\"v\":1}");
  bare.commit();
  std::uint64_t random = 1;
  for (auto _ : state) {
    benchmark::DoNotOptimize(bare.get("key" + std::to_string(next_random(random) % kFiles)));
  }
}
BENCHMARK(kv_get)->Name("kv_get/sqlite")->UseRealTime();

void tool_record(benchmark::State& state, Durability durability) {
  Bare bare(durability);
  for (auto _ : state) bare.record();
}
BENCHMARK_CAPTURE(tool_record, sqlite_power, Durability::kPower)->UseRealTime();
BENCHMARK_CAPTURE(tool_record, sqlite_process, Durability::kProcess)->UseRealTime();

void tool_record_batch(benchmark::State& state) {
  batch(state, [](Bare& bare, std::uint64_t) { bare.record(); });
}
BENCHMARK(tool_record_batch)->Name("tool_record/sqlite_batch")->UseRealTime();

void unlink_file(benchmark::State& state, Durability durability) {
  Bare bare(durability);
  fill(bare, static_cast<int>(state.max_iterations));
  std::uint64_t i = 0;
  for (auto _ : state) bare.unlink(name_of(i++));
}
BENCHMARK_CAPTURE(unlink_file, sqlite_power, Durability::kPower)->UseRealTime()->Iterations(5000);
BENCHMARK_CAPTURE(unlink_file, sqlite_process, Durability::kProcess)->UseRealTime()->Iterations(5000);

}  // namespace
