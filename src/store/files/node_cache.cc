#include "store/files/node_cache.h"

namespace warren {
namespace {

// About 200 bytes each, so some 13 MB when both are full.
constexpr std::size_t kNodesKept = 32'768;
constexpr std::size_t kEntriesKept = 32'768;

}  // namespace

std::size_t NodeCache::Hash::operator()(NameView name) const {
  return std::hash<std::string_view>{}(name.name) ^ (name.parent.value * 0x9E3779B97F4A7C15ULL);
}

std::optional<Attributes> NodeCache::find(Inode node) const {
  auto found = nodes_.find(node);
  return found == nodes_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Inode> NodeCache::find_entry(Inode parent, std::string_view name) const {
  auto found = entries_.find(NameView{parent, name});
  return found == entries_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<NodeCache::Entry> NodeCache::find_entry_of(Inode node) const {
  for (const auto& [entry, found] : entries_) {
    if (found == node) return Entry(entry.parent, entry.name);
  }
  return std::nullopt;
}

void NodeCache::put(const Attributes& node) {
  if (nodes_.size() >= kNodesKept) nodes_.clear();
  nodes_.insert_or_assign(node.inode, node);
}

void NodeCache::put_entry(Inode parent, std::string_view name, Inode node) {
  if (entries_.size() >= kEntriesKept) entries_.clear();
  entries_.insert_or_assign(Name{parent, std::string(name)}, node);
}

void NodeCache::touch(Inode node, Timestamp now) {
  auto found = nodes_.find(node);
  if (found == nodes_.end()) return;
  found->second.mtime = now;
  found->second.ctime = now;
}

void NodeCache::erase_entry(Inode parent, std::string_view name) {
  auto found = entries_.find(NameView{parent, name});
  if (found != entries_.end()) entries_.erase(found);
}

void NodeCache::clear() {
  nodes_.clear();
  entries_.clear();
}

}  // namespace warren
