#include <warren/v1/vfs.h>

#include <utility>

#include "api/attributes.h"
#include "api/state.h"
#include "base/json.h"
#include "fs/expiry.h"
#include "fs/path_ops.h"
#include "vfs/on_record.h"
#include "vfs/values.h"

namespace warren::v1 {
namespace {

struct OpenPath {
  NamespaceView& view;
  std::string path;
};

warren::Space to_internal(Space space) { return space == Space::kUser ? warren::Space::kUser : warren::Space::kKernel; }

// The view's state, opened by the first call; names_mutex is not held meanwhile, since a thread may come from a unit.
Result<AgentState*> view_of(AgentState& state, Space space) {
  std::unique_ptr<AgentState>& view = state.views[space == Space::kUser ? 0 : 1];
  {
    std::lock_guard lock(state.names_mutex);
    if (view) return view.get();
  }
  AgentNamespaceOptions options{.mounts = state.mounts, .stores = state.mounted_stores};
  WARREN_TRY(AgentNamespace::open_once(state.names, *state.agent, options, state.clock));
  Caller caller{.agent = state.names->agent_id(), .space = to_internal(space), .door = "library", .session = {}};
  auto opened = std::make_unique<AgentState>();
  opened->shown = (*state.names)->view(std::move(caller));
  std::lock_guard lock(state.names_mutex);
  if (!view) view = std::move(opened);
  return view.get();
}

Result<OpenPath> open_path(AgentState& state, Space space, std::string_view path, std::string_view op) {
  AgentState* view = WARREN_TRY(view_of(state, space));
  std::string resolved = WARREN_TRY(view->shown->resolve(**state.names, path, op));
  return OpenPath{.view = *view->shown, .path = std::move(resolved)};
}

}  // namespace

Result<std::string> Vfs::read(std::string_view path) {
  OpenPath at = WARREN_TRY(open_path(*state_, space_, path, "read"));
  return on_record(at.view, "read", at.path, read_file(at.view, at.path));
}

Status Vfs::write(std::string_view path, std::string_view value, const VfsWriteOptions& options) {
  OpenPath at = WARREN_TRY(open_path(*state_, space_, path, "write"));
  std::optional<std::int64_t> expires_at_ms;
  if (options.time_to_live) expires_at_ms = WARREN_TRY(expiry_after(state_->clock, *options.time_to_live));
  return state_->names->write(at.view, at.path, value, options.as_is ? AsIs::kYes : AsIs::kNo, expires_at_ms);
}

Status Vfs::append(std::string_view path, std::string_view value, const VfsWriteOptions& options) {
  if (options.time_to_live)
    return Error(Code::kInvalid, "a time to live is for a file that is written, not appended to");
  OpenPath at = WARREN_TRY(open_path(*state_, space_, path, "append"));
  return append_value(at.view, at.path, value, options.as_is ? AsIs::kYes : AsIs::kNo);
}

Result<bool> Vfs::exists(std::string_view path) {
  OpenPath at = WARREN_TRY(open_path(*state_, space_, path, "exists"));
  return warren::exists(at.view, at.path);
}

Result<std::vector<std::string>> Vfs::list(std::string_view path) {
  OpenPath at = WARREN_TRY(open_path(*state_, space_, path, "list"));
  return on_record(at.view, "list", at.path, read_dir(at.view, at.path));
}

Status Vfs::remove(std::string_view path, const RemoveOptions& options) {
  OpenPath at = WARREN_TRY(open_path(*state_, space_, path, "delete"));
  return on_record(at.view, "delete", at.path, warren::remove(at.view, at.path, to_internal(options)));
}

Result<VfsStat> Vfs::stat(std::string_view path) {
  OpenPath at = WARREN_TRY(open_path(*state_, space_, path, "stat"));
  warren::Attributes node = WARREN_TRY(lstat(at.view, at.path));
  VfsStat stat{.attributes = to_public(node), .expires_at_ms = std::nullopt};
  if (node.is_file()) stat.expires_at_ms = WARREN_TRY(find_expiry(at.view, node.inode));
  return stat;
}

Result<std::vector<VfsMount>> Vfs::mounts() {
  WARREN_TRY(view_of(*state_, space_));
  std::vector<VfsMount> mounts;
  for (const MountInfo& mount : (*state_->names)->mounts()) {
    mounts.push_back({.path = mount.path, .backend = mount.backend});
  }
  return mounts;
}

Result<std::vector<VfsMatch>> Vfs::query(std::string_view path, const VfsQuery& query) {
  AgentState* view = WARREN_TRY(view_of(*state_, space_));
  std::string resolved = WARREN_TRY(view->shown->resolve(**state_->names, path, "query"));
  VectorQuery asked{.embedding = query.embedding, .top_k = query.top_k, .filter = {}};
  if (!query.filter.empty()) {
    Json filter = WARREN_TRY(parse_json(query.filter).within("filter"));
    asked.filter = WARREN_TRY(parse_vector_filter(filter));
  }
  auto may_read = [&](const std::string& at, OtherNames names) { return view->shown->may_read(at, names); };
  Result<std::vector<VectorMatch>> answer = state_->names->query(resolved, asked, may_read);
  WARREN_TRY(view->shown->record("query", resolved, answer.ok() ? Status(Ok{}) : Status(answer.error())));
  std::vector<VectorMatch> found = WARREN_TRY(std::move(answer));
  std::vector<VfsMatch> matches;
  for (VectorMatch& match : found) {
    matches.push_back({.path = std::move(match.item.id),
                       .score = match.score,
                       .text = std::move(match.item.text),
                       .metadata = dump_json(match.item.metadata)});
  }
  return matches;
}

Result<Files> Vfs::files() {
  AgentState* view = WARREN_TRY(view_of(*state_, space_));
  return Files(*view);
}

}  // namespace warren::v1
