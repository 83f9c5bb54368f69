// Rows of fs_inode and fs_dentry that were read lately, so that walking a path costs no query.
//
// It knows nothing of databases: Nodes, which owns those tables, keeps it right and drops it whenever
// somebody else may have written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "fs/types.h"

namespace warren {

// What put_entry may say of a name that leads nowhere; no node has this number.
inline constexpr Inode kNoEntry{0};

// Bounded: a full half is emptied, and what is still used comes back by itself.
class NodeCache {
 public:
  std::optional<Attributes> find(Inode node) const;
  std::optional<Inode> find_entry(Inode parent, std::string_view name) const;

  void put(const Attributes& node);
  void put_entry(Inode parent, std::string_view name, Inode node);
  void touch(Inode node, Timestamp now);  // mtime and ctime, if it is known
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
