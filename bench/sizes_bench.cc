// Compares page and chunk sizes: the same content in bare SQLite tables for each pair. The defaults in
// src/store/store.cc were chosen with it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include <sys/stat.h>

#include <sqlite3.h>

#include "bench_util.h"

namespace {

using namespace bench;  // NOLINT

class Tables {
 public:
  Tables(std::size_t page_bytes, std::size_t mmap_bytes) {
    sqlite3_initialize();
    check(sqlite3_open(path().c_str(), &db_));
    execute("PRAGMA page_size=" + std::to_string(page_bytes));
    execute("PRAGMA cache_size=-16384");
    execute("PRAGMA mmap_size=" + std::to_string(mmap_bytes));
    execute("PRAGMA journal_mode=WAL");
    execute("PRAGMA synchronous=NORMAL");
    execute(
        "CREATE TABLE fs_data (ino INTEGER NOT NULL, chunk_index INTEGER NOT NULL, data BLOB NOT NULL, "
        "PRIMARY KEY (ino, chunk_index))");
    check(sqlite3_prepare_v2(db_, "INSERT INTO fs_data VALUES (?, ?, ?)", -1, &put_, nullptr));
    check(sqlite3_prepare_v2(db_,
                             "SELECT data FROM fs_data WHERE ino = ? AND chunk_index BETWEEN ? AND ? "
                             "ORDER BY chunk_index",
                             -1, &get_, nullptr));
  }
  ~Tables() {
    sqlite3_finalize(put_);
    sqlite3_finalize(get_);
    sqlite3_close(db_);
  }
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  void begin() { execute("BEGIN IMMEDIATE"); }
  void commit() { execute("COMMIT"); }

  void write(std::int64_t ino, const std::string& content, std::size_t chunk_bytes) {
    for (std::size_t at = 0; at < content.size(); at += chunk_bytes) {
      sqlite3_bind_int64(put_, 1, ino);
      sqlite3_bind_int64(put_, 2, static_cast<sqlite3_int64>(at / chunk_bytes));
      sqlite3_bind_blob64(put_, 3, content.data() + at, std::min(chunk_bytes, content.size() - at), SQLITE_STATIC);
      if (sqlite3_step(put_) != SQLITE_DONE) check(SQLITE_ERROR);
      sqlite3_reset(put_);
    }
  }

  std::size_t read(std::int64_t ino, std::size_t first, std::size_t last, std::string& out) {
    std::size_t total = 0;
    sqlite3_bind_int64(get_, 1, ino);
    sqlite3_bind_int64(get_, 2, static_cast<sqlite3_int64>(first));
    sqlite3_bind_int64(get_, 3, static_cast<sqlite3_int64>(last));
    while (sqlite3_step(get_) == SQLITE_ROW) {
      auto size = static_cast<std::size_t>(sqlite3_column_bytes(get_, 0));
      std::memcpy(out.data(), sqlite3_column_blob(get_, 0), std::min(size, out.size()));
      total += size;
    }
    sqlite3_reset(get_);
    return total;
  }

  void checkpoint() { execute("PRAGMA wal_checkpoint(TRUNCATE)"); }
  std::string path() const { return scratch_.file("sizes.db"); }

 private:
  void check(int code) {
    if (code == SQLITE_OK) return;
    std::fprintf(stderr, "%s\n", sqlite3_errmsg(db_));
    std::abort();
  }
  void execute(const std::string& sql) { check(sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr)); }

  Scratch scratch_;
  sqlite3* db_ = nullptr;
  sqlite3_stmt* put_ = nullptr;
  sqlite3_stmt* get_ = nullptr;
};

double seconds(const auto& work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void show(std::size_t page_bytes, std::size_t chunk_bytes, std::size_t mmap_bytes) {
  Tables tables(page_bytes, mmap_bytes);
  std::string big(kBigBytes, 'x');
  vary(big, page_bytes + chunk_bytes);
  double write = seconds([&] {
    tables.begin();
    tables.write(1, big, chunk_bytes);
    tables.commit();
  });
  tables.checkpoint();
  struct stat info {};
  if (::stat(tables.path().c_str(), &info) != 0) std::abort();
  std::string out(chunk_bytes, ' ');
  double read = seconds([&] { tables.read(1, 0, kBigBytes / chunk_bytes, out); });
  std::uint64_t random = 5;
  constexpr int kReads = 20'000;
  double random_read = seconds([&] {
    for (int i = 0; i < kReads; ++i) {
      std::size_t index = next_random(random) % (kBigBytes / chunk_bytes);
      tables.read(1, index, index, out);
    }
  });
  constexpr int kSmall = 2000;
  std::string small(kFileBytes, 'x');
  double create = seconds([&] {
    for (int i = 0; i < kSmall; ++i) {
      vary(small, static_cast<std::uint64_t>(i));
      tables.begin();
      tables.write(2 + i, small, chunk_bytes);
      tables.commit();
    }
  });
  double megabytes = static_cast<double>(kBigBytes) / 1e6;
  std::printf("%8zu%8zu%8zu%12.0f%12.0f%14.0f%14.0f%10.3f\n", page_bytes / 1024, chunk_bytes / 1024, mmap_bytes >> 20,
              megabytes / write, megabytes / read, kReads / random_read, kSmall / create,
              static_cast<double>(info.st_size) / static_cast<double>(kBigBytes));
}

}  // namespace

int main() {
  std::printf("%8s%8s%8s%12s%12s%14s%14s%10s\n", "page K", "chunk K", "mmap M", "write MB/s", "read MB/s",
              "random read/s", "4K commits/s", "size");
  for (std::size_t chunk : {4096, 16'384, 65'536}) {
    for (std::size_t page : {4096, 8192, 16'384, 32'768, 65'536}) show(page, chunk, 0);
  }
  show(4096, 4096, std::size_t{1} << 30);
  show(16'384, 65'536, std::size_t{1} << 30);
  return 0;
}
