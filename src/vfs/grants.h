// What another agent may do in a namespace: rights for paths and everything below them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "vfs/rights.h"

namespace warren {

// A value.
class Grants {
 public:
  void add(std::string path, Rights rights) { all_.push_back({std::move(path), rights}); }  // normalised
  bool is_empty() const { return all_.empty(); }

  Rights at(std::string_view path) const;
  // Whether something below that directory is granted, so that it is walked through.
  bool leads_through(std::string_view dir) const;

 private:
  struct Grant {
    std::string path;
    Rights rights;
  };
  std::vector<Grant> all_;
};

}  // namespace warren
