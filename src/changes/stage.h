// Writes nodes of the merged tree to a host directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "changes/changes.h"
#include "changes/tree_finder.h"
#include "os/host_tree.h"

namespace warren {

enum class SetId { kDrop, kKeep };  // set-user-id and set-group-id bits that the base's file did not have

// Hard links among the written nodes are kept. Messages for people are collected in notes().
class Stager {
 public:
  Stager(const AgentOverlay& overlay, HostTree& host, SetId set_id)
      : overlay_(overlay), host_(host), merged_(overlay.merged), set_id_(set_id) {}

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
  void forget_nodes() { merged_.clear(); }  // forgets the agent's nodes; call it before they are removed

 private:
  Result<HostMetadata> metadata_of(std::string_view path, const Attributes& node, const Attributes* before);
  Status write_node(std::string_view path, const Attributes& node, std::string_view host_path,
                    const HostMetadata& metadata, const std::string* content);
  Status set_metadata(std::string_view path, std::string_view host_path, const HostMetadata& metadata);
  Result<Attributes> find_merged(std::string_view path);

  const AgentOverlay& overlay_;
  HostTree& host_;
  TreeFinder merged_;
  SetId set_id_;
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
