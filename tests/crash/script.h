// The steps of a crash writer, and the expected state of the agent after them. Steps are numbered from 0; the change
// that a step makes, and the state after any number of steps, depend only on the number.
//
// Each writer has its own name and uses only files, keys and tool calls of that name, so that several can share an
// agent.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "store/store.h"

namespace warren::testing {

class Script {
 public:
  explicit Script(std::string writer) : writer_(std::move(writer)) {}

  Status run(Store& store, std::int64_t step) const;

  // Describes the agent's state, and the expected state after a number of steps, as comparable text.
  Result<std::string> actual(Store& store) const;
  std::string expected(std::int64_t steps) const;

 private:
  std::string folder() const { return "/" + writer_; }
  std::string fresh_name(std::int64_t round) const;
  std::string final_name(std::int64_t round) const;

  std::string writer_;
};

}  // namespace warren::testing
