// Builds the inside of a sandbox: what its processes see of the host, as mounts in a namespace of its own.
//
// Runs in the sandbox's first process, in new user and mount namespaces, before anything else lives there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "os/dir_watch.h"
#include "os/fd.h"
#include "sandbox/listed_dir.h"
#include "sandbox/plan.h"

namespace warren {

// In this order: prepare, mount_base, finish. The filesystem that is mounted on the base must answer between
// the last two: places inside the base are laid over what it shows.
class Interior {
 public:
  explicit Interior(const Plan& plan) : plan_(plan) {}

  // Everything that is not inside the base.
  Status prepare();

  // The descriptor that the kernel's requests for the base come through.
  Result<Fd> mount_base(const std::string& source);

  Status finish();

  // Readable when the host changed something in a directory that shows name by name; -1 if nobody would know. Then
  // follow() shows it.
  int watch_fd() const { return watch_ ? watch_->fd() : -1; }
  void follow();

  // Writes out what the kernel still has, and takes the base away.
  void unmount_base();

 private:
  struct Source {
    std::string path;
    Fd tree;  // a detached copy of what the host has there
  };

  Status take_sources();
  void note_hidden_nodes();
  Status seal_host();
  Status mount_proc();
  Status mount_dev();
  Status add_place(const Plan::Place& place);
  Status hide(const Plan::Place& place);
  Status list(const Plan::Place& place);
  bool has_places_inside(const std::string& path) const;
  Status pin_parents(const std::string& path);
  Status attach_source(const Plan::Place& place);

  const Plan& plan_;
  Fd fuse_;
  std::vector<Source> devices_;
  std::vector<Source> sources_;
  std::vector<std::string> covers_;  // directories of our own that something else was put into
  std::vector<std::string> pinned_;
  std::optional<DirWatch> watch_;
  std::vector<std::unique_ptr<ListedDir>> listed_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> hidden_nodes_;  // device and number
};

}  // namespace warren
