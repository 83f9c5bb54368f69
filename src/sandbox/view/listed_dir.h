// A directory of the host shown entry by entry, so that some names never appear.
//
// A directory of our own covers it. In it each entry of the host's directory is a mount of its own, or a copy of a
// symbolic link. A name that is left out never appears, whatever the host does, and neither does one that was not there
// at the start: a secret that is replaced has another name for a moment. follow() updates the others to the host's
// current state. docs/design/sandbox.md, Hidden outside the base.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/result.h"
#include "os/fd.h"
#include "os/files/dir_watch.h"

namespace warren {

// For one thread of the sandbox's first process.
class ListedDir {
 public:
  struct Names {
    std::set<std::string> left_out;  // never shown
    std::set<std::string> fixed;     // never updated: something else is mounted on or in them
    std::set<std::pair<std::uint64_t, std::uint64_t>>
        hidden_nodes;  // device and inode number: not shown by another name either
  };

  // Mounts it over `path` and watches the host's directory. Null if that cannot be listed or has too many names: hidden
  // entries then need covers.
  static Result<std::unique_ptr<ListedDir>> make(const std::string& path, Names names, DirWatch* watch);

  std::optional<int> watch_id() const { return watch_id_; }

  // Call after the host changed one entry, or possibly any. Entries that cannot be mounted are not shown.
  void follow(const std::string& name);
  void follow_all();

 private:
  struct Entry {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint32_t type = 0;
    std::string target;  // of a link, which is copied and not mounted: its inode number may be reused

    bool operator==(const Entry&) const = default;
  };

  ListedDir(std::string path, Fd host, Fd own, Names names)
      : path_(std::move(path)), host_(std::move(host)), own_(std::move(own)), names_(std::move(names)) {}
  Status show(const std::string& name);
  Status make_target(const std::string& name, const Entry& entry);
  Status exchange(const Fd& tree, const std::string& name);
  void remove(const std::string& name);

  std::string path_;
  Fd host_;  // the host's directory, below ours
  Fd own_;   // ours, writable: the commands see it read-only
  Names names_;
  std::optional<int> watch_id_;
  std::set<std::string> known_;  // names at the start
  std::map<std::string, Entry> shown_;
};

}  // namespace warren
