// The vector index of /mem/semantic: derived from the files there.
//
// Every regular file below it whose name ends in .json and that is an item ({"text", "embedding", "metadata"}) can be
// found by its embedding. Nobody maintains it: a query first looks what changed since the last one, so it does not
// matter through which door, or by which program, a file was written, renamed or removed. What was read is kept in
// wr_vector; this process keeps the embeddings with 8 bits a number (backends/vector/flat_vectors.h).
//
// A file that has a text and no embedding gets one when somebody asks by text (embed_missing). It is kept in wr_vector
// alone; the file stays as it is.
//
// The dimension is that of most files, so that one wrong file cannot hide all others. Files that are not items, or have
// another dimension, stay ordinary files and are listed by check().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/vector/flat_vectors.h"
#include "backends/vector/vector_index.h"
#include "base/result.h"
#include "embed/embedder.h"
#include "fs/file_system.h"
#include "store/record/journal_reader.h"
#include "store/store.h"
#include "store/tables/vector_rows.h"
#include "vfs/guard_fs.h"

namespace warren {

inline constexpr std::string_view kSemanticMemory = "/mem/semantic";

// What `warren vfs query --check` shows.
struct SemanticCheck {
  std::size_t indexed = 0;
  std::size_t dimension = 0;  // 0 if nothing is indexed
  struct Problem {
    std::string path;
    std::string message;
  };
  std::vector<Problem> problems;  // files that are not indexed, by path
};

// Thread-safe by the database's lock. Store and tree outlive it.
class SemanticIndex {
 public:
  SemanticIndex(Store& store, FileSystem& tree);  // the namespace's, in this store; numbers in it are the store's

  // Whether the file at a path may be among the results.
  using MayRead = std::function<Result<bool>(const std::string& path, OtherNames names)>;
  // Items at or below `path`, which is /mem/semantic or below it; their ids are paths. kInvalid for another dimension
  // than that of most files, unless items of the query's own dimension are asked for.
  enum class Dimension { kOfMost, kOfQuery };
  Result<std::vector<VectorMatch>> query(std::string_view path, const VectorQuery& query, const MayRead& may_read,
                                         Dimension wanted = Dimension::kOfMost);

  // Embeds files that have a text and no embedding, or one that another model made here. At most so many at once that a
  // query does not take minutes; the rest is embedded by later calls. Returns how many are left.
  Result<std::size_t> embed_missing(Embedder& embedder);
  Result<SemanticCheck> check(std::string_view path, const MayRead& may_read);

  // Whether `data`, written to this path, will be an item of the index. kInvalid says why not.
  Status check_write(std::string_view path, std::string_view data);

 private:
  struct File {
    std::string path;
    Inode inode;
    std::string stamp;
    std::uint64_t key = 0;      // in a FlatVectors
    std::size_t dimension = 0;  // 0: not an item
    std::string problem;        // of an item: the model that made its embedding here
    bool has_text_only = false;
  };
  struct Missing {
    std::string path;
    std::uint64_t key = 0;  // of the file as it was read
    VectorRow row;
  };

  Result<std::vector<Missing>> find_missing(const std::string& model, std::size_t& left);
  Status take_embedding(Missing& missing, const std::string& model, std::vector<float> embedding);

  Result<std::vector<VectorMatch>> query_now(std::string_view path, const VectorQuery& query, const MayRead& may_read,
                                             Dimension wanted);
  Result<std::vector<VectorMatch>> search(const FlatVectors& vectors, std::string_view path, const VectorQuery& query,
                                          const MayRead& may_read);
  void put_row(const std::string& path, Inode inode, const VectorRow& row);
  enum class Room { kIfThereIs, kAlways };
  void keep_fresh(Inode inode, const VectorRow& row, Room room = Room::kIfThereIs);
  void erase_fresh(std::uint64_t inode);
  Status refresh();
  Status look_at_everything();
  Result<bool> look_at(const std::vector<Change>& changes);  // false: that was not enough
  Status look_at_dir(Inode dir, const std::string& path, std::map<std::string, Attributes>& found);
  // Whether attributes tell if the content changed. Not if the journal says that it did: the clock may be too coarse.
  enum class Trust { kStamp, kNothing };
  Status take(const std::string& path, const Attributes& node, Trust trust = Trust::kStamp);
  void drop(const std::string& path);
  Result<VectorRow> read_row(const std::string& path, const Attributes& node, Trust trust = Trust::kStamp);
  Result<VectorRow> row_of(const File& file);
  std::size_t dimension() const;
  void store_fresh();
  Result<bool> store_some();  // whether there is more

  Store& store_;
  FileSystem& fs_;
  VectorRows rows_;
  JournalReader journal_;
  std::optional<Inode> root_;
  std::unordered_map<std::uint64_t, std::string> dirs_;  // inode → path, with the root
  std::map<std::string, File> files_;                    // by path
  std::unordered_map<std::uint64_t, const File*> by_key_;
  std::unordered_multimap<std::uint64_t, std::string> by_inode_;
  std::map<std::size_t, FlatVectors> vectors_;          // by dimension
  std::unordered_map<std::uint64_t, VectorRow> fresh_;  // by inode: not stored yet
  std::size_t fresh_bytes_ = 0;
  std::vector<Inode> gone_;  // their rows are to be removed
  std::uint64_t last_key_ = 0;
};

}  // namespace warren
