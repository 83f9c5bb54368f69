// What a session of `warren run` shows: its base and its changes.
#include <fmt/format.h>

#include "base/path.h"
#include "drives/ingest.h"
#include "drives/ingest_parts.h"
#include "fs/list_dir.h"
#include "fs/path_ops.h"

namespace warren {

struct Ingest::SessionWalk {
  FileSystem& tree;
  Ref top;
  std::string source;  // "session:NAME", before the paths
  IgnoreStack ignored = {};
};

Status Ingest::add_session(FileSystem& tree, const std::string& session) {
  SessionWalk walk {
    .tree = tree, .top = WARREN_TRY(make_ref("session", session))
    , .source = "session:" + session
  };
  seen_ = std::make_unique<Seen>();
  Status done = see_session(walk);
  if (done.ok()) done = remove_unseen(walk.top, walk.top, walk.source);  // first: a directory may be where a file was
  if (done.ok()) done = walk_session(walk);
  if (done.ok()) done = finish();
  seen_.reset();
  return done;
}

Status Ingest::walk_session(SessionWalk& walk) {
  std::vector<std::pair<Inode, std::string>> left{{kRootInode, ""}};
  while (!left.empty()) WARREN_TRY(visit_session_dir(walk, left));
  return Ok{};
}

// Notes what the session has, and adds nothing.
Status Ingest::see_session(SessionWalk walk) {
  IngestTotals totals;
  std::uint64_t ignored = report_.ignored;
  measured_ = &totals;
  Status done = walk_session(walk);
  measured_ = nullptr;
  report_.ignored = ignored;
  return done;
}

// The last of `left`, whose directories are added to it.
Status Ingest::visit_session_dir(SessionWalk& walk, std::vector<std::pair<Inode, std::string>>& left) {
  auto [inode, relative] = std::move(left.back());
  left.pop_back();
  Result<std::vector<DirEntry>> entries = list_dir(walk.tree, inode, DirDetail::kAttributes);
  if (!entries.ok()) {
    if (measured_ == nullptr) fail(below_path(walk.source, relative), entries.error());
    Result<Ref> ref = make_ref(walk.top.drive, below_path(walk.top.path, relative));
    if (ref.ok()) seen_->unread.push_back(*std::move(ref));
    return Ok{};
  }
  for (std::string_view file : kIgnoreFiles) {
    std::string path = fmt::format("/{}", below_path(relative, file));
    Result<Attributes> node = lstat(walk.tree, path);
    if (!node.ok() || !node->is_file() || node->size > kIgnoreFileBytes) continue;
    Result<std::string> text = read_file(walk.tree, path, {.size_bytes_max = kIgnoreFileBytes});
    if (text.ok()) walk.ignored.add(relative, IgnoreRules(*text));
  }
  for (const DirEntry& entry : *entries) {
    if (!entry.attributes) continue;
    const Attributes& node = *entry.attributes;
    std::string path = below_path(relative, entry.name);
    auto kind = node.is_directory() ? IgnoreRules::Kind::kDirectory : IgnoreRules::Kind::kFile;
    bool is_out = (!node.is_directory() && !node.is_file()) || is_never_added(entry.name) ||
                  exclude_.judge(path, kind) == Ignore::kYes || walk.ignored.is_ignored(path, kind) ||
                  (node.is_file() && !is_wanted(path));
    if (is_out) ++report_.ignored;
    else if (node.is_directory()) left.emplace_back(node.inode, std::move(path));
    else WARREN_TRY(add_session_file(walk, node, path));
  }
  return Ok{};
}

Status Ingest::add_session_file(SessionWalk& walk, const Attributes& node, const std::string& path) {
  WARREN_TRY(check_not_cancelled());
  std::string source = below_path(walk.source, path);
  Result<Ref> ref = make_ref(walk.top.drive, below_path(walk.top.path, path));
  Result<std::string> content = Error(Code::kInternal, "not read");
  if (ref.ok()) seen_->files.insert(to_string(*ref));
  if (measured_ != nullptr) return Ok{};
  if (!ref.ok()) content = ref.error();
  else if (node.size > kAddedFileBytes) {
    content =
        Error(Code::kTooLarge, fmt::format("it has {} bytes; items are added up to {}", node.size, kAddedFileBytes));
  } else {
    content = read_file(walk.tree, "/" + path, {.size_bytes_max = kAddedFileBytes});  // it may grow meanwhile
  }
  if (content.ok()) return queue_content(*ref, std::move(source), std::move(content).take_value(), "");
  if (content.error().code() == Code::kNotFound) return Ok{};  // gone meanwhile: the next time it is deleted
  fail(std::move(source), content.error());
  return Ok{};
}

}  // namespace warren
