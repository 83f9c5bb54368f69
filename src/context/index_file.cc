#include "context/index_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/locate.h"
#include "base/path.h"
#include "db/transaction.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/files/host_files.h"
#include "store/files/sqlite_fs.h"

namespace warren {
namespace {

constexpr std::int64_t kIndexVersion = 2;  // of the tables, and of how texts are read and divided
constexpr std::string_view kAgentSuffix = ".db";
constexpr std::string_view kIndexEnding = ".index.db";
constexpr int kOpenAttempts = 3;

// One row of `file` for each file, also for those without text. The numbers of its chunks begin at id << 20, so that a
// chunk tells its file. `chunk_text` has the words alone: the text itself is in `chunk`, once. A vector belongs to a
// text, not to a place, so that copies share it and a move keeps it.
constexpr Sql kIndexTables = R"sql(
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE dir (
  tree INTEGER NOT NULL,
  inode INTEGER NOT NULL,
  path TEXT NOT NULL,
  PRIMARY KEY (tree, inode)
) WITHOUT ROWID;
CREATE INDEX dir_path ON dir(tree, path);
CREATE TABLE file (
  id INTEGER PRIMARY KEY,
  tree INTEGER NOT NULL,
  path TEXT NOT NULL,
  inode INTEGER NOT NULL,
  stamp TEXT NOT NULL,
  size INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  hash BLOB,
  mime TEXT NOT NULL,
  state INTEGER NOT NULL,
  problem TEXT NOT NULL,
  UNIQUE (tree, path)
);
CREATE INDEX file_inode ON file(tree, inode);
CREATE TABLE chunk (
  id INTEGER PRIMARY KEY,
  first_line INTEGER NOT NULL,
  last_line INTEGER NOT NULL,
  hash BLOB,
  heading TEXT NOT NULL,
  body TEXT NOT NULL
);
CREATE INDEX chunk_hash ON chunk(hash);
CREATE VIRTUAL TABLE chunk_text USING fts5(
  name, heading, body, content='', contentless_delete=1, tokenize='porter unicode61');
CREATE TABLE model (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, dimensions INTEGER NOT NULL);
CREATE TABLE vector (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model INTEGER NOT NULL,
  hash BLOB NOT NULL,
  numbers BLOB NOT NULL,
  UNIQUE (model, hash)
);
CREATE TABLE waiting (hash BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE loose (hash BLOB PRIMARY KEY) WITHOUT ROWID;
)sql";

Status make_index_tables(Database& database, const std::string& identity) {
  Transaction scope = WARREN_TRY(Transaction::begin(database, Access::kWrite));
  WARREN_TRY(database.execute(kIndexTables));
  Statement put = WARREN_TRY(database.prepare("INSERT INTO meta (key, value) VALUES ('version', ?), ('agent', ?)"));
  WARREN_TRY(put.bind(1, kIndexVersion).bind(2, std::string_view(identity)).run());
  return scope.commit();
}

// Whether it is an index that this program made for this agent.
Status check_index(Database& database, const std::string& identity) {
  Transaction view = WARREN_TRY(Transaction::begin(database, Access::kRead));
  Statement get = WARREN_TRY(database.prepare(
      "SELECT (SELECT value FROM meta WHERE key = 'version'), (SELECT value FROM meta WHERE key = 'agent'), "
      "(SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view'))"));
  Rows rows = get.rows();
  bool is_ours = WARREN_TRY(rows.next())
  &&rows.type(0) == ColumnType::kInteger&& rows.integer(0) == kIndexVersion&& rows.text(1) ==
      identity&& rows.integer(2) == 0;
  if (is_ours) return Ok{};
  return Error(Code::kCorrupt, fmt::format("{} is not an index of this agent", quote(database.path())));
}

constexpr std::int64_t kIndexCacheBytes = std::int64_t{32} << 20;
constexpr std::int64_t kIndexLogBytes = std::int64_t{16} << 20;

DatabaseOptions index_options(OpenMode mode) {
  // Derived: what a power cut takes is made again.
  return {
      .mode = mode, .durability = Durability::kProcess, .cache_bytes = kIndexCacheBytes, .log_bytes = kIndexLogBytes};
}

// Nobody else may read or write it. A file that was copied here from elsewhere is rarely so.
Status check_privacy(const std::string& path) {
  std::optional<struct stat> there = WARREN_TRY(find_host_link(path));
  if (!there) return Error(Code::kNotFound, fmt::format("no index {}", quote(path)));
  bool is_private = S_ISREG(there->st_mode) && there->st_uid == ::geteuid() && (there->st_mode & 0077) == 0;
  if (is_private) return Ok{};
  return Error(Code::kCorrupt, fmt::format("{} is not a private file of this user", quote(path)));
}

// An index that is encrypted with another key, or not as the agent is, belongs to an earlier state of it.
Result<std::unique_ptr<Database>> open_existing(const IndexPlace& place) {
  WARREN_TRY(check_privacy(place.path));
  DatabaseOptions options = index_options(OpenMode::kReadWrite);
  auto mismatch = [&] { return Error(Code::kCorrupt, fmt::format("{} has another key", quote(place.path))); };
  options.find_key = [&](std::string_view salt) -> Result<SharedDatabaseKey> {
    if (!place.key || place.key->salt() != salt) return mismatch();
    return place.key;
  };
  auto database = WARREN_TRY(Database::open(place.path, options));
  if (place.key && !database->key()) return mismatch();
  WARREN_TRY(check_index(*database, place.identity));
  return database;
}

Result<std::unique_ptr<Database>> make_in_memory(const std::string& identity) {
  auto database = WARREN_TRY(Database::open(":memory:", index_options(OpenMode::kReadWrite)));
  WARREN_TRY(make_index_tables(*database, identity));
  return database;
}

void remove_index_files(const std::string& path) {
  for (const char* suffix : {"-wal", "-shm", "-journal", ""}) {
    remove_host_file(path + suffix).ignore("what cannot be removed is found when the new one is made");
  }
}

// Complete before it has its name, so that two processes can make it at the same time: the first one wins.
Status make_on_disk(const IndexPlace& place) {
  std::string draft = fmt::format("{}.new-{}", place.path, ::getpid());
  remove_index_files(draft);
  Fd file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.is_open()) return system_error(errno, fmt::format("create {}", quote(draft)));
  auto fill = [&]() -> Status {
    DatabaseOptions options = index_options(OpenMode::kDraft);
    options.key = place.key;
    auto database = WARREN_TRY(Database::open(draft, options));
    return make_index_tables(*database, place.identity);
  };
  Status made = fill();
  if (made.ok()) made = publish_host_file(draft, place.path);
  remove_index_files(draft);
  return made;
}

bool is_unwritable(const Error& error) {
  return error.code() == Code::kDenied || error.code() == Code::kReadOnly || error.code() == Code::kNotPermitted;
}

}  // namespace

Result<IndexPlace> index_place_of(Agent& agent) {
  IndexPlace place{.path = agent.path(), .identity = {}, .key = agent.store().database().key()};
  if (place.path != kMemoryAgent) {
    if (place.path.ends_with(kAgentSuffix)) place.path.resize(place.path.size() - kAgentSuffix.size());
    place.path += kIndexEnding;
  }
  // The time at which its root was made: no call of ours changes the access time of a directory.
  Attributes root = WARREN_TRY(agent.store().fs().get_attributes(kRootInode));
  place.identity = fmt::format("{}.{:09}", root.atime.seconds, root.atime.nanoseconds);
  return place;
}

Result<std::unique_ptr<Database>> open_index_file(const IndexPlace& place) {
  if (place.path == kMemoryAgent) return make_in_memory(place.identity);
  for (int attempt = 1;; ++attempt) {
    Result<std::unique_ptr<Database>> opened = open_existing(place);
    if (opened.ok()) return opened;
    if (is_unwritable(opened.error())) return make_in_memory(place.identity);
    // Another process may remove it at any moment, and then any error can be the result.
    bool is_missing = !WARREN_TRY(find_host_link(place.path));
    if (attempt == kOpenAttempts || (!is_missing && !is_index_damage(opened.error()))) {
      return std::move(opened).within("open the search index");
    }
    remove_index_files(place.path);  // a log that was left, too
    Status made = make_on_disk(place);
    if (!made.ok() && is_unwritable(made.error())) return make_in_memory(place.identity);
    if (!made.ok() && made.error().code() != Code::kExists) {
      return std::move(made).within("make the search index").take_error();
    }
  }
}

Result<std::unique_ptr<Database>> replace_index_file(const IndexPlace& place) {
  if (place.path != kMemoryAgent) remove_index_files(place.path);
  return open_index_file(place);
}

// Whatever does not pass by waiting. A file that was moved or whose log is another's cannot be used either.
bool is_index_damage(const Error& error) {
  switch (error.code()) {
    case Code::kBusy:
    case Code::kNoSpace:
    case Code::kIo:
    case Code::kLimit:
    case Code::kTimeout:
    case Code::kDenied:
    case Code::kReadOnly: return false;
    default: return true;
  }
}

}  // namespace warren
