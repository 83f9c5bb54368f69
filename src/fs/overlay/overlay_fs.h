// A writable layer over a read-only base: copy-on-write.
//
// A path in the upper layer takes precedence; then a whiteout, which marks a path as removed; then the base. Reading
// copies nothing. The first change copies a node up with all its attributes and its number: a small file whole, a
// larger one without content, which follows part by part as it is written. A directory that is moved records its origin
// in the base, so its children stay where they are. Numbers: a node from the base has the base's number, one created
// here the upper layer's. It keeps its number while it is in use, also when an apply has written it to the base.
// Rows and invariants: docs/design/fs.md.
//
// A change that fails may leave copies behind, which nobody can distinguish from the original state.
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

#include "base/limits.h"
#include "fs/file_system.h"
#include "fs/overlay/base_moves.h"
#include "fs/overlay/upper_layer.h"
#include "os/fd.h"

namespace warren {

class OverlayFs final : public FileSystem {
 public:
  // A file of up to `copy_whole_bytes` is copied as a whole by its first change.
  static Result<std::unique_ptr<OverlayFs>> open(UpperLayer& upper, FileSystem& base,
                                                 std::uint64_t copy_whole_bytes = limits::kCopyWholeBytes);
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
  Result<Fd> open_backing(Inode node) override;          // for a node that was not copied
  void reserve_number(Inode, std::uint64_t) override {}  // no number is given to a second node
  Status flush(Inode) override { return Ok{}; }
  Status sync(Inode node) override;

  Result<std::string> get_xattr(Inode node, std::string_view name) override;
  Result<std::vector<std::string>> list_xattrs(Inode node) override;
  Status set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) override;
  Status remove_xattr(Inode node, std::string_view name) override;

  Result<FileSystemStats> stats(Inode node) override;
  bool run_idle_work() override;
  Status listen(ChangeListener* listener) override;

 private:
  friend class OverlayDirStream;
  friend class UpperDirStream;
  class Listener;

  using Names = std::set<std::string, std::less<>>;

  // A directory that was looked up, by its number.
  struct Dir {
    Inode parent;
    std::string name;
    std::optional<Inode> base;                    // the directory of the base that shows through
    std::optional<Names> whiteouts;               // absent: not read yet
    std::optional<std::uint32_t> subdirectories;  // as counted when the base had this mtime
    Timestamp counted_at;
  };

  // A node of the base that is also in the upper layer, by the number that it is shown with: the base's; if it is in
  // use, the one that it had when an apply replaced the base's file, or that of a directory that was new here.
  struct Copy {
    Inode upper;
    std::string base_path;
    std::optional<Attributes> seen;
    std::uint32_t hidden_names = 0;
    std::optional<std::vector<ByteRange>> ranges;  // absent: not read yet
    bool is_noted = true;                          // the upper layer has a row for it; if not, another program made it
  };

  // The file of the base that holds what is not copied of a copy.
  struct Source {
    Inode node;
    std::shared_ptr<const Fd> held;  // if set, the base no longer has it where it was; shared with held_
  };

  // A name in the base of a node that is not a directory.
  struct Place {
    Inode parent;
    std::string name;
    bool operator==(const Place&) const = default;
  };

  // A node of the base or a directory without a name.
  struct Removed {
    Timestamp at;
    std::optional<Place> last;  // the name that it had
  };

  // Removed hard links of a node of the base, by base path, with the time of removal.
  using Lost = std::map<std::string, Timestamp>;

  // The layers of a node; at least one is set.
  struct View {
    Inode number;
    std::optional<Inode> upper;
    std::optional<Inode> base;
  };

  // The names that streams of a directory have issued cookies for; kept while one of them is open.
  struct Cookies {
    std::vector<std::string> names;
    std::unordered_map<std::string, std::uint64_t> by_name;
    int streams = 0;
  };

  // Holds the lock, and one state of the upper layer.
  struct Scope {
    std::unique_lock<std::recursive_mutex> lock;
    std::unique_ptr<Unit> unit;
  };

  OverlayFs(UpperLayer& upper, FileSystem& base, std::uint64_t copy_whole_bytes);
  Result<Scope> read_scope();
  // Runs a change under the lock, in one unit. If it fails, its completed steps stay, so each step must leave a valid
  // state; a step that would not is a unit of its own.
  template <class T>
  Result<T> change(const std::function<Result<T>()>& body);
  Status change(const std::function<Status()>& body);
  Status refresh();
  Status reload();
  Status check_memory();
  Result<bool> is_still_there(Inode dir, std::unordered_map<Inode, bool>& known);
  FileSystem& upper() { return upper_.fs(); }

  // Nodes. All of these under the lock.
  Result<View> view(Inode node);
  Inode show_as(Inode number, Inode base);
  void go_on_with_frozen(const std::vector<Origin>& origins);
  Result<Attributes> layer_attributes(const View& view);  // as stored in its layer
  Result<Attributes> attributes_of(const View& view);
  Result<Attributes> shown_upper(Inode parent, std::string_view name, Attributes found);
  Result<Attributes> shown_base(Inode parent, std::string_view name, Attributes found);
  bool has_moved_from_copy(Inode parent, std::string_view name, const Attributes& found);
  bool is_gone_or_nameless(Inode upper_node);
  Result<Attributes> look_up_apart(Inode parent, std::string_view name, const Attributes& found);
  Attributes with_own_number(Attributes found) const;
  static void forget_host(Attributes& found);  // clears the fields that only the base's attributes have
  Inode number_of(Inode upper) const;
  Inode number_of_base(Inode base);
  Copy* find_copy(Inode number);
  bool is_gone(Inode number) const;
  bool is_gone_from_upper(Inode upper_node);
  void lose_name(Inode number, const std::string& base_path, Timestamp at);
  void without_lost_names(Attributes& found) const;

  // Directories.
  Result<Dir*> enter(Inode dir);            // kStale, kNotDirectory
  Result<Dir*> enter_to_change(Inode dir);  // also kNotFound if it was removed
  Result<Attributes> lookup_in(Inode parent, std::string_view name);
  Result<std::optional<Attributes>> find_in(Inode parent, std::string_view name);
  Result<std::optional<Attributes>> find_in_upper(Inode parent, std::string_view name);
  Result<std::optional<Attributes>> find_in_base(const Dir& dir, std::string_view name);
  // `own` is the node of the upper layer with that name.
  Result<std::optional<Attributes>> find_to_hide(Inode parent, std::string_view name,
                                                 const std::optional<Attributes>& own);
  Result<std::optional<Attributes>> find_to_keep_hidden(Inode parent, std::string_view name,
                                                        const std::optional<Attributes>& own);
  Result<Names*> whiteouts_of(Inode number, Dir& dir);
  Result<std::optional<Inode>> find_base_dir(Inode parent, std::string_view name, const Copy* copy);
  Status join_base(Inode number, Dir& dir);
  Dir& know_dir(Inode number, Inode parent, std::string_view name, std::optional<Inode> base);
  Result<std::uint32_t> count_links(Inode number, const Attributes& own);
  Result<bool> is_empty(Inode number);
  Result<std::vector<DirEntry>> list_merged(Inode number);
  bool is_within(Inode dir, Inode ancestor) const;
  std::string path_of(Inode dir) const;
  std::string path_of(Inode dir, std::string_view name) const;
  std::string base_path_of(Inode dir) const;
  std::string base_path_of(Inode dir, std::string_view name) const;

  // Copying up. None of these changes what the overlay shows.
  Result<Inode> upper_dir(Inode dir);
  Status copy_root();
  Result<Inode> copy_dir(Inode dir);
  Result<Inode> copy_up(const View& view, std::uint64_t content_max);
  Result<Inode> make_copy(const View& view, Inode parent, std::string_view name, const std::string& base_path,
                          std::uint32_t hidden_names);
  Result<Inode> make_nameless_copy(const View& view);
  Result<std::optional<Place>> find_place(Inode number);
  Status copy_xattrs(Inode base, Inode upper, const Attributes& as);
  Status fetch(Copy& copy, std::uint64_t begin, std::uint64_t end);
  Status keep_ancestor(Inode number, const Copy& copy);
  Result<std::optional<std::string>> read_ancestor(Inode number, const Attributes& file);
  Result<std::optional<std::string>> find_replaced(const std::optional<Attributes>& own,
                                                   const std::optional<Attributes>& in_base);
  Result<std::optional<Attributes>> find_seen(Inode parent, std::string_view name,
                                              const std::optional<Attributes>& own);
  // What a node of the upper layer records of the base's node under this name. nullopt: it covers that.
  struct OwnRecord {
    std::optional<Attributes> seen;  // absent: another program made the copy
  };
  Result<std::optional<OwnRecord>> find_own_record(Inode parent, std::string_view name, const Attributes& own);
  // Call in the unit of a change, before the merged tree shows something else under the name than the base's node.
  Status note_cover(Inode parent, std::string_view name, const std::optional<Attributes>& own,
                    const std::optional<Attributes>& in_base);
  Result<Timestamp> fold_covers_below(const std::string& place);
  Status keep_cover_above(const std::string& place);
  Status end_cover(Inode parent, std::string_view name);
  // Whether the base has another node there than the agent saw.
  Result<bool> is_unseen(Inode parent, std::string_view name, const std::optional<Attributes>& own,
                         const std::optional<Attributes>& in_base);
  Result<std::vector<ByteRange>*> ranges_of(Copy& copy);
  Result<Source> find_base_of(const Copy& copy);  // kIo if its content is no longer what was copied
  Result<std::size_t> read_source(const Source& source, std::uint64_t offset, MutableBytes out);
  Status check_source(Copy& copy, Inode number);  // kIo if a part is missing for good: no change could be applied
  bool is_untouched(const Copy& copy);
  // Follows no link, so it stays below the same directories. nullopt also if that cannot be seen.
  std::optional<Attributes> find_in_base_now(std::string_view base_path);
  void set_ranges(Copy& copy, std::vector<ByteRange> ranges);
  void hold(const Attributes& seen);
  void keep_held();  // copies the rest of held files that the host has moved, replaced or removed
  std::vector<Inode> list_lost();
  bool is_frozen(const Copy& copy);  // it stays a copy of a version that the base no longer has (Cover)
  bool copy_more(Inode base);        // whether something is left
  static Error base_changed(const Copy& copy);
  Result<Inode> node_for_change(Inode node, std::uint64_t begin, std::uint64_t end, std::uint64_t content_max);
  Result<Inode> file_for_change(Inode node, std::uint64_t begin, std::uint64_t end);
  // Copies [begin, end) and calls `body` with the upper layer's file, as one change if the base has the file too.
  template <class T>
  Result<T> change_content(Inode node, std::uint64_t begin, std::uint64_t end,
                           const std::function<Result<T>(Inode top)>& body);
  Result<bool> changes_nothing(Inode node, const AttributeChanges& changes);
  Status check_changes(Inode node, const AttributeChanges& changes);
  Status cut_ranges(Inode node, std::uint64_t size);
  Status clear_range(Inode node, Inode top, AllocateMode mode, ByteRange gone);
  static std::vector<ByteRange> without(const std::vector<ByteRange>& ranges, ByteRange gone);  // ranges minus gone
  void forget_copy(Inode number);

  // Following the base.
  std::optional<Inode> follow_entry(Inode base_dir, std::string_view name);  // the number of a copy that may follow
  void follow_node(Inode base_node);
  void follow_base(Inode number);
  void take_over_now(Inode number);
  bool waits_for_apply();
  bool follow_after_apply();  // true if copies may have followed
  void give_number_back(Inode number);
  Inode number_to_show(Inode base);
  std::vector<Inode> show_base_again();             // returns the nodes that have different content as a result
  void follow_all();                                // when it is unknown what has changed in the base
  std::optional<Inode> find_to_follow(Inode node);  // the number of an untouched copy whose file in the base is another
  Result<std::size_t> read_now(Inode node, std::uint64_t offset, MutableBytes out);
  bool is_behind(const Copy& copy, const Attributes& own, const Attributes& now) const;
  Status take_over(Copy& copy, Inode number);
  Status give_way(Inode parent, std::string_view name);
  void give_way_by_number(Inode number);

  // While an apply is under way.
  void hide_while_applying(Inode parent, std::string_view name);
  bool is_removed_meanwhile(Inode parent, std::string_view name) const;
  void end_whiteout(Inode parent, std::string_view name);
  void move_hidden_names(const std::string& from, const std::string& to);

  // Renames that the base has made, too (overlay_fs_moves.cc).
  Status take_moves(std::vector<Origin>& rows);
  void forget_settled_moves(const std::vector<Origin>& rows);
  bool concerns_moves(Inode base_dir, std::string_view name);
  bool follow_moves(Inode base_dir, std::string_view name);  // true if something shows another place of the base now
  bool follow_moves();
  BaseMoves list_settled(const BaseMoves& now) const;
  Status take_up_moves(const BaseMoves& settled);
  Status enter_copied_dirs();
  Status settle_moves(BaseMoves moves);

  // Parts of the calls above.
  Status check_content(const View& view);  // kIsDirectory, kInvalid
  using Maker = std::function<Result<Attributes>(Inode upper_parent)>;
  Result<Attributes> make(Inode parent, std::string_view name, const Maker& maker);
  Status remove(Inode parent, std::string_view name, const Attributes& entry);
  bool shows_another(Inode dir, std::string_view base_path) const;
  Status remove_own(Inode upper_parent, std::string_view name, const Attributes& entry,
                    const std::optional<Attributes>& own);
  Status remove_origin_of_removed(Inode number, Inode upper_node);
  void record_removal(Inode parent, std::string_view name, const Attributes& entry,
                      const std::optional<Attributes>& own, const std::optional<Attributes>& below, Timestamp at);
  // One side of a rename.
  struct Side {
    Inode parent;
    std::string_view name;
    std::optional<Attributes> entry;    // merged
    std::optional<Attributes> own;      // the upper layer's node of that name
    std::optional<Attributes> in_base;  // the base's node of that name, hidden or not
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
  Status keep_exchanged(const Side& moved, const Side& to);
  void settle_moved(const Side& from, const Side& to);

  UpperLayer& upper_;
  FileSystem& base_;
  std::uint64_t copy_whole_bytes_;
  std::unique_ptr<Listener> listener_;

  std::recursive_mutex mutex_;
  std::uint64_t epoch_ = 0;
  std::uint64_t losses_ = 0;
  bool is_loaded_ = false;
  bool has_moves_ = false;  // followed_ is known
  bool root_is_copied_ = false;
  std::unordered_map<Inode, Dir> dirs_;
  std::unordered_map<Inode, Copy> copies_;
  std::unordered_map<Inode, std::shared_ptr<const Fd>> held_;  // large files with copies, by the base's number
  std::unordered_map<Inode, Inode> numbers_;                   // of copies, by upper-layer number
  std::unordered_map<Inode, Inode> shown_as_;     // base's node → the other number that its copy is shown with
  std::unordered_map<Inode, Inode> substituted_;  // base's node that has moved away from its copy → its own number
  std::unordered_set<Inode> opaque_;              // by upper-layer number
  // What the agent knows of the base's node under the name of a node that is no copy, by upper-layer number.
  std::unordered_map<Inode, Attributes> applied_;
  std::unordered_set<Inode> young_;  // copies of versions that were young when they were read, by upper-layer number
  bool is_applying_ = false;
  bool has_waiting_ = false;  // since then, the base may have changed below copies that were not allowed to follow
  std::map<std::string, Names, std::less<>> removed_meanwhile_;  // since the apply began, by the directory's path
  std::size_t removed_meanwhile_count_ = 0;
  std::unordered_map<Inode, Lost> lost_names_;
  std::unordered_map<Inode, std::vector<Place>> places_;
  std::unordered_map<Inode, std::uint64_t> retained_;
  std::unordered_map<Inode, Removed> removed_;
  std::unordered_set<Inode> dead_dirs_;  // removed here and still retained: a kernel makes nothing in them any more
  // Copies without a name that are still retained, with the last one if it is known.
  std::unordered_map<Inode, std::optional<Place>> nameless_;
  std::unordered_set<Inode> passed_over_;  // copies whose number is the base's node again, by upper-layer number
  std::vector<View> given_back_;           // not reported to the listener yet
  std::unordered_map<Inode, Cookies> cookies_;
  BaseMoves followed_;  // the rows have the paths of before
};

}  // namespace warren
