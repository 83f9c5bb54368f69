// A writable layer over a base that is only read: copy-on-write.
//
// What the upper layer has under a path counts; else a whiteout says that the path is gone; else the base
// answers. Reading copies nothing. The first change copies a node up, with everything stat tells of it
// and its number: whole if it is small, and otherwise without its content, of which each part follows
// when it is written. A directory that is moved takes a note of where it was in the base, so its children
// stay where they are. Numbers: a node that comes from the base keeps the base's for good; one that was
// made here has the upper layer's. Rows and invariants: docs/design/fs.md.
//
// A change that fails may leave copies behind that nobody can tell from what was there before.
//
// Thread-safe. Both layers outlive it; nobody else writes through the same upper layer object.
#pragma once

#include <cstdint>
#include <functional>
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

#include "fs/file_system.h"
#include "fs/upper_layer.h"

namespace warren {

class OverlayFs final : public FileSystem {
 public:
  static Result<std::unique_ptr<OverlayFs>> open(UpperLayer& upper, FileSystem& base);
  ~OverlayFs() override;

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
  Result<Fd> open_backing(Inode node) override;  // of what was not copied
  Status sync(Inode node) override;

  Result<std::string> get_xattr(Inode node, std::string_view name) override;
  Result<std::vector<std::string>> list_xattrs(Inode node) override;
  Status set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) override;
  Status remove_xattr(Inode node, std::string_view name) override;

  Result<FileSystemStats> stats() override;
  bool do_a_little() override;
  Status listen(ChangeListener* listener) override;

 private:
  friend class OverlayDirStream;
  friend class UpperDirStream;
  class Listener;

  // A directory somebody has looked up, by its number.
  struct Dir {
    Inode parent;
    std::string name;
    std::optional<Inode> base;                                    // the directory of the base that shows through
    std::optional<std::set<std::string, std::less<>>> whiteouts;  // absent: not looked at yet
    std::optional<std::uint32_t> subdirectories;                  // as counted when the base had this mtime
    Timestamp counted_at;
  };

  // A node of the base that is in the upper layer too, by the base's number.
  struct Copy {
    Inode upper;
    std::string base_path;
    std::optional<Attributes> seen;
    std::uint32_t hidden_names = 0;
    std::optional<std::vector<ByteRange>> ranges;  // absent: not looked at yet
    bool is_noted = true;                          // the upper layer has a row for it; else another program made it
  };

  // A name of the base for a node that is not a directory.
  struct Place {
    Inode parent;
    std::string name;
    bool operator==(const Place&) const = default;
  };

  // Hard links of a node of the base that are gone, by base path, and when they went.
  using Lost = std::map<std::string, Timestamp>;

  // Where a node is. At least one of the two is there.
  struct View {
    Inode number;
    std::optional<Inode> upper;
    std::optional<Inode> base;
  };

  // The names that streams of a directory have given cookies for; kept while one of them is open.
  struct Cookies {
    std::vector<std::string> names;
    std::unordered_map<std::string, std::uint64_t> by_name;
    int streams = 0;
  };

  // The lock, and one state of the upper layer for as long as it lives.
  struct Scope {
    std::unique_lock<std::recursive_mutex> lock;
    std::unique_ptr<Unit> unit;
  };

  OverlayFs(UpperLayer& upper, FileSystem& base);
  Result<Scope> read_scope();
  // Runs a change under the lock, in one unit. What it did before it failed stays, so each step must leave
  // a state that may stay; a step that must not is a unit of its own.
  template <class T>
  Result<T> change(const std::function<Result<T>()>& body);
  Status change(const std::function<Status()>& body);
  Status refresh();
  Status reload();
  FileSystem& upper() { return upper_.fs(); }

  // Nodes. All of these under the lock.
  Result<View> view(Inode node);
  Result<Attributes> layer_attributes(const View& view);  // as its layer has them
  Result<Attributes> attributes_of(const View& view);
  Result<Attributes> shown_upper(Inode parent, std::string_view name, Attributes found);
  Result<Attributes> shown_base(Inode parent, std::string_view name, Attributes found);
  static void forget_host(Attributes& found);  // what only the base's own attributes have
  Inode number_of(Inode upper) const;
  Copy* find_copy(Inode number);
  bool is_gone(Inode number) const;
  void lose_name(Inode number, const std::string& base_path, Timestamp at);
  void without_lost_names(Attributes& found) const;

  // Directories.
  Result<Dir*> enter(Inode dir);            // kStale, kNotDirectory
  Result<Dir*> enter_to_change(Inode dir);  // and kNotFound once it is removed
  Result<Attributes> lookup_in(Inode parent, std::string_view name);
  Result<std::optional<Attributes>> find_in(Inode parent, std::string_view name);
  Result<std::optional<Attributes>> find_in_upper(Inode parent, std::string_view name);
  Result<std::optional<Attributes>> find_in_base(const Dir& dir, std::string_view name);
  Result<std::set<std::string, std::less<>>*> whiteouts_of(Inode number, Dir& dir);
  Result<std::optional<Inode>> find_base_dir(Inode parent, std::string_view name, const Copy* copy);
  Dir& know_dir(Inode number, Inode parent, std::string_view name, std::optional<Inode> base);
  Result<std::uint32_t> count_links(Inode number, const Attributes& own);
  Result<bool> is_empty(Inode number);
  Result<std::vector<DirEntry>> list_merged(Inode number);
  bool is_within(Inode dir, Inode ancestor) const;
  std::string path_of(Inode dir) const;
  std::string path_of(Inode dir, std::string_view name) const;
  std::string base_path_of(Inode dir) const;
  std::string base_path_of(Inode dir, std::string_view name) const;

  // Copying up. Each leaves a state that shows the same as before.
  Result<Inode> upper_dir(Inode dir);
  Status copy_root();
  Result<Inode> copy_dir(Inode dir);
  Result<Inode> copy_up(const View& view, std::uint64_t content_max);
  Result<Inode> make_copy(const View& view, Inode parent, std::string_view name, const std::string& base_path,
                          std::uint32_t hidden_names);
  Result<Inode> make_nameless_copy(const View& view);
  Status copy_xattrs(Inode base, Inode upper, const Attributes& as);
  Status fetch(Inode number, Copy& copy, std::uint64_t begin, std::uint64_t end);
  Status keep_ancestor(Inode number, const Copy& copy);
  Result<std::vector<ByteRange>*> ranges_of(Copy& copy);
  Result<Inode> find_base_of(Inode number, const Copy& copy);  // kIo once it is not what was copied
  Result<Inode> node_for_change(Inode node, std::uint64_t begin, std::uint64_t end, std::uint64_t content_max);
  Result<Inode> file_for_change(Inode node, std::uint64_t begin, std::uint64_t end);
  Status check_changes(Inode node, const AttributeChanges& changes);
  Status cut_ranges(Inode node, std::uint64_t size);
  void forget_copy(Inode number);

  // Parts of the calls above.
  Status check_content(const View& view);  // kIsDirectory, kInvalid
  using Maker = std::function<Result<Attributes>(Inode upper_parent)>;
  Result<Attributes> make(Inode parent, std::string_view name, const Maker& maker);
  Status remove(Inode parent, std::string_view name, const Attributes& entry);
  Status remove_own(Inode upper_parent, std::string_view name, const Attributes& entry,
                    const std::optional<Attributes>& own);
  void settle_removed(Inode parent, std::string_view name, const Attributes& entry,
                      const std::optional<Attributes>& own, const std::optional<Attributes>& below, Timestamp at);
  // One end of a rename.
  struct Side {
    Inode parent;
    std::string_view name;
    std::optional<Attributes> entry;    // merged
    std::optional<Attributes> in_base;  // what the base has under the name, hidden or not
  };
  Result<Side> look_at(Inode parent, std::string_view name);
  Status check_rename(const Side& from, const Side& to, RenameMode mode);
  Status check_same_device(const Side& moved, const Side& to);
  std::uint64_t find_device(Inode dir);
  Status check_replaceable(const Attributes& old_entry, const Attributes& new_entry);
  Status bring_up(const Side& side);
  Status bring_up_link(const Side& side, Copy& copy);
  Status replace(const Side& from, const Side& to);
  Status exchange(const Side& from, const Side& to);
  Status hide_base_below(const Side& moved, const Side& to);
  Status lose_covered_link(const Side& to, Timestamp at);
  void settle_moved(const Side& from, const Side& to);

  UpperLayer& upper_;
  FileSystem& base_;
  std::unique_ptr<Listener> listener_;

  std::recursive_mutex mutex_;
  std::uint64_t epoch_ = 0;
  bool is_loaded_ = false;
  bool root_is_copied_ = false;
  std::unordered_map<Inode, Dir> dirs_;
  std::unordered_map<Inode, Copy> copies_;
  std::unordered_map<Inode, Inode> numbers_;  // of copies, by the upper layer's
  std::unordered_set<Inode> opaque_;          // by the upper layer's
  std::unordered_map<Inode, Lost> lost_names_;
  std::unordered_map<Inode, std::vector<Place>> places_;
  std::unordered_map<Inode, std::uint64_t> retained_;
  std::unordered_map<Inode, Timestamp> removed_;  // without a name by now, of the base or directories, and since when
  std::unordered_set<Inode> nameless_;            // copies without a name that are still retained
  std::unordered_map<Inode, Cookies> cookies_;
};

}  // namespace warren
