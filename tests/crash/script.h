// What a crash writer does, step by step, and what the agent then holds. The steps are numbered from
// 0; which change a step makes, and the state after any number of them, follow from the number alone.
//
// Each writer has its own name, and keeps to files, keys and tool calls of that name, so that several
// can share an agent.
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

  // The same text for what the agent holds and for what it must hold after so many steps.
  Result<std::string> actual(Store& store) const;
  std::string expected(std::int64_t steps) const;

 private:
  std::string folder() const { return "/" + writer_; }
  std::string fresh_name(std::int64_t round) const;
  std::string final_name(std::int64_t round) const;

  std::string writer_;
};

}  // namespace warren::testing
