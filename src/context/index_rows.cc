#include "context/index_rows.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/path.h"
#include "crypto/digest.h"
#include "text/chunker.h"

namespace warren {
namespace {

constexpr std::size_t kProblemsListed = 100;

// '/' + 1: the first byte after every path below a directory.
std::string below_begin(std::string_view dir) { return dir == "/" ? "/" : std::string(dir) + "/"; }
std::string below_end(std::string_view dir) { return dir == "/" ? "0" : std::string(dir) + "0"; }

// Columns: id, tree, path, inode, stamp, size, changed_at, hash, mime, state, problem.
IndexedFile file_row(const Rows& rows) {
  return {.id = rows.integer(0),
          .tree = static_cast<int>(rows.integer(1)),
          .path = std::string(rows.text(2)),
          .inode = Inode{static_cast<std::uint64_t>(rows.integer(3))},
          .stamp = std::string(rows.text(4)),
          .size = static_cast<std::uint64_t>(rows.integer(5)),
          .changed_at = rows.integer(6),
          .hash = std::string(as_text(rows.blob(7))),
          .mime = std::string(rows.text(8)),
          .state = static_cast<FileState>(rows.integer(9)),
          .problem = std::string(rows.text(10))};
}

// The words of a path: FTS5 divides at '/', '.', '-' and '_' by itself.
std::string_view words_of(const IndexedFile& file) { return file.path; }

}  // namespace

std::string hash_of(std::string_view bytes) {
  Sha256 digest;
  digest.update(as_bytes(bytes));
  Sha256::Value value = digest.finish();
  return std::string(as_text(value));
}

std::string embedded_text(std::string_view heading, std::string_view body) {
  return heading.empty() ? std::string(body) : fmt::format("{}\n{}", heading, body);
}

Result<std::unique_ptr<IndexRows>> IndexRows::open(Database& database) {
  std::unique_ptr<IndexRows> rows(new IndexRows(database));
  auto guard = database.lock();
  rows->get_meta_ = WARREN_TRY(database.prepare("SELECT value FROM meta WHERE key = ?"));
  rows->put_meta_ = WARREN_TRY(database.prepare("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)"));
  rows->remove_meta_ = WARREN_TRY(database.prepare("DELETE FROM meta WHERE key = ?"));
  WARREN_TRY(rows->prepare_files());
  WARREN_TRY(rows->prepare_chunks());
  return rows;
}

Status IndexRows::prepare_files() {
  find_file_ = WARREN_TRY(
      database_.prepare("SELECT id, tree, path, inode, stamp, size, changed_at, hash, mime, state, problem FROM file "
                        "WHERE tree = ? AND path = ?"));
  get_file_ = WARREN_TRY(
      database_.prepare("SELECT id, tree, path, inode, stamp, size, changed_at, hash, mime, state, problem FROM file "
                        "WHERE id = ?"));
  list_files_ = WARREN_TRY(
      database_.prepare("SELECT id, tree, path, inode, stamp, size, changed_at, hash, mime, state, problem FROM file "
                        "WHERE tree = ? ORDER BY path"));
  paths_of_ = WARREN_TRY(database_.prepare("SELECT path FROM file WHERE tree = ? AND inode = ?"));
  paths_below_ = WARREN_TRY(database_.prepare("SELECT path FROM file WHERE tree = ? AND path >= ? AND path < ?"));
  put_file_ = WARREN_TRY(
      database_.prepare("INSERT INTO file (tree, path, inode, stamp, size, changed_at, hash, mime, state, problem) "
                        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (tree, path) DO UPDATE SET "
                        "inode = ?3, stamp = ?4, size = ?5, changed_at = ?6, hash = ?7, mime = ?8, state = ?9, "
                        "problem = ?10 RETURNING id"));
  touch_file_ =
      WARREN_TRY(database_.prepare("UPDATE file SET inode = ?, stamp = ?, size = ?, changed_at = ? WHERE id = ?"));
  remove_file_ = WARREN_TRY(database_.prepare("DELETE FROM file WHERE id = ?"));
  find_dir_ = WARREN_TRY(database_.prepare("SELECT path FROM dir WHERE tree = ? AND inode = ?"));
  put_dir_ = WARREN_TRY(database_.prepare("INSERT OR REPLACE INTO dir (tree, inode, path) VALUES (?, ?, ?)"));
  remove_dirs_ =
      WARREN_TRY(database_.prepare("DELETE FROM dir WHERE tree = ?1 AND (path = ?2 OR (path >= ?3 AND path < ?4))"));
  has_dir_ = WARREN_TRY(database_.prepare("SELECT 1 FROM dir WHERE tree = ? AND path = ?"));
  return Ok{};
}

Status IndexRows::prepare_chunks() {
  loosen_ = WARREN_TRY(database_.prepare(
      "INSERT OR IGNORE INTO loose (hash) SELECT hash FROM chunk WHERE id BETWEEN ? AND ? AND hash IS NOT NULL"));
  remove_chunks_ = WARREN_TRY(database_.prepare("DELETE FROM chunk WHERE id BETWEEN ? AND ?"));
  remove_words_ = WARREN_TRY(database_.prepare("DELETE FROM chunk_text WHERE rowid BETWEEN ? AND ?"));
  put_chunk_ = WARREN_TRY(database_.prepare(
      "INSERT INTO chunk (id, first_line, last_line, hash, heading, body) VALUES (?, ?, ?, ?, ?, ?)"));
  put_words_ = WARREN_TRY(database_.prepare("INSERT INTO chunk_text (rowid, name, heading, body) VALUES (?, ?, ?, ?)"));
  wait_ = WARREN_TRY(database_.prepare(
      "INSERT OR IGNORE INTO waiting (hash) SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM vector WHERE hash = ?1 AND "
      "model = (SELECT id FROM model WHERE name = (SELECT value FROM meta WHERE key = 'model')))"));
  get_chunk_ = WARREN_TRY(database_.prepare("SELECT id, first_line, last_line, heading, body FROM chunk WHERE id = ?"));
  chunks_of_ = WARREN_TRY(database_.prepare("SELECT id FROM chunk WHERE hash = ? ORDER BY id LIMIT ?"));
  match_ = WARREN_TRY(database_.prepare(
      "SELECT rowid, rank FROM chunk_text WHERE chunk_text MATCH ? AND rank MATCH 'bm25(1.0, 1.5, 1.0)' "
      "ORDER BY rank"));
  count_matches_ =
      WARREN_TRY(database_.prepare("SELECT count(*) FROM (SELECT 1 FROM chunk_text WHERE chunk_text MATCH ? LIMIT ?)"));
  visit_ = WARREN_TRY(database_.prepare("SELECT id, body FROM chunk WHERE id BETWEEN ? AND ? ORDER BY id"));
  return Ok{};
}

// Position.

Result<std::optional<JournalPosition>> IndexRows::find_position() {
  std::optional<std::int64_t> seq = WARREN_TRY(get_meta_.bind(1, "seq").find_integer());
  std::optional<std::int64_t> number = WARREN_TRY(get_meta_.bind(1, "commit_number").find_integer());
  if (!seq || !number) return std::optional<JournalPosition>();
  return std::optional(JournalPosition{*seq, *number});
}

Status IndexRows::set_position(const std::optional<JournalPosition>& position) {
  if (!position) {
    WARREN_TRY(remove_meta_.bind(1, "seq").run());
    return remove_meta_.bind(1, "commit_number").run();
  }
  WARREN_TRY(put_meta_.bind(1, "seq").bind(2, position->seq).run());
  return put_meta_.bind(1, "commit_number").bind(2, position->commit_number).run();
}

Result<std::string> IndexRows::find_file_mark() {
  Rows rows = get_meta_.bind(1, "file_mark").rows();
  if (!WARREN_TRY(rows.next())) return std::string();
  return std::string(rows.text(0));
}

Status IndexRows::set_file_mark(std::string_view mark) { return put_meta_.bind(1, "file_mark").bind(2, mark).run(); }

// Files.

Result<std::optional<IndexedFile>> IndexRows::find_file(int tree, std::string_view path) {
  Rows rows = find_file_.bind(1, tree).bind(2, path).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<IndexedFile>();
  return std::optional(file_row(rows));
}

Result<std::optional<IndexedFile>> IndexRows::find_file(std::int64_t id) {
  Rows rows = get_file_.bind(1, id).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<IndexedFile>();
  return std::optional(file_row(rows));
}

Result<std::vector<IndexedFile>> IndexRows::list_files(int tree) {
  std::vector<IndexedFile> files;
  Rows rows = list_files_.bind(1, tree).rows();
  while (WARREN_TRY(rows.next())) files.push_back(file_row(rows));
  return files;
}

Result<std::vector<std::string>> IndexRows::list_paths_of(int tree, Inode inode) {
  std::vector<std::string> paths;
  Rows rows = paths_of_.bind(1, tree).bind(2, inode.value).rows();
  while (WARREN_TRY(rows.next())) paths.emplace_back(rows.text(0));
  return paths;
}

Result<std::vector<std::string>> IndexRows::list_paths_below(int tree, std::string_view dir) {
  std::string begin = below_begin(dir);
  std::string end = below_end(dir);
  std::vector<std::string> paths;
  Rows rows = paths_below_.bind(1, tree).bind(2, std::string_view(begin)).bind(3, std::string_view(end)).rows();
  while (WARREN_TRY(rows.next())) paths.emplace_back(rows.text(0));
  return paths;
}

Status IndexRows::put_file(IndexedFile file, const std::vector<TextChunk>& chunks) {
  put_file_.bind(1, file.tree).bind(2, std::string_view(file.path)).bind(3, file.inode.value);
  put_file_.bind(4, std::string_view(file.stamp)).bind(5, file.size).bind(6, file.changed_at);
  put_file_.bind(7, as_bytes(file.hash)).bind(8, std::string_view(file.mime));
  put_file_.bind(9, static_cast<int>(file.state)).bind(10, std::string_view(file.problem));
  std::optional<std::int64_t> id = WARREN_TRY(put_file_.find_integer());
  if (!id) return Error(Code::kInternal, fmt::format("{} was not added to the index", quote(file.path)));
  file.id = *id;
  WARREN_TRY(remove_chunks(file.id));
  std::int64_t first = file.id << kChunkBits;
  if (chunks.empty()) {
    return put_words_.bind(1, first).bind(2, words_of(file)).bind(3, "").bind(4, "").run();
  }
  std::size_t count = std::min(chunks.size(), kChunksPerFile);
  for (std::size_t i = 0; i < count; ++i) WARREN_TRY(put_chunk(file, first + static_cast<std::int64_t>(i), chunks[i]));
  return Ok{};
}

Status IndexRows::put_chunk(const IndexedFile& file, std::int64_t id, const TextChunk& chunk) {
  std::string hash = hash_of(embedded_text(chunk.heading, chunk.body));
  put_chunk_.bind(1, id).bind(2, std::uint64_t{chunk.first_line}).bind(3, std::uint64_t{chunk.last_line});
  put_chunk_.bind(4, as_bytes(hash)).bind(5, std::string_view(chunk.heading)).bind(6, chunk.body);
  WARREN_TRY(put_chunk_.run());
  put_words_.bind(1, id).bind(2, words_of(file)).bind(3, std::string_view(chunk.heading)).bind(4, chunk.body);
  WARREN_TRY(put_words_.run());
  return wait_.bind(1, as_bytes(hash)).run();
}

Status IndexRows::touch_file(const IndexedFile& file) {
  touch_file_.bind(1, file.inode.value).bind(2, std::string_view(file.stamp)).bind(3, file.size);
  return touch_file_.bind(4, file.changed_at).bind(5, file.id).run();
}

Status IndexRows::remove_file(std::int64_t id) {
  WARREN_TRY(remove_chunks(id));
  return remove_file_.bind(1, id).run();
}

Status IndexRows::remove_chunks(std::int64_t file) {
  std::int64_t first = file << kChunkBits;
  std::int64_t last = first + static_cast<std::int64_t>(kChunksPerFile);
  WARREN_TRY(loosen_.bind(1, first).bind(2, last).run());
  WARREN_TRY(remove_chunks_.bind(1, first).bind(2, last).run());
  return remove_words_.bind(1, first).bind(2, last).run();
}

// Directories.

Result<std::optional<std::string>> IndexRows::find_dir(int tree, Inode inode) {
  Rows rows = find_dir_.bind(1, tree).bind(2, inode.value).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  return std::optional(std::string(rows.text(0)));
}

Status IndexRows::put_dir(int tree, Inode inode, std::string_view path) {
  return put_dir_.bind(1, tree).bind(2, inode.value).bind(3, path).run();
}

Status IndexRows::remove_dirs(int tree, std::string_view path) {
  std::string begin = below_begin(path);
  std::string end = below_end(path);
  remove_dirs_.bind(1, tree).bind(2, path).bind(3, std::string_view(begin)).bind(4, std::string_view(end));
  return remove_dirs_.run();
}

Result<bool> IndexRows::has_dir_at(int tree, std::string_view path) {
  std::optional<std::int64_t> found = WARREN_TRY(has_dir_.bind(1, tree).bind(2, path).find_integer());
  return found.has_value();
}

// Chunks.

Result<std::optional<IndexedChunk>> IndexRows::find_chunk(std::int64_t id) {
  Rows rows = get_chunk_.bind(1, id).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<IndexedChunk>();
  return std::optional(IndexedChunk{.id = rows.integer(0),
                                    .first_line = static_cast<std::size_t>(rows.integer(1)),
                                    .last_line = static_cast<std::size_t>(rows.integer(2)),
                                    .heading = std::string(rows.text(3)),
                                    .body = std::string(rows.text(4))});
}

Result<std::vector<ChunkInfo>> IndexRows::list_chunks(std::int64_t file, const std::string& model) {
  Statement list = WARREN_TRY(database_.prepare(
      "SELECT first_line, last_line, heading, body, EXISTS (SELECT 1 FROM vector v JOIN model m ON m.id = v.model "
      "WHERE "
      "m.name = ?3 AND v.hash = chunk.hash) FROM chunk WHERE id BETWEEN ?1 AND ?2 AND hash IS NOT NULL ORDER BY id"));
  std::int64_t first = file << kChunkBits;
  std::vector<ChunkInfo> chunks;
  Rows rows = list.bind(1, first)
                  .bind(2, first + static_cast<std::int64_t>(kChunksPerFile))
                  .bind(3, std::string_view(model))
                  .rows();
  while (WARREN_TRY(rows.next())) {
    chunks.push_back({.first_line = static_cast<std::size_t>(rows.integer(0)),
                      .last_line = static_cast<std::size_t>(rows.integer(1)),
                      .heading = std::string(rows.text(2)),
                      .text = std::string(rows.text(3)),
                      .is_embedded = rows.integer(4) != 0});
  }
  return chunks;
}

Result<std::vector<std::int64_t>> IndexRows::list_chunks_of(std::string_view hash, std::size_t max) {
  std::vector<std::int64_t> ids;
  Rows rows = chunks_of_.bind(1, as_bytes(hash)).bind(2, std::uint64_t{max}).rows();
  while (WARREN_TRY(rows.next())) ids.push_back(rows.integer(0));
  return ids;
}

Status IndexRows::match(std::string_view expression, const VisitMatch& visit) {
  Rows rows = match_.bind(1, expression).rows();
  while (WARREN_TRY(rows.next())) {
    if (!WARREN_TRY(visit(rows.integer(0), -rows.real(1)))) return Ok{};
  }
  return Ok{};
}

Result<std::size_t> IndexRows::count_matches(std::string_view expression, std::size_t max) {
  std::optional<std::int64_t> count =
      WARREN_TRY(count_matches_.bind(1, expression).bind(2, std::uint64_t{max}).find_integer());
  return static_cast<std::size_t>(count.value_or(0));
}

Status IndexRows::visit_chunks_of(std::int64_t file, const VisitChunk& visit) {
  std::int64_t first = file << kChunkBits;
  Rows rows = visit_.bind(1, first).bind(2, first + static_cast<std::int64_t>(kChunksPerFile)).rows();
  while (WARREN_TRY(rows.next())) {
    if (!WARREN_TRY(visit(rows.integer(0), rows.text(1)))) return Ok{};
  }
  return Ok{};
}

Status IndexRows::count(IndexStatus& status) {
  Statement counts = WARREN_TRY(database_.prepare(
      "SELECT (SELECT count(*) FROM file), (SELECT count(*) FROM file WHERE state = 1), (SELECT count(*) FROM chunk), "
      "(SELECT count(*) FROM file WHERE problem <> '')"));
  Rows rows = counts.rows();
  if (!WARREN_TRY(rows.next())) return Ok{};
  status.files = static_cast<std::size_t>(rows.integer(0));
  status.with_text = static_cast<std::size_t>(rows.integer(1));
  status.chunks = static_cast<std::size_t>(rows.integer(2));
  status.problem_count = static_cast<std::size_t>(rows.integer(3));
  Statement list =
      WARREN_TRY(database_.prepare("SELECT path, problem FROM file WHERE problem <> '' ORDER BY path LIMIT ?"));
  Rows found = list.bind(1, std::uint64_t{kProblemsListed}).rows();
  while (WARREN_TRY(found.next())) {
    status.problems.push_back({.path = std::string(found.text(0)), .message = std::string(found.text(1))});
  }
  return Ok{};
}

}  // namespace warren
