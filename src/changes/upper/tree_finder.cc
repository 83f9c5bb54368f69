#include "changes/upper/tree_finder.h"

#include <algorithm>

#include "base/path.h"
#include "fs/path_walk.h"

namespace warren {

TreeFinder::~TreeFinder() { clear(); }

void TreeFinder::clear() { cut(0); }

void TreeFinder::cut(std::size_t count) {
  while (chain_.size() > count) {
    fs_.forget(chain_.back().dir, 1);
    chain_.pop_back();
  }
}

Result<std::optional<Attributes>> TreeFinder::find_name(Inode dir, std::string_view name) {
  Result<Attributes> found = fs_.lookup(dir, name);
  if (found.ok()) return std::optional(*found);
  Code code = found.error().code();
  if (code == Code::kNotFound || code == Code::kNotDirectory || code == Code::kStale)
    return std::optional<Attributes>();
  return std::move(found).take_error();
}

Result<std::optional<Attributes>> TreeFinder::find(std::string_view path) {
  if (path == "/") {
    Attributes root = WARREN_TRY(fs_.get_attributes(kRootInode));
    return std::optional(root);
  }
  // Compared once and not for each directory, which in a deep tree are as many as the path has bytes.
  std::string_view last = chain_.empty() ? std::string_view() : chain_.back().path;
  auto common = static_cast<std::size_t>(std::ranges::mismatch(last, path).in2 - path.begin());
  auto is_above = [&](std::size_t length) { return length <= common && length < path.size() && path[length] == '/'; };
  std::size_t kept = chain_.size();
  while (kept > 0 && !is_above(chain_[kept - 1].path.size())) --kept;
  cut(kept);
  std::size_t at = chain_.empty() ? 1 : chain_.back().path.size() + 1;
  for (;;) {
    Inode dir = chain_.empty() ? kRootInode : chain_.back().dir;
    std::size_t end = path.find('/', at);
    std::optional<Attributes> next =
        WARREN_TRY(find_name(dir, path.substr(at, end - at)).within(doing("look up", path)));
    if (!next || end == path.npos) return next;
    if (!next->is_directory()) return std::optional<Attributes>();
    WARREN_TRY(fs_.retain(next->inode));
    chain_.push_back({std::string(path.substr(0, end)), next->inode});
    at = end + 1;
  }
}

}  // namespace warren
