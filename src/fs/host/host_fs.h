// A directory of the host as a filesystem: read-only as the base of an overlay, writable as a folder of messages.
//
// Everything is reached from one open directory, one name at a time, without following links (openat, O_NOFOLLOW), and
// each opened node is compared with the one that was looked up: no concurrent change of a path leads outside. Neither
// content nor attributes are cached, so changes on the host are visible at once; with listen() they are also reported.
//
// Numbers: the host's inode number in the low 56 bits, with bit 62 set, so that they differ from those of an agent
// file. They stay the same as long as the host's do. For another filesystem mounted below, and for numbers over 56
// bits, the remaining bits are folded in. A node whose host number belonged to a removed node that is still in use or
// reserved (reserve_number) gets another number. A writable one leaves bits 56 to 61 free, so that it can be mounted in
// a MountFs.
//
// For a directory with a mount on it, a listing shows the number of the directory below, a lookup that of the mounted
// one.
//
// Unless it is writable, every call that would change something fails with kReadOnly. A writable one takes regular
// files and directories only; there are no units, links and extended attributes to set, owners and the modes of
// directories stay, and a file that the host moves away stays open but cannot be found again. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/path_view.h"
#include "fs/file_system.h"
#include "os/fd.h"
#include "os/files/host_files.h"
#include "os/files/host_stat.h"

namespace warren {

class HostWatch;

struct HostFsOptions {
  // Paths of the host that must stay invisible: the directory of the agent file, secrets. They are left out of
  // listings, and looking them up fails with kDenied. A path stays hidden whatever is put there later; a directory also
  // when the host moves it.
  std::vector<std::string> hidden;
  // Names of the host that begin with this are hidden in every directory, whenever they appear; "" for none. A node of
  // the overlay itself may have such a name while the host has no such node.
  std::string_view hidden_prefix;
  // What is shown at all; null: everything. Other names do not exist here: a lookup is kNotFound, so an overlay can
  // have a node of its own there.
  std::shared_ptr<const PathView> view;
  bool is_writable = false;  // new files belong to the directory's owner, if we are root
  // Of a writable one: what may be in it, including files that were deleted while they are open. It is full when more
  // would be added, whoever put the rest there.
  std::uint64_t bytes_max = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t nodes_max = std::numeric_limits<std::uint64_t>::max();
};

class HostFs final : public FileSystem {
 public:
  // kNotFound, kNotDirectory. Follows links in `path`: it was given by the user.
  static Result<std::unique_ptr<HostFs>> open(const std::string& path, const HostFsOptions& options = {});
  ~HostFs() override;

  Result<std::unique_ptr<Unit>> begin(UnitAccess access) override;

  Result<Attributes> lookup(Inode parent, std::string_view name) override;
  Result<Attributes> make_node(Inode parent, std::string_view name, const NewNode& node) override;
  Result<Attributes> make_dir(Inode parent, std::string_view name, const NewNode& node) override;
  Result<Attributes> make_symlink(Inode parent, std::string_view name, std::string_view target, Owner owner) override;
  Result<Attributes> link(Inode node, Inode new_parent, std::string_view new_name) override;
  Status unlink(Inode parent, std::string_view name) override;
  Status remove_dir(Inode parent, std::string_view name) override;
  Status rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                RenameMode mode) override;
  Result<std::unique_ptr<DirStream>> open_dir(Inode dir) override;

  Result<Attributes> get_attributes(Inode node) override;
  Result<Attributes> set_attributes(Inode node, const AttributeChanges& changes) override;
  Result<std::string> read_link(Inode node) override;

  Status retain(Inode node) override;
  void forget(Inode node, std::uint64_t count) override;
  Result<Attributes> create(Inode parent, std::string_view name, const NewNode& node) override;
  Result<Attributes> open(Inode node) override;
  void release(Inode node) override { forget(node, 1); }

  Result<std::size_t> read(Inode node, std::uint64_t offset, MutableBytes out) override;
  Status write(Inode node, std::uint64_t offset, Bytes data) override;
  Result<std::uint64_t> append(Inode node, Bytes data) override;
  Status allocate(Inode node, AllocateMode mode, std::uint64_t offset, std::uint64_t length) override;
  Result<std::uint64_t> seek_data(Inode node, std::uint64_t offset) override;
  Result<std::uint64_t> seek_hole(Inode node, std::uint64_t offset) override;
  Result<std::uint64_t> copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                   std::uint64_t length) override;
  Result<Fd> open_backing(Inode node) override;
  void reserve_number(Inode node, std::uint64_t generation) override;
  Status flush(Inode) override { return Ok{}; }
  Status sync(Inode node) override;

  Result<std::string> get_xattr(Inode node, std::string_view name) override;
  Result<std::vector<std::string>> list_xattrs(Inode node) override;
  Status set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) override;
  Status remove_xattr(Inode node, std::string_view name) override;

  Result<FileSystemStats> stats(Inode node) override;
  bool run_idle_work() override { return false; }

  // From then on, watches each directory that is looked into, or that has a node whose attributes are asked for.
  // kUnsupported once the system is out of watches.
  Status listen(ChangeListener* listener) override;

 private:
  friend class HostDirStream;

  // A node that was looked up: how to reach it again, and what must be found there.
  struct Node {
    Inode number;
    std::uint64_t device = 0;
    std::uint64_t host_inode = 0;
    std::uint64_t generation = 0;
    std::uint32_t type = 0;
    std::shared_ptr<Node> parent;  // shared with the table and its other children; null for the root
    std::string name;
    const PathView::Rule* rule = nullptr;                     // what is shown in it; null without a view
    bool is_examined = false;                                 // whether it is to be frozen
    std::optional<std::set<std::string, std::less<>>> known;  // if set, no other names are shown
    std::uint64_t retained = 0;
    bool is_watched = false;
  };
  using NodePtr = std::shared_ptr<Node>;  // shared by the table, children and running calls
  using FdPtr = std::shared_ptr<Fd>;      // shared by the table of open ones and running calls

  // Descriptors kept open for the next call, most recent first.
  class OpenFiles {
   public:
    explicit OpenFiles(std::size_t max) : max_(max) {}
    FdPtr find(Inode node);
    FdPtr add(Inode node, Fd fd);
    void drop(Inode node);
    std::vector<FdPtr> list() const;

   private:
    std::size_t max_;
    std::list<std::pair<Inode, FdPtr>> files_;
    std::unordered_map<Inode, std::list<std::pair<Inode, FdPtr>>::iterator> by_node_;
  };

  struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    auto operator<=>(const Identity&) const = default;
  };

  HostFs(Fd root, const struct stat& root_info);
  Status hide(const std::string& path);
  bool is_hidden(const struct stat& info) const;
  bool is_hidden_name(const Node& dir, std::string_view name) const;
  bool may_be_hidden(std::uint64_t host_inode) const;
  bool has_hidden_prefix(std::string_view name) const;
  bool is_out_of_view(const Node& dir, std::string_view name) const;
  void freeze_if_filtered(Node& dir, int fd) const;
  static Error read_only();
  Status give_to_owner(int fd) const;
  // Before something is added. kNoSpace if the limits do not allow it.
  Status take_space(std::uint64_t bytes, std::uint64_t nodes = 0);
  struct Usage {
    std::uint64_t bytes = 0;
    std::uint64_t nodes = 0;
  };
  Result<Usage> measure();
  Status for_each_below(const std::function<Status(int dir, const HostEntry& entry)>& visit) const;
  Status sync_tree() const;
  Status remove_name(Inode parent, std::string_view name, int flags);
  static Error stale(Inode node);

  // Under mutex_.
  Result<HostStat> stat_at(int dir, const char* name);  // "": the directory itself
  Result<NodePtr> find_node(Inode node);                // kStale
  Result<NodePtr> find_dir(Inode node);                 // kStale, kNotDirectory
  Result<FdPtr> open_dir_fd(const NodePtr& node);       // O_PATH
  Result<HostStat> stat_node(const NodePtr& node);      // kStale if something else is there now
  NodePtr know(const NodePtr& parent, std::string_view name, const HostStat& info);
  static bool is_other(const Node& node, const HostStat& info);
  Inode number_of(const HostStat& info);
  Inode number_of(std::uint64_t device, std::uint64_t host_inode);  // of any generation
  bool is_taken(Inode number, std::uint64_t generation) const;
  std::uint64_t tag_of(std::uint64_t device);
  std::uint64_t own_mask() const { return (std::uint64_t{1} << own_bits_) - 1; }
  void sweep();
  void watch(const NodePtr& dir);

  Result<FdPtr> open_file(Inode node);  // for reading its content; kIsDirectory, kInvalid
  Result<std::string> path_by_fd(const NodePtr& node, FdPtr& keep);
  Attributes shown(const NodePtr& node, const HostStat& info) const;

  Fd root_;
  bool is_writable_ = false;
  std::mutex append_mutex_;
  std::uint64_t bytes_max_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t nodes_max_ = std::numeric_limits<std::uint64_t>::max();
  std::mutex space_mutex_;
  Usage left_;         // as measured, less what was added since; under space_mutex_
  int own_bits_ = 56;  // of a number that hold the host's own
  std::uint64_t root_device_;
  std::shared_ptr<const PathView> view_;  // shared with the caller of open()
  std::string hidden_prefix_;
  std::vector<Identity> hidden_;                                // directories
  std::vector<std::pair<Identity, std::string>> hidden_names_;  // names, with their directories

  std::mutex mutex_;
  NodePtr root_node_;
  std::unordered_map<Inode, NodePtr> nodes_;
  std::map<Identity, Inode> folded_;                              // numbers other than the host's own
  std::map<std::uint64_t, std::uint64_t> tags_;                   // for devices other than the root's
  std::map<std::uint64_t, GenerationSource> generation_sources_;  // by device
  std::unordered_map<Inode, std::uint64_t> reserved_numbers_;     // reserved numbers and their generations
  std::unordered_set<Inode> shared_numbers_;                      // numbers refused to a node because another has them
  OpenFiles dirs_;
  OpenFiles files_;
  std::unique_ptr<HostWatch> watch_;
};

}  // namespace warren
