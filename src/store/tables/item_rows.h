// wr_item: what is known of the items of drives besides their content (docs/format.md, WR-70).
//
// A row belongs to an inode, so that a move through any door keeps it. It also has the path where the item was last
// seen: a program that saves by renaming a new file over the old one makes a new inode for the same item.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "db/statement.h"
#include "fs/types.h"
#include "store/store.h"

namespace warren {

struct ItemRow {
  Inode node;
  std::string id;                          // a UUID
  std::string path;                        // where it was last seen, in the namespace
  std::string source;                      // the URL or host path that it was fetched from; may be empty
  std::optional<std::int64_t> fetched_at;  // Unix seconds
  std::string sha256;                      // of what was fetched, as lower-case digits; may be empty
  std::string mime;                        // while the file has this stamp; may be empty
  std::string title;                       // likewise
  std::string stamp;                       // size and mtime of the file when the row was written

  bool operator==(const ItemRow&) const = default;
};

// Change rows in a transaction. The store outlives it. The table is made with the first row. For one thread; others may
// use the same store meanwhile.
class ItemRows {
 public:
  explicit ItemRows(Store& store) : store_(store) {}
  ~ItemRows();
  ItemRows(const ItemRows&) = delete;
  ItemRows& operator=(const ItemRows&) = delete;

  Result<std::optional<ItemRow>> find(Inode node);
  Result<std::optional<ItemRow>> find_by_id(std::string_view id);
  Result<std::optional<ItemRow>> find_by_path(std::string_view path);      // the newest of that path
  Result<std::optional<ItemRow>> find_by_source(std::string_view source);  // the newest; looks at every row
  Status put(const ItemRow& row);                                          // kExists if another inode has this id
  Status remove(Inode node);
  Status rekey(Inode from, Inode to);  // the item at `from`, which no longer exists, is the one at `to` now
  // A file was renamed over the last name of another one: it is that item now, unless it is an item of its own.
  Status take_over(Inode replaced, Inode by);
  Status set_path(Inode node, std::string_view path);
  Status move_below(std::string_view from, std::string_view to);  // paths below a directory that was moved

 private:
  Result<bool> has_table();
  Result<bool> prepare();  // false if there is no table yet
  void note(Inode node);   // in the journal

  Store& store_;
  bool is_prepared_ = false;
  std::optional<Statement> has_table_;
  Statement find_;
  Statement find_id_;
  Statement find_path_;
  Statement put_;
  Statement remove_;
  Statement rekey_;
  std::optional<Statement> take_over_;
  Statement set_path_;
  Statement move_below_;
};

}  // namespace warren
