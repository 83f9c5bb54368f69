// Builds the inside of a sandbox: what its processes see of the host, as mounts in a namespace of its own.
//
// Runs in the sandbox's first process, in new user and mount namespaces, before anything else lives there.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "os/fd.h"
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

  // Writes out what the kernel still has, and takes the base away.
  void unmount_base();

 private:
  struct Source {
    std::string path;
    Fd tree;  // a detached copy of what the host has there
  };

  Status take_sources();
  Status seal_host();
  Status mount_proc();
  Status mount_dev();
  Status add_place(const Plan::Place& place);
  Status hide(const Plan::Place& place);
  Status list(const Plan::Place& place);
  Status add_entry(const Fd& dir, const std::string& name, const std::string& path);
  bool is_hidden_file(const std::string& path) const;
  bool has_places_inside(const std::string& path) const;
  Status pin_parents(const std::string& path);
  Status attach_source(const Plan::Place& place);

  const Plan& plan_;
  Fd fuse_;
  std::vector<Source> devices_;
  std::vector<Source> sources_;
  std::vector<std::string> covers_;  // directories of our own that something else was put into
  std::vector<std::string> pinned_;
};

}  // namespace warren
