// The statements that an open batch has run, so that they can be run again.
//
// SQLite rolls a transaction back when it cannot commit it: the disk is full, say. The changes of a batch were reported
// as done, so they must survive that. The batch is opened again and its statements are repeated; then everything is as
// before, and the commit can be tried again later. Nobody else writes meanwhile (or it is noticed), so each statement
// has the same effect as the first time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace warren {

// A value bound to a statement. Views are valid until the statement has run.
using BoundValue = std::variant<std::monostate, std::int64_t, double, std::string_view, Bytes>;

enum class RedoOutcome { kDone, kConflict };  // kConflict: a constraint refused a row; rows before it may remain

// Used under the database's lock.
class Redo {
 public:
  std::uint32_t index_of(std::string_view sql);  // stays valid
  void add(std::uint32_t sql, const std::vector<BoundValue>& values, RedoOutcome outcome);

  std::size_t size() const { return steps_.size(); }
  void shorten(std::size_t size) { steps_.resize(size); }
  void clear() { steps_.clear(); }

  struct Text {
    std::string text;
  };
  struct Blob {
    std::string bytes;
  };
  using Value = std::variant<std::monostate, std::int64_t, double, Text, Blob>;
  struct Step {
    std::uint32_t sql = 0;  // an index for sql()
    RedoOutcome outcome = RedoOutcome::kDone;
    std::vector<Value> values;
  };
  const std::vector<Step>& steps() const { return steps_; }
  const std::string& sql(std::uint32_t index) const { return sql_[index]; }

 private:
  std::vector<Step> steps_;
  std::vector<std::string> sql_;  // stays for the next batch
  std::unordered_map<std::string, std::uint32_t> sql_index_;
};

}  // namespace warren
