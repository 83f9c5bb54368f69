// Builds the inside of a sandbox: the mounts, in a namespace of its own, that processes inside see.
//
// Runs in the sandbox's first process, in new user and mount namespaces, before any other process is there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "os/fd.h"
#include "os/files/dir_watch.h"
#include "sandbox/view/foreign_mounts.h"
#include "sandbox/view/listed_dir.h"
#include "sandbox/view/plan.h"

namespace warren {

// Call prepare, open_filesystems and finish in this order. The filesystems of the base and the home must answer before
// finish: places inside them are mounted on what they show.
class Interior {
 public:
  explicit Interior(const Plan& plan) : plan_(plan) {}

  // Everything outside the base, the home and the namespace.
  Status prepare();

  // Makes the filesystems of the base and, if the plan has them, of the home's layer and the namespace. Returns the
  // descriptors for the kernel's requests to them, in this order.
  Result<std::vector<Fd>> open_filesystems(const std::string& source);

  Status finish();

  // Readable when the host changed a listed directory, which follow() then updates; -1 if changes cannot be watched.
  int watch_fd() const { return watch_ ? watch_->fd() : -1; }
  void follow();

  // Poll it for POLLPRI; then call follow_mounts(). -1 if mounts cannot be watched.
  int mounts_fd() const { return foreign_ ? foreign_->fd() : -1; }
  void follow_mounts();

  // Writes back the kernel's dirty pages, and unmounts the base, the home and the namespace.
  void unmount();

 private:
  struct Source {
    std::string path;
    Fd tree;  // a detached copy of the host's tree there
  };

  Status take_sources();
  void note_hidden_nodes();
  Status seal_host();
  Status make_root();
  Status mount_proc();
  Status mount_dev();
  Status add_place(const Plan::Place& place);
  Status hide(const Plan::Place& place);
  Status list(const Plan::Place& place);
  bool has_places_inside(const std::string& path) const;
  Status pin_parents(const std::string& path, const std::string& top);
  Status attach_source(const Plan::Place& place);
  Result<Fd> make_fuse(const Fd& device, const std::string& source);
  Status attach_served(const Fd& tree, const std::string& path);

  const Plan& plan_;
  std::vector<Fd> fuse_;  // of the base, of the home, of the namespace
  Fd base_;               // filesystems that are not attached yet
  Fd home_;
  Fd namespace_;
  std::vector<Source> devices_;
  std::vector<Source> sources_;
  std::vector<std::string> covers_;  // our covers that contain mounts
  std::vector<std::string> pinned_;
  std::optional<DirWatch> watch_;
  std::optional<ForeignMounts> foreign_;
  std::vector<std::unique_ptr<ListedDir>> listed_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> hidden_nodes_;  // device and inode number
  std::vector<Fd> kept_open_;                                       // these nodes
};

}  // namespace warren
