// The records that an overlay keeps in its writable layer besides files: which names of the base are removed, which
// nodes are copies of the base's, and which content of a copy is still in the base.
//
// The agent file implements it (store/overlay/overlay_rows.h; rows: docs/format.md). OverlayFs gives them their
// meaning; here they are only stored. Paths are absolute and of the merged tree; base paths are of the base.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "fs/file_system.h"
#include "fs/types.h"

namespace warren {

// Numbers of the base's nodes have this bit, except the root; those of the upper layer do not.
inline constexpr std::uint64_t kBaseBit = std::uint64_t{1} << 62;
inline bool is_base_number(Inode node) { return (node.value & kBaseBit) != 0; }

// Copies of versions that the base no longer has have numbers with this bit as well, which the host's do not have.
inline constexpr std::uint64_t kFrozenBit = std::uint64_t{1} << 61;
inline bool is_frozen_number(Inode node) { return is_base_number(node) && (node.value & kFrozenBit) != 0; }

// Where a node of the upper layer comes from. Every directory that we made and that shows a directory of the base has
// one; a directory made by another program shows the base's directory of the same path.
struct Origin {
  Inode upper;
  // The path of the base's node when it was copied. "" for a node that is no copy: a directory that shows nothing of
  // the base, whatever the base has under its name (opaque), or a new node that an apply has written to the base, and
  // that stayed here for those who use it.
  std::string base_path;
  // The base's node as it was then, with its number. For a directory only number and type are compared later. Absent
  // for an opaque directory, and in rows of other programs.
  std::optional<Attributes> seen;
  // Names of the same node that are valid in the base but not in the upper layer: other hard links.
  std::uint32_t hidden_names = 0;
  // The node has no name any more, and some process has it open. Only read.
  bool is_orphan = false;

  bool operator==(const Origin&) const = default;
};

// A name of the base that was removed from the merged tree: deleted, or moved away.
struct Whiteout {
  std::string path;
  std::optional<Attributes> seen;  // the base's node as it was then; absent in rows of other programs

  bool operator==(const Whiteout&) const = default;
};

// What the base had under a name when the merged tree began to show something else there: the agent has made, moved or
// removed something. It holds for as long as that goes on, whatever the agent does under the name: what the base gets
// there meanwhile, the agent has not seen.
//
// A copy of the base's node of that name has none, except one of a version that the base no longer has: it stays what
// it is, and does not follow the base (changes/pinned/frozen_tree.h).
struct Cover {
  std::string base_path;
  std::optional<Attributes> seen;  // absent: the base had nothing there
  Timestamp at;

  bool operator==(const Cover&) const = default;
};

// Whether the base's node is what was seen of it. Of a directory only the node counts: its entries are compared by
// name.
inline bool is_as_seen(const Attributes& now, const Attributes& seen) {
  if (((now.mode ^ seen.mode) & S_IFMT) != 0 || now.inode != seen.inode) return false;
  if (now.is_directory()) return true;
  return now.size == seen.size && now.mtime == seen.mtime && now.mode == seen.mode && now.owner == seen.owner;
}

// One of several names of a node in the base that no longer leads to it, whatever is there now.
struct LostLink {
  std::string base_path;
  Inode base;
  std::uint64_t generation = 0;  // of the node; 0 if unknown
  Timestamp at;

  bool operator==(const LostLink&) const = default;
};

// From `begin` up to, not including, `end`.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  bool operator==(const ByteRange&) const = default;
};

// Whether a unit joins the open batch, or ends it first and is committed on its own, as by FileSystem::begin.
enum class Batched { kNo, kYes };

// Call everything but fs() and begin() within a unit of begin(). A writer checks everything first: a write unit that
// changed something and is destroyed without commit() may undo changes of others.
class UpperLayer {
 public:
  virtual ~UpperLayer() = default;

  virtual FileSystem& fs() = 0;

  // Like FileSystem::begin, but joins an open batch if there is one.
  virtual Result<std::unique_ptr<Unit>> begin(UnitAccess access) = 0;
  // For the outermost unit of a caller with a lock of its own. While it waits for another process to end its
  // transaction, the lock is released, so what it guards may have changed.
  virtual Result<std::unique_ptr<Unit>> begin(UnitAccess access, Batched batched,
                                              std::unique_lock<std::recursive_mutex>& held) = 0;

  // Call before a write that adds about this many bytes. kNoSpace, with nothing changed.
  virtual Status reserve(std::uint64_t bytes) = 0;

  // Changes whenever these rows may have changed other than by calls here: by another process, or by a rollback.
  virtual std::uint64_t epoch() = 0;
  // How often changes made through this object were undone: whatever the caller remembers of them is wrong.
  virtual std::uint64_t losses() = 0;
  // Whether an apply writes what is here to the base, or an undo takes it back. Whenever that changes, so does epoch().
  virtual Result<bool> is_applying() = 0;

  // Creates a node with exactly these attributes (except number and nlink), under a free name. Its directory does not
  // change, since this copies something that was visible there all along. A file has the size and no content; a symlink
  // has the target.
  virtual Result<Inode> adopt(Inode parent, std::string_view name, const Attributes& as, std::string_view target) = 0;
  // Sets mode, owner and all times of a node, without leaving a trace.
  virtual Status restore(Inode node, const Attributes& as) = 0;

  // Keeps a retained node that has just lost its last name here, since the base has names for it; and ends that.
  virtual Status keep_nameless(Inode node) = 0;
  virtual Status let_go(Inode node) = 0;

  // Reports the name as changed to everyone who has the agent open.
  virtual void note_name(Inode dir, std::string_view name) = 0;

  // `upper_dir` is the directory of the path. A second whiteout of the same path replaces the first. If the node has
  // other names, this one is lost to it from now on.
  virtual Status add_whiteout(Inode upper_dir, std::string_view path, const Attributes& seen,
                              std::string_view base_path) = 0;
  virtual Status remove_whiteout(std::string_view path) = 0;  // succeeds if there is none
  virtual Status cover_whiteout(std::string_view path) = 0;   // like remove_whiteout, but a lost link stays lost
  virtual Result<std::vector<LostLink>> list_lost_links() = 0;
  virtual Status put_lost_link(const LostLink& link) = 0;  // replaces one with the same path
  virtual Status remove_lost_link(std::string_view base_path) = 0;
  virtual Status move_whiteouts_below(std::string_view from, std::string_view to) = 0;
  virtual Status remove_whiteouts_below(std::string_view dir) = 0;
  virtual Result<std::vector<std::string>> list_whiteouts_in(std::string_view dir) = 0;  // names
  virtual Result<std::vector<Whiteout>> list_whiteouts() = 0;                            // by path
  // Whiteout::seen of the path; also nullopt if there is no whiteout.
  virtual Result<std::optional<Attributes>> find_removed(std::string_view path) = 0;

  virtual Result<std::optional<Cover>> find_cover(std::string_view base_path) = 0;
  virtual Result<std::vector<Cover>> list_covers() = 0;
  virtual Status put_cover(const Cover& cover) = 0;  // replaces one for the same path; without a time: now
  virtual Status remove_cover(std::string_view base_path) = 0;
  virtual Result<std::vector<Cover>> list_covers_below(std::string_view base_dir) = 0;

  virtual Result<std::vector<Origin>> list_origins() = 0;
  virtual Status put_origin(const Origin& origin) = 0;  // replaces one for the same node
  virtual Status remove_origin(Inode upper) = 0;        // and everything below for the node

  // The ranges of a file that are read from the base, in order, not adjacent. None: the file is complete.
  virtual Result<std::vector<ByteRange>> list_base_ranges(Inode upper) = 0;
  virtual Status set_base_ranges(Inode upper, const std::vector<ByteRange>& ranges) = 0;

  // The base's content when the file was copied, for merging; kept only for small text files.
  virtual Status keep_ancestor(Inode upper, Bytes content) = 0;
  virtual Result<std::optional<std::string>> find_ancestor(Inode upper) = 0;
};

}  // namespace warren
