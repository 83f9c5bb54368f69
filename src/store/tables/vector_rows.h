// wr_vector: what was read from the files below /mem/semantic, so that a query need not parse them again.
//
// Derived: a row counts only while its file is what it was, and losing rows costs time alone. The table is made with
// the first row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/statement.h"
#include "fs/types.h"
#include "store/store.h"

namespace warren {

struct VectorRow {
  std::string stamp;             // of the file, as its content was read
  std::vector<float> embedding;  // empty if the file is not an item
  std::string text;
  std::string metadata;  // JSON
  std::string problem;   // why it is not an item
};

// Use it in a transaction. The store outlives it.
class VectorRows {
 public:
  explicit VectorRows(Store& store) : store_(store) {}

  Result<std::optional<VectorRow>> find(Inode node);
  // Of any row that has an embedding: a guess at the index's dimension. nullopt if there is none.
  Result<std::optional<std::size_t>> find_dimension();
  Status put(Inode node, const VectorRow& row);
  Status remove(Inode node);
  Result<std::vector<Inode>> list();

 private:
  Result<bool> prepare();  // false if there is no table yet

  Store& store_;
  bool is_prepared_ = false;
  Statement find_;
  Statement any_;
  Statement put_;
  Statement remove_;
  Statement list_;
};

}  // namespace warren
