// The part of SqliteFs for encrypted files: which new ones are, and changing that.
#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "store/files/sqlite_fs.h"
#include "store/store.h"

namespace warren {
namespace {

constexpr std::size_t kDirPathsKept = 65'536;

}  // namespace

Result<Attributes> SqliteFs::get_content_row(Inode node) {
  Attributes row = WARREN_TRY(get_file_row(node));
  if (!ciphers_) return row;
  ciphers_->follow(nodes_->seen_epoch());
  WARREN_TRY(ciphers_->admit(node, row.size));
  return row;
}

// Unlike path_for_record it is exact: what is encrypted depends on it.
Result<std::string> SqliteFs::path_of_dir(Inode dir) {
  if (nodes_->seen_epoch() != dir_paths_epoch_ || dir_paths_.size() >= kDirPathsKept) {
    dir_paths_epoch_ = nodes_->seen_epoch();
    dir_paths_.clear();
  }
  std::string below;
  Inode at = dir;
  for (int depth = 0; depth < limits::kTreeDepth; ++depth) {
    if (at == kRootInode || at == namespace_root_) {
      return dir_paths_[dir] = below;
    }
    if (auto known = dir_paths_.find(at); known != dir_paths_.end()) {
      std::string path = known->second + below;
      return dir_paths_[dir] = path;
    }
    std::optional<EntryName> entry = nodes_->recent_entry_of(at);
    if (!entry) {
      std::vector<EntryName> all = WARREN_TRY(nodes_->list_entries_of(at));
      // A directory without a name is the root of the namespace, which nobody has opened yet.
      if (all.empty()) return dir_paths_[dir] = below;
      entry = all.front();
    }
    below.insert(0, "/" + entry->name);
    at = entry->parent;
  }
  return Error(Code::kLimit, fmt::format("directories are nested over {} deep", limits::kTreeDepth));
}

Result<ContentKey*> SqliteFs::key_for_new(Inode parent, std::string_view name) {
  ciphers_->follow(nodes_->seen_epoch());
  if (ciphers_->keys().patterns().empty()) return nullptr;
  std::string path = WARREN_TRY(path_of_dir(parent));
  path += fmt::format("/{}", name);
  std::optional<std::int64_t> id = ciphers_->keys().find_for(path);
  if (!id) return nullptr;
  return ciphers_->keys().get(*id);
}

Result<std::optional<std::int64_t>> SqliteFs::find_content_key(Inode node) {
  if (!ciphers_) return std::optional<std::int64_t>();
  Transaction scope = WARREN_TRY(read_scope());
  Attributes row = WARREN_TRY(get_row(node));
  ciphers_->follow(nodes_->seen_epoch());
  if (!row.is_file()) return std::optional<std::int64_t>();
  return ciphers_->find_key_of(node);
}

Result<std::optional<std::string>> SqliteFs::find_key_name(Inode node) {
  std::optional<std::int64_t> id = WARREN_TRY(find_content_key(node));
  if (!id) return std::optional<std::string>();
  const ContentKeyRow* key = ciphers_->keys().find_row(*id);
  return std::optional(key != nullptr ? name_of_content_key(key->salt) : std::to_string(*id));
}

Status SqliteFs::recode(Inode node, std::optional<std::int64_t> key) {
  if (!ciphers_) return Error(Code::kInvalid, "the agent has no keys for files");
  Transaction scope = WARREN_TRY(write_scope());
  Attributes row = WARREN_TRY(get_content_row(node));
  ContentKey* wanted = nullptr;
  if (key) wanted = WARREN_TRY(ciphers_->keys().get(*key));
  WARREN_TRY(chunks_->recode(node, row.size, wanted));
  store_.journal()->note_data(node);
  return scope.commit();
}

}  // namespace warren
