// The tables of the search index that say which files there are and what text they have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "context/search.h"
#include "db/database.h"
#include "db/statement.h"
#include "fs/types.h"
#include "store/record/journal_position.h"

namespace warren {

// Stored in file.state. Never renumber; add at the end, and raise the index's version.
enum class FileState : std::uint8_t { kText = 1, kNoText = 2, kTooLarge = 3, kUnreadable = 4 };

struct IndexedFile {
  std::int64_t id = 0;
  int tree = 0;
  std::string path;
  Inode inode;
  std::string stamp;  // of the file's attributes; empty if they do not tell whether it changed
  std::uint64_t size = 0;
  std::int64_t changed_at = 0;  // its mtime, in seconds
  std::string hash;             // of the content; empty if it was not read
  std::string mime;
  FileState state = FileState::kText;
  std::string problem;
};

struct IndexedChunk {
  std::int64_t id = 0;
  std::size_t first_line = 0;
  std::size_t last_line = 0;
  std::string heading;
  std::string body;
};

// A chunk's number tells its file.
inline constexpr int kChunkBits = 20;
inline constexpr std::size_t kChunksPerFile = (std::size_t{1} << kChunkBits) - 1;
inline std::int64_t file_of_chunk(std::int64_t chunk) { return chunk >> kChunkBits; }

// What a model is given of a chunk, and the hash by which its vector is found.
std::string embedded_text(std::string_view heading, std::string_view body);
std::string hash_of(std::string_view bytes);  // 32 bytes

struct TextChunk;

// Use it in transactions of the database: it has none of its own. The database outlives it.
class IndexRows {
 public:
  static Result<std::unique_ptr<IndexRows>> open(Database& database);

  Result<std::optional<JournalPosition>> find_position();
  Status set_position(const std::optional<JournalPosition>& position);
  // Of the agent file when the index had everything of it (CatchUp); empty if it is not known.
  Result<std::string> find_file_mark();
  Status set_file_mark(std::string_view mark);

  // Files.
  Result<std::optional<IndexedFile>> find_file(int tree, std::string_view path);
  Result<std::optional<IndexedFile>> find_file(std::int64_t id);
  Result<std::vector<IndexedFile>> list_files(int tree);
  Result<std::vector<std::string>> list_paths_of(int tree, Inode inode);
  Result<std::vector<std::string>> list_paths_below(int tree, std::string_view dir);  // files, not those at `dir`
  // Replaces the file's row and chunks; an existing row keeps its id.
  Status put_file(IndexedFile file, const std::vector<TextChunk>& chunks);
  Status touch_file(const IndexedFile& file);  // inode, stamp, size and time
  Status remove_file(std::int64_t id);

  // Directories, for changes that name a directory by its inode.
  Result<std::optional<std::string>> find_dir(int tree, Inode inode);
  Status put_dir(int tree, Inode inode, std::string_view path);
  Status remove_dirs(int tree, std::string_view path);  // at or below it
  Result<bool> has_dir_at(int tree, std::string_view path);

  // Chunks.
  Result<std::optional<IndexedChunk>> find_chunk(std::int64_t id);
  // Of a file, in order. `model` says whose vectors count.
  Result<std::vector<ChunkInfo>> list_chunks(std::int64_t file, const std::string& model);
  Result<std::vector<std::int64_t>> list_chunks_of(std::string_view hash, std::size_t max);
  // Calls `visit` with each chunk that matches an FTS5 expression, best first, until it returns false. The score is
  // that of BM25: more is better. O(matching chunks), about 2 µs for each.
  using VisitMatch = std::function<Result<bool>(std::int64_t chunk, double score)>;
  Status match(std::string_view expression, const VisitMatch& visit);
  Result<std::size_t> count_matches(std::string_view expression, std::size_t max);  // O(max)
  // Calls `visit` with the text of every chunk of a file, in order, until it returns false.
  using VisitChunk = std::function<Result<bool>(std::int64_t chunk, std::string_view body)>;
  Status visit_chunks_of(std::int64_t file, const VisitChunk& visit);

  Status count(IndexStatus& status);  // its files, chunks and problems

 private:
  explicit IndexRows(Database& database) : database_(database) {}
  Status remove_chunks(std::int64_t file);
  Status put_chunk(const IndexedFile& file, std::int64_t id, const TextChunk& chunk);
  Status prepare_files();
  Status prepare_chunks();

  Database& database_;
  Statement get_meta_, put_meta_, remove_meta_;
  Statement find_file_, get_file_, list_files_, paths_of_, paths_below_, put_file_, touch_file_, remove_file_;
  Statement find_dir_, put_dir_, remove_dirs_, has_dir_;
  Statement loosen_, remove_chunks_, remove_words_, put_chunk_, put_words_, wait_, get_chunk_, chunks_of_, match_,
      count_matches_, visit_;
};

}  // namespace warren
