// Writes nodes of the merged tree to a host directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"
#include "changes/upper/tree_finder.h"
#include "os/files/host_tree.h"

namespace warren {

// Paths in the merged tree that may have new privileges on the host: set-user-id and set-group-id bits, attributes in
// `security.` and `trusted.` (such as capabilities), device nodes. The user names each of them.
using PrivilegedPaths = std::unordered_set<std::string>;

// The agent is at work, and what was listed is no longer there.
Error just_deleted_by_agent(std::string_view path);

// Hard links among the written nodes are kept. New privileges are left out for paths that are not in `privileged`.
// Messages for people are collected in notes().
class Stager {
 public:
  Stager(const AgentOverlay& overlay, HostTree& host, PrivilegedPaths privileged)
      : overlay_(overlay),
        host_(host),
        merged_(overlay.merged),
        base_(overlay.base),
        privileged_(std::move(privileged)) {}

  // Writes the node at change.path to `host_path`, which must not exist. A directory is created empty and private;
  // finish_dirs() sets its metadata. `content` replaces a file's own content.
  Status write(const TreeChange& change, std::string_view host_path, const std::string* content = nullptr);
  // Writes a node of the merged tree and everything below it.
  Status write_tree(std::string_view path, std::string_view host_path);
  // Writes only the content, into an open file.
  Status write_content(std::string_view path, int fd);
  Status finish_dirs();

  // The metadata that the node must have in the base.
  Result<HostMetadata> metadata_of(const TreeChange& change);
  const std::vector<std::string>& notes() const { return notes_; }
  // Whether something of the node was left out: the rest of the change stays with the agent.
  bool is_partial(const std::string& path) const { return partial_.contains(path); }
  void set_partial(const std::string& path) { partial_.insert(path); }  // the caller leaves something out
  void forget_nodes() { merged_.clear(); }  // forgets the agent's nodes; call it before they are removed

 private:
  Result<HostMetadata> metadata_of(std::string_view path, const Attributes& node, const TreeChange* change);
  Status drop_privileges(std::string_view path, const TreeChange* change, bool is_file, HostMetadata& metadata);
  void leave_out(std::string_view path, std::string_view what);
  Status write_node(std::string_view path, const Attributes& node, std::string_view host_path,
                    const HostMetadata& metadata, const std::string* content);
  Status set_metadata(std::string_view path, std::string_view host_path, const HostMetadata& metadata);
  Result<Attributes> find_merged(std::string_view path);

  const AgentOverlay& overlay_;
  HostTree& host_;
  TreeFinder merged_;
  TreeFinder base_;
  PrivilegedPaths privileged_;
  std::unordered_set<std::string> partial_;
  std::unordered_map<Inode, std::string> written_;  // files with several names → host path
  struct MadeDir {
    std::string path;
    std::string host_path;
    HostMetadata metadata;
  };
  std::vector<MadeDir> dirs_;
  std::vector<std::string> notes_;
};

}  // namespace warren
