// The filesystems that tests/conformance and tests/model run against. A new one joins by one line in
// factories.cc.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "fs/file_system.h"

namespace warren::testing {

// A filesystem, mostly empty, with whatever it needs to live: a file, a directory, a connection.
class TestFs {
 public:
  virtual ~TestFs() = default;
  virtual FileSystem& fs() = 0;
  virtual bool has_content() const { return false; }  // it is not empty
};

// Makes filesystems with chunks of 4096 bytes. The clock outlives what is made.
struct Factory {
  std::string name;
  std::function<std::unique_ptr<TestFs>(Clock&)> make;
};

inline void PrintTo(const Factory& factory, std::ostream* out) { *out << factory.name; }

// The first one is the oracle.
std::vector<Factory> factories();

// And with those that begin with content, which the oracle is given too.
std::vector<Factory> model_factories();

}  // namespace warren::testing
