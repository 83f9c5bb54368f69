// The filesystems that tests/conformance and tests/model test. A new one is added by one line in factories.cc.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "fs/file_system.h"

namespace warren::testing {

// A filesystem, usually empty, with the resources it needs: a file, a directory, a connection.
class TestFs {
 public:
  virtual ~TestFs() = default;
  virtual FileSystem& fs() = 0;
  virtual bool has_content() const { return false; }  // it is not empty
};

// Makes filesystems with chunks of 4096 bytes. The clock must outlive them.
struct Factory {
  std::string name;
  std::function<std::unique_ptr<TestFs>(Clock&)> make;
  std::set<std::string> cannot = {};  // tests of what it does not support: "Suite.Name"
};

inline void PrintTo(const Factory& factory, std::ostream* out) { *out << factory.name; }

// A filesystem over a blob store, which cannot do everything.
Factory blob_factory();

// The first one is the oracle.
std::vector<Factory> factories();

// Also includes filesystems with initial content, which is copied to the oracle.
std::vector<Factory> model_factories();

}  // namespace warren::testing
