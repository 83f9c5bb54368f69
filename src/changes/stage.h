// Nodes of the merged tree, written to a directory of the host.
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

enum class SetId { kDrop, kKeep };  // set-user-id and set-group-id bits of files that did not have them

// Writes one node after the other. Hard links among them are kept. Messages for people collect in notes().
class Stager {
 public:
  Stager(const AgentOverlay& overlay, HostTree& host, SetId set_id)
      : overlay_(overlay), host_(host), merged_(overlay.merged), set_id_(set_id) {}

  // The node of change.path as `host_path`, where nothing is. A directory comes empty, for us alone;
  // finish_dirs() gives it what it must have. `content` replaces a file's own.
  Status write(const TreeChange& change, std::string_view host_path, const std::string* content = nullptr);
  // A node of the merged tree with everything below it.
  Status write_tree(std::string_view path, std::string_view host_path);
  // Content alone, into an open file.
  Status write_content(std::string_view path, int fd);
  Status finish_dirs();

  // What the node must have in the end. `before`: what the base has.
  Result<HostMetadata> metadata_of(const TreeChange& change);
  const std::vector<std::string>& notes() const { return notes_; }
  void let_go() { merged_.clear(); }  // of the agent's nodes: before they are removed

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
  std::unordered_map<Inode, std::string> written_;  // files with several names, by their number
  struct MadeDir {
    std::string path;
    std::string host_path;
    HostMetadata metadata;
  };
  std::vector<MadeDir> dirs_;
  std::vector<std::string> notes_;
};

}  // namespace warren
