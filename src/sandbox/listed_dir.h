// A directory of the host that shows name by name, so that some names of it never do.
//
// A directory of our own lies over it. In that each entry of the host's is a mount of its own, a symbolic link is such
// a link. Whatever the host does, a name that is left out does not come. Of the others follow() brings what the host
// has by now. docs/design/sandbox.md, Hidden outside the base.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/result.h"
#include "os/dir_watch.h"
#include "os/fd.h"

namespace warren {

// In the sandbox's first process, by one thread.
class ListedDir {
 public:
  struct Names {
    std::set<std::string> left_out;  // never shown
    std::set<std::string> fixed;     // shown as they are when it is made: something else is mounted on or in them
    std::set<std::pair<std::uint64_t, std::uint64_t>>
        hidden_nodes;  // device and number: not shown by another name either
  };

  // Lays it over `path`, and has the host's watched. Null where that cannot be listed, or has too many names: what
  // is hidden in it needs covers.
  static Result<std::unique_ptr<ListedDir>> make(const std::string& path, Names names, DirWatch* watch);

  std::optional<int> watch_id() const { return watch_id_; }

  // After the host changed an entry, or any of them. What cannot be had is not shown.
  void follow(const std::string& name);
  void follow_all();

 private:
  struct Entry {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint32_t type = 0;
    std::string target;  // of a link, which is not mounted: its number may be another's by now

    bool operator==(const Entry&) const = default;
  };

  ListedDir(std::string path, Fd host, Fd own, Names names)
      : path_(std::move(path)), host_(std::move(host)), own_(std::move(own)), names_(std::move(names)) {}
  Status show(const std::string& name);
  Status make_target(const std::string& name, const Entry& entry);
  Status exchange(const Fd& tree, const std::string& name);
  void remove(const std::string& name);

  std::string path_;
  Fd host_;  // what the host has, below ours
  Fd own_;   // ours, to be written to: what the commands see is read-only
  Names names_;
  std::optional<int> watch_id_;
  std::map<std::string, Entry> shown_;
};

}  // namespace warren
