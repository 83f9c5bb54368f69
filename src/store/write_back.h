// Writing back rows that are kept in memory while a batch is open (Commits::kGrouped).
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "base/result.h"
#include "db/database.h"

namespace warren {

// Runs `write`, which gives kept rows to SQLite. They were counted when they were kept back, so they do not count as
// changes of the running transaction.
template <class Write>
Status write_back_kept(Database& database, Write&& write) {
  std::int64_t changes_before = database.total_changes();
  WARREN_TRY(write());
  database.batch().note_written_back(database.total_changes() - changes_before);
  return Ok{};
}

// The keys of kept rows, oldest first, so that rows which have not changed lately can be written back before the batch
// ends, one at a time. The rows themselves are the owner's; each has a member `changed`, the owner's count of changes
// at its last change. Keys of rows that are gone stay in the queue until they are reached.
template <class Key>
class WriteBackQueue {
 public:
  // A row that has not changed for `settled_after` changes of its owner is not likely to change again soon.
  explicit WriteBackQueue(std::uint64_t settled_after) : settled_after_(settled_after) {}

  template <class... Parts>
  void push(Parts&&... key) {
    keys_.emplace_back(std::forward<Parts>(key)...);
  }
  void clear() { keys_.clear(); }

  // Writes back the oldest row that has not changed lately. False if none of the first few is such a row. `find(key)`
  // returns a pointer to the kept row, or null; `write(key, row)` gives it to SQLite; `erase(key)` drops it.
  // `changes` is the owner's count now.
  template <class Find, class Write, class Erase>
  Result<bool> write_back_one(Database& database, std::uint64_t changes, Find&& find, Write&& write, Erase&& erase) {
    constexpr int kLooks = 4;
    for (int look = 0; look < kLooks && !keys_.empty(); ++look) {
      Key key = std::move(keys_.front());
      keys_.pop_front();
      auto* row = find(key);
      if (row == nullptr) continue;
      if (changes - row->changed < settled_after_) {
        keys_.push_back(std::move(key));
        continue;
      }
      WARREN_TRY(write_back_kept(database, [&] { return write(key, *row); }));
      erase(key);
      return true;
    }
    return false;
  }

 private:
  std::uint64_t settled_after_;
  std::deque<Key> keys_;
};

}  // namespace warren
