// MountedState: making mounts what a checkpoint has.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "agent/checkpoints/checkpoints.h"
#include "agent/checkpoints/mounted_listing.h"
#include "agent/checkpoints/mounted_state.h"
#include "agent/checkpoints/put_back.h"
#include "agent/namespace_parts.h"
#include "base/path.h"
#include "fs/path_ops.h"
#include "os/threads/parallel.h"
#include "store/files/sqlite_fs.h"

namespace warren {
namespace {

// Of a key, at or below another; everything is below "".
bool is_below(std::string_view key, std::string_view top) {
  return top.empty() || (key.starts_with(top) && (key.size() == top.size() || key[top.size()] == '/'));
}

// Whether the store has this very value, because the copy that was made of what it has now is the same.
bool is_known(const CopiedBefore& live, const MountedRow& row, const std::string& token) {
  auto known = live.tokens.find(row.key);
  auto copied = live.rows.find(row.key);
  return !token.empty() && known != live.tokens.end() && known->second == token && copied != live.rows.end() &&
         copied->second == row;
}

Error unfinished(const std::string& mount, Error error) {
  return {error.code(), fmt::format("restore {}: {}", quote(mount), error.message()),
          "the agent's own files and keys are restored; repeat the restore to finish it"};
}

Error nothing_there(std::string_view path, std::int64_t checkpoint) {
  return {Code::kNotFound, fmt::format("there is no {}, neither in checkpoint {} nor now", quote(path), checkpoint)};
}

// An earlier state of the agent's rows; of an agent in memory, the rows as they were restored.
struct PastRows {
  std::unique_ptr<Agent> past;
  Store* store = nullptr;
};

Result<PastRows> open_past_rows(Agent& agent, std::int64_t checkpoint, Clock& clock) {
  PastRows rows;
  rows.store = &agent.store();
  if (agent.path() == ":memory:") return rows;
  AgentOptions how{.id_or_path = agent.path(), .mode = OpenMode::kReadOnly, .layers = Layers::kOwn};
  how.checkpoint = checkpoint;
  rows.past = WARREN_TRY(Agent::open(how, clock));
  rows.store = &rows.past->store();
  return rows;
}

Result<std::vector<std::string>> covered_in(Store& source) {
  auto view = WARREN_TRY(source.fs().begin(UnitAccess::kRead));
  return MountedRows(source).list_covered();
}

}  // namespace

Status MountedState::copy_out(std::int64_t checkpoint) {
  PastRows rows = WARREN_TRY(open_past_rows(agent_, checkpoint, clock_));
  std::vector<std::string> covered = WARREN_TRY(covered_in(*rows.store));
  for (const Mount& mount : mounts_) {
    if (!std::ranges::count(covered, mount.path)) continue;
    Result<bool> done = copy_out_one(mount, *rows.store, "");
    if (!done.ok()) return unfinished(mount.path, std::move(done).take_error());
  }
  return Ok{};
}

Status MountedState::check_covered(std::int64_t checkpoint, const std::vector<std::string>& covered,
                                   std::string_view path) const {
  const Mount* mount = find_mount(path);
  if (mount != nullptr && std::ranges::count(covered, mount->path)) return Ok{};
  return Error(Code::kNotFound, fmt::format("checkpoint {} does not cover what is mounted at {}", checkpoint,
                                            quote(mount == nullptr ? path : std::string_view(mount->path))));
}

Status MountedState::copy_out_path(std::int64_t checkpoint, std::string_view path) {
  PastRows rows = WARREN_TRY(open_past_rows(agent_, checkpoint, clock_));
  std::vector<std::string> covered = WARREN_TRY(covered_in(*rows.store));
  WARREN_TRY(check_covered(checkpoint, covered, path));
  const Mount* mount = find_mount(path);
  std::string_view below = path.size() > mount->path.size() ? path.substr(mount->path.size() + 1) : std::string_view();
  Result<bool> done = copy_out_one(*mount, *rows.store, below);
  if (!done.ok()) return unfinished(mount->path, std::move(done).take_error());
  return *done || below.empty() ? Status(Ok{}) : Status(nothing_there(path, checkpoint));
}

// Returns whether something is there, then or now.
Result<bool> MountedState::copy_out_one(const Mount& mount, Store& source, std::string_view below) {
  MountedRows rows(source);
  return mount.store != nullptr ? copy_out_store(mount, rows, source, below)
                                : copy_out_working(mount, rows, source, below);
}

Result<bool> MountedState::copy_out_store(const Mount& mount, MountedRows& rows, Store& source,
                                          std::string_view below) {
  if (mount.fs != nullptr) WARREN_TRY(mount.fs->sync(kRootInode));
  CopyBudget budget{.values = kMountedValues * 2, .bytes = kMountedBytes * 2};
  auto listing = WARREN_TRY(list_mounted(*mount.store, mount.path, budget));
  if (!listing) return Error(Code::kUnsupported, "the store cannot list its values");
  std::erase_if(*listing, [&](const BlobInfo& info) { return !is_below(info.key, below); });
  std::map<std::string, MountedRow> wanted = WARREN_TRY(list_wanted(mount, rows, source, below));
  bool is_anything = !wanted.empty() || !listing->empty();
  CopiedBefore live = WARREN_TRY(read_before(mount));
  std::vector<std::string> extra;
  for (const BlobInfo& info : *listing) {
    auto row = wanted.find(info.key);
    if (row == wanted.end()) extra.push_back(info.key);
    else if (is_known(live, row->second, mounted_token(mount.identity, info))) wanted.erase(row);
  }
  WARREN_TRY(for_each_parallel(
      extra.size(),
      [&](std::size_t i) -> Status {
        WARREN_TRY(mount.store->remove(extra[i]));
        return Ok{};
      },
      kRequestsAtOnce));
  std::vector<MountedRow> different;
  for (auto& [key, row] : wanted) different.push_back(std::move(row));
  WARREN_TRY(put_values(mount, rows, source, different));
  return is_anything;
}

// Without what has expired.
Result<std::map<std::string, MountedRow>> MountedState::list_wanted(const Mount& mount, MountedRows& rows,
                                                                    Store& source, std::string_view below) {
  auto view = WARREN_TRY(source.fs().begin(UnitAccess::kRead));
  std::vector<MountedRow> all = WARREN_TRY(rows.list(mount.path));
  std::int64_t now_ms = clock_.now_us() / 1000;
  std::map<std::string, MountedRow> wanted;
  for (MountedRow& row : all) {
    bool has_expired = row.expires_at_ms && *row.expires_at_ms <= now_ms;
    if (is_below(row.key, below) && !has_expired) wanted.emplace(row.key, std::move(row));
  }
  return wanted;
}

Status MountedState::put_values(const Mount& mount, MountedRows& rows, Store& source,
                                const std::vector<MountedRow>& wanted) {
  bool has_ttl = mount.store->abilities().ttl;
  for (std::size_t at = 0; at < wanted.size();) {
    std::size_t end = batch_end(wanted.size(), at, [&](std::size_t i) { return wanted[i].size; });
    std::vector<std::string> values;
    {
      auto view = WARREN_TRY(source.fs().begin(UnitAccess::kRead));
      for (std::size_t i = at; i < end; ++i) {
        std::optional<std::string> value = WARREN_TRY(rows.find_value(mount.path, wanted[i].key));
        if (!value) return Error(Code::kConflict, fmt::format("the copy of {} is gone", quote(wanted[i].key)));
        values.push_back(std::move(*value));
      }
    }
    std::vector<std::string> tokens(values.size());
    WARREN_TRY(for_each_parallel(
        values.size(),
        [&](std::size_t i) -> Status {
          PutOptions how;
          const MountedRow& row = wanted[at + i];
          std::int64_t left_ms = row.expires_at_ms ? *row.expires_at_ms - clock_.now_us() / 1000 : 0;
          if (row.expires_at_ms && has_ttl) how.ttl = std::chrono::milliseconds(std::max<std::int64_t>(left_ms, 1));
          BlobInfo put = WARREN_TRY(mount.store->put(row.key, as_bytes(values[i]), how));
          tokens[i] = mounted_token(mount.identity, put);
          return Ok{};
        },
        kRequestsAtOnce));
    Transaction change = WARREN_TRY(agent_.store().begin_write());
    MountedRows live(agent_.store());
    for (std::size_t i = at; i < end; ++i) WARREN_TRY(live.set_token(mount.path, wanted[i], tokens[i - at]));
    WARREN_TRY(change.commit());
    at = end;
  }
  return Ok{};
}

Result<FileSystem*> MountedState::working_for_writing() {
  if (working_ == nullptr) {
    working_store_ = WARREN_TRY(open_working_file(working_file_, agent_.store(), clock_).within("make /mem/working"));
    working_ = &working_store_->fs();
  }
  return working_;
}

Result<bool> MountedState::copy_out_working(const Mount& mount, MountedRows& rows, Store& source,
                                            std::string_view below) {
  std::unique_ptr<MemoryFs> tree;
  {
    auto view = WARREN_TRY(source.fs().begin(UnitAccess::kRead));
    tree = WARREN_TRY(tree_of_rows(rows, mount.path, clock_));
  }
  std::vector<std::string> names = WARREN_TRY(read_dir(*tree, "/"));
  if (working_ == nullptr && names.empty()) return false;
  FileSystem* working = WARREN_TRY(working_for_writing());
  std::string top = "/" + std::string(below);
  if (!below.empty()) {
    bool was_there = WARREN_TRY(exists(*tree, top));
    bool is_there = WARREN_TRY(exists(*working, top));
    if (was_there || is_there) WARREN_TRY(put_back(*tree, *working, {top}));
    return was_there || is_there;
  }
  std::vector<std::string> present = WARREN_TRY(read_dir(*working, "/"));
  std::set<std::string> all(names.begin(), names.end());
  all.insert(present.begin(), present.end());
  std::vector<std::string> paths;
  for (const std::string& name : all) paths.push_back("/" + name);
  WARREN_TRY(put_back(*tree, *working, paths));
  return !all.empty();
}

}  // namespace warren
