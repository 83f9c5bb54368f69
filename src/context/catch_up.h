// Brings the search index up to date with the agent's files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "context/index_rows.h"
#include "context/index_vectors.h"
#include "context/search.h"
#include "db/database.h"
#include "fs/file_system.h"

namespace warren {

inline constexpr std::string_view kDrivesDir = "/context";

// One of the trees that are indexed. `number` is stored in the index.
struct IndexedTree {
  int number = 0;
  FileSystem* fs = nullptr;
};

// The agent's files, without recording who reads them. With a base: the merged tree, if the agent is open with it, and
// the namespace.
Result<std::vector<IndexedTree>> indexed_trees(Agent& agent);

// For one run. A file is read and its rows are written in one transaction of the index, so that another process that
// indexes at the same time cannot put an older state in the place of a newer one.
class CatchUp {
 public:
  CatchUp(Agent& agent, const std::vector<IndexedTree>& trees, Database& database, IndexRows& rows,
          IndexVectors& vectors, Clock& clock);

  Status run(const ContextIndex::Progress& progress, const ContextIndex::Cancelled& cancelled);
  // Whether the last error was about the agent, and not about the index.
  bool is_agents_fault() const { return is_agents_fault_; }

 private:
  // Whether attributes tell if the content changed. Not if the journal says that it did: the clock may be too coarse.
  enum class Trust { kStamp, kNothing };
  using Tasks = std::map<std::pair<int, std::string>, Trust>;  // files to look at, by tree and path
  struct FoundDir {
    int tree = 0;
    Inode inode;
    std::string path;
  };

  Result<std::string> mark_of_file();
  Status plan(const std::vector<Change>& changes);
  Status plan_entry(const Change& change);
  Status plan_node(const Change& change);
  Status plan_everything();
  Status plan_tree(const IndexedTree& tree);
  using FoundFiles = std::unordered_map<std::string, Attributes>;
  Status list_below(const IndexedTree& tree, Inode dir, const std::string& path, FoundFiles& files);
  void add_task(int tree, std::string path, Trust trust);
  Status store_dirs();
  Result<bool> work(const ContextIndex::Progress& progress, const ContextIndex::Cancelled& cancelled);
  Status index_file(int tree, const std::string& path, Trust trust);
  struct Snapshot;
  Result<Snapshot> read_file_now(const IndexedTree& tree, const std::string& path,
                                 const std::optional<IndexedFile>& known, Trust trust);
  const IndexedTree* tree_of(int number) const;
  template <class T>
  Result<T> of_agent(Result<T> result);

  Agent& agent_;
  const std::vector<IndexedTree>& trees_;
  Database& database_;
  IndexRows& rows_;
  IndexVectors& vectors_;
  Clock& clock_;
  bool is_agents_fault_ = false;
  Tasks tasks_;
  std::vector<FoundDir> dirs_;
  std::vector<std::pair<int, std::string>> gone_dirs_;
};

}  // namespace warren
