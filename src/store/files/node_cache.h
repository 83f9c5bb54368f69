// A cache of rows of fs_inode and fs_dentry, so that walking a path costs no query.
//
// It does not know the database: Nodes, which owns those tables, keeps it up to date and drops it when
// another connection may have written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "fs/types.h"

namespace warren {

// Cached for a name that does not exist; no node has this number.
inline constexpr Inode kNoEntry{0};

// Bounded: when the nodes or the entries are full they are all dropped, and the ones in use are read again.
class NodeCache {
 public:
  std::optional<Attributes> find(Inode node) const;
  std::optional<Inode> find_entry(Inode parent, std::string_view name) const;
  using Entry = std::pair<Inode, std::string>;           // parent and name
  std::optional<Entry> find_entry_of(Inode node) const;  // O(entries)

  void put(const Attributes& node);
  void put_entry(Inode parent, std::string_view name, Inode node);
  void touch(Inode node, Timestamp now);  // mtime and ctime, if it is cached
  void erase(Inode node) { nodes_.erase(node); }
  void erase_entry(Inode parent, std::string_view name);
  void clear();

 private:
  struct NameView {
    Inode parent;
    std::string_view name;
  };
  struct Name {
    Inode parent;
    std::string name;
    operator NameView() const { return {parent, name}; }  // NOLINT: implicit by design, for lookups without a copy
  };
  struct Hash {
    using is_transparent = void;  // NOLINT: the standard's name
    std::size_t operator()(NameView name) const;
  };
  struct Equal {
    using is_transparent = void;  // NOLINT: the standard's name
    bool operator()(NameView a, NameView b) const { return a.parent == b.parent && a.name == b.name; }
  };

  std::unordered_map<Inode, Attributes> nodes_;
  std::unordered_map<Name, Inode, Hash, Equal> entries_;
};

}  // namespace warren
