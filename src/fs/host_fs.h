// A directory of the host as a filesystem to read: the base of an overlay.
//
// Everything is reached from one open directory, one name at a time, without following links
// (openat, O_NOFOLLOW), and what is opened is compared with what was looked up: no change of a path at the
// wrong moment leads anywhere else. Nothing is kept about content or attributes, so changes made on the
// host are seen at once; with listen() they are also told.
//
// Numbers: the host's own inode number in the low 56 bits, bit 62 set, so that they are never those of an
// agent file. They stay the same for as long as the host's do. Of a second filesystem that is mounted
// somewhere below, and of numbers over 56 bits, the rest is folded in. A node that got the number of one that is gone
// but still in use, or remembered (keep_number), has another.
//
// A listing gives a directory that something is mounted on the number of what is below; a lookup, of what
// is mounted.
//
// Every call that would change something is kReadOnly. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "fs/file_system.h"
#include "os/fd.h"
#include "os/host_stat.h"

namespace warren {

class HostWatch;

struct HostFsOptions {
  // Paths of the host that nobody may see: where the agent file itself is, secrets. They are in no listing, and
  // kDenied by name. Whatever comes to a name later is hidden too, and a directory also where the host moves it.
  std::vector<std::string> hidden;
};

class HostFs final : public FileSystem {
 public:
  // kNotFound, kNotDirectory. Follows links in `path`: it is the user's own.
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
  void keep_number(Inode node, std::uint64_t generation) override;
  Status sync(Inode) override { return Ok{}; }

  Result<std::string> get_xattr(Inode node, std::string_view name) override;
  Result<std::vector<std::string>> list_xattrs(Inode node) override;
  Status set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) override;
  Status remove_xattr(Inode node, std::string_view name) override;

  Result<FileSystemStats> stats() override;

  // By watching each directory that is looked into. kUnsupported once the system gives no more watches.
  Status listen(ChangeListener* listener) override;

 private:
  friend class HostDirStream;

  // A node that somebody has looked up: how to get there again, and what must be found there.
  struct Node {
    Inode number;
    std::uint64_t device = 0;
    std::uint64_t host_inode = 0;
    std::uint64_t generation = 0;
    std::uint32_t type = 0;
    std::shared_ptr<Node> parent;  // also held by the table, and by its other children; null for the root
    std::string name;
    std::uint64_t retained = 0;
    bool is_watched = false;
  };
  using NodePtr = std::shared_ptr<Node>;  // the table's, and children's; a call under way keeps one too
  using FdPtr = std::shared_ptr<Fd>;      // the table of open ones and the calls that use it

  // Descriptors kept open for the next call, the newest first.
  class OpenFiles {
   public:
    explicit OpenFiles(std::size_t max) : max_(max) {}
    FdPtr find(Inode node);
    FdPtr add(Inode node, Fd fd);
    void drop(Inode node);

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
  static Error read_only();
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
  Inode number_of(std::uint64_t device, std::uint64_t host_inode);  // of whichever generation
  bool is_taken(Inode number, std::uint64_t generation) const;
  std::uint64_t tag_of(std::uint64_t device);
  void sweep();
  void watch(const NodePtr& dir);

  Result<FdPtr> open_file(Inode node);  // to read its content; kIsDirectory, kInvalid
  Result<std::string> path_by_fd(const NodePtr& node, FdPtr& keep);
  Attributes shown(const NodePtr& node, const HostStat& info) const;

  Fd root_;
  std::uint64_t root_device_;
  std::vector<Identity> hidden_;                                // directories
  std::vector<std::pair<Identity, std::string>> hidden_names_;  // and the directory they are in

  std::mutex mutex_;
  NodePtr root_node_;
  std::unordered_map<Inode, NodePtr> nodes_;
  std::map<Identity, Inode> folded_;                              // numbers that are not the host's own
  std::map<std::uint64_t, std::uint64_t> tags_;                   // of devices other than the root's
  std::map<std::uint64_t, GenerationSource> generation_sources_;  // by device
  std::unordered_map<Inode, std::uint64_t> kept_numbers_;         // and the generation each is of
  std::unordered_set<Inode> shared_numbers_;                      // that a node did not get, being another's
  OpenFiles dirs_;
  OpenFiles files_;
  std::unique_ptr<HostWatch> watch_;
};

}  // namespace warren
