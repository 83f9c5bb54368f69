#include "agent/checkpoints/mounted_state.h"

#include <algorithm>
#include <array>

#include <sys/stat.h>

#include <fmt/format.h>

#include "agent/checkpoints/mounted_listing.h"
#include "agent/namespace_parts.h"
#include "base/path.h"
#include "crypto/digest.h"
#include "crypto/hmac.h"
#include "os/files/host_files.h"
#include "os/threads/parallel.h"
#include "store/files/sqlite_fs.h"

namespace warren {
namespace {

constexpr std::int64_t kRestUs = 60'000'000;  // of a mount that did not answer

std::string random_identity() {
  std::array<std::byte, 16> bytes{};
  fill_with_random(bytes);
  return hex_of(bytes);
}

std::optional<std::int64_t> expiry_ms_of(const BlobInfo& info) {
  if (!info.expires) return std::nullopt;
  return info.expires->seconds * 1000 + info.expires->nanoseconds / 1'000'000;
}

CoveredMount covered_mount(const std::string& path, const CopiedBefore& now) {
  Sha256 all;
  for (const auto& [key, row] : now.rows) {
    auto token = now.tokens.find(key);
    all.update(as_bytes(digest_line(row, token == now.tokens.end() ? std::string_view() : token->second)));
  }
  return {.path = path, .digest = hex_of(all.finish())};
}

// What is the same as before is not written again, so that it is not taken for a change.
Status put_row(MountedRows& rows, const std::string& mount, const CopiedBefore& before, const MountedRow& row,
               const std::string& value, const std::string& token) {
  auto known = before.rows.find(row.key);
  bool is_same = known != before.rows.end() && known->second == row;
  return is_same ? rows.set_token(mount, row, token) : rows.put(mount, row, as_bytes(value), token);
}

}  // namespace

std::string identity_of(BlobStore& store) { return store.abilities().lasts ? store.name() : std::string(); }

MountedState::MountedState(Agent& agent, Clock& clock) : agent_(agent), clock_(clock) {}
MountedState::~MountedState() = default;

Result<std::unique_ptr<MountedState>> MountedState::open(Agent& agent, const std::vector<MountSpec>& mounts,
                                                         Clock& clock) {
  auto state = std::make_unique<MountedState>(agent, clock);
  for (const MountSpec& mount : mounts) {
    state->owned_.push_back(WARREN_TRY(open_mount(mount, clock)));
    BlobStore& store = *state->owned_.back();
    state->add(mount.path, store, nullptr, identity_of(store));
  }
  if (state->is_mount(kWorkingMemoryPath)) return state;  // it replaces working memory
  Result<std::string> file = working_file(agent.path());
  if (!file.ok()) return state;  // without a runtime folder there is no working memory either
  state->working_file_ = std::move(file).take_value();
  std::optional<struct stat> there = WARREN_TRY(find_host_file(state->working_file_));
  if (there)
    state->working_store_ =
        WARREN_TRY(open_working_file(state->working_file_, agent.store(), clock).within("open /mem/working"));
  if (there) state->working_ = &state->working_store_->fs();
  state->mounts_.push_back({.path = std::string(kWorkingMemoryPath), .identity = state->working_file_});
  return state;
}

void MountedState::add(std::string path, BlobStore& store, BlobFs* fs, std::string identity) {
  if (identity.empty()) identity = random_identity();
  std::erase_if(mounts_, [&](const Mount& one) { return one.path == path; });
  mounts_.push_back({.path = std::move(path), .store = &store, .fs = fs, .identity = std::move(identity)});
}

void MountedState::set_working(FileSystem& fs, std::string identity) {
  if (is_mount(kWorkingMemoryPath)) return;
  working_ = &fs;
  if (identity.empty()) identity = random_identity();
  mounts_.push_back({.path = std::string(kWorkingMemoryPath), .identity = std::move(identity)});
}

void MountedState::clear() {
  mounts_.clear();
  working_ = nullptr;
}

std::vector<std::string> MountedState::paths() const {
  std::vector<std::string> all;
  for (const Mount& mount : mounts_) all.push_back(mount.path);
  return all;
}

const MountedState::Mount* MountedState::find_mount(std::string_view path) const {
  const Mount* innermost = nullptr;
  for (const Mount& mount : mounts_) {
    bool is_in = path.starts_with(mount.path) && (path.size() == mount.path.size() || path[mount.path.size()] == '/');
    if (is_in && (innermost == nullptr || mount.path.size() > innermost->path.size())) innermost = &mount;
  }
  return innermost;
}

bool MountedState::is_mount(std::string_view path) const {
  return std::ranges::any_of(mounts_, [&](const Mount& one) { return one.path == path; });
}

bool MountedState::has_path(std::string_view path) const { return find_mount(path) != nullptr; }

bool MountedState::is_resting(const std::string& path) {
  std::lock_guard lock(mutex_);
  auto failed = failed_at_us_.find(path);
  if (failed == failed_at_us_.end()) return false;
  std::int64_t since = clock_.now_us() - failed->second;
  return since >= 0 && since < kRestUs;
}

Result<MountedState::Copied> MountedState::copy_in(Unreachable unreachable) {
  Copied copied;
  CopyBudget budget{.values = kMountedValues, .bytes = kMountedBytes};
  for (const Mount& mount : mounts_) {
    if (unreachable == Unreachable::kLeaveOut && is_resting(mount.path)) {
      copied.problems.push_back(fmt::format("{} was left out: it failed a moment ago", quote(mount.path)));
      continue;
    }
    CopyBudget left = budget;
    Result<std::optional<CoveredMount>> one = copy_in_one(mount, left, copied.has_changed);
    if (one.ok()) {
      if (*one) copied.covered.push_back(std::move(**one));
      budget = left;
      continue;
    }
    Error error = std::move(one).take_error();
    if (unreachable == Unreachable::kFail) {
      std::string hint = error.hint().empty() ? "--without-mounts leaves out what is mounted" : error.hint();
      return Error(error.code(), fmt::format("copy {} into the checkpoint: {}", quote(mount.path), error.message()),
                   std::move(hint));
    }
    copied.problems.push_back(fmt::format("{} was left out: {}", quote(mount.path), error.message()));
    std::lock_guard lock(mutex_);
    failed_at_us_[mount.path] = clock_.now_us();
  }
  return copied;
}

Result<std::optional<CoveredMount>> MountedState::copy_in_one(const Mount& mount, CopyBudget& budget,
                                                              bool& has_changed) {
  if (mount.store != nullptr) return copy_in_store(mount, budget, has_changed);
  CoveredMount working = WARREN_TRY(copy_in_working(mount, budget, has_changed));
  return std::optional(std::move(working));
}

Result<CopiedBefore> MountedState::read_before(const Mount& mount) {
  auto view = WARREN_TRY(agent_.store().fs().begin(UnitAccess::kRead));
  MountedRows rows(agent_.store());
  CopiedBefore before;
  std::vector<MountedRow> all = WARREN_TRY(rows.list(mount.path));
  for (MountedRow& row : all) before.rows.emplace(row.key, std::move(row));
  before.tokens = WARREN_TRY(rows.list_tokens(mount.path));
  return before;
}

Result<std::optional<CoveredMount>> MountedState::copy_in_store(const Mount& mount, CopyBudget& budget,
                                                                bool& has_changed) {
  if (mount.fs != nullptr) WARREN_TRY(mount.fs->sync(kRootInode));
  auto listing = WARREN_TRY(list_mounted(*mount.store, mount.path, budget));
  if (!listing) return std::optional<CoveredMount>();  // it cannot list
  CopiedBefore before = WARREN_TRY(read_before(mount));
  CopiedBefore now;
  std::vector<BlobInfo> wanted;
  for (BlobInfo& info : *listing) {
    std::string token = mounted_token(mount.identity, info);
    auto known = before.tokens.find(info.key);
    auto row = before.rows.find(info.key);
    bool is_same = !token.empty() && known != before.tokens.end() && known->second == token && row != before.rows.end();
    if (!is_same) {
      wanted.push_back(std::move(info));
      continue;
    }
    now.tokens.emplace(info.key, std::move(token));
    now.rows.emplace(info.key, row->second);
  }
  WARREN_TRY(fetch(mount, wanted, before, now));
  std::vector<std::string> gone;
  for (const auto& [key, row] : before.rows) {
    auto there = now.rows.find(key);
    if (there == now.rows.end()) gone.push_back(key);
    else has_changed = has_changed || !(there->second == row);
  }
  has_changed = has_changed || !gone.empty() || now.rows.size() != before.rows.size();
  WARREN_TRY(remove_rows(mount, gone));
  return std::optional(covered_mount(mount.path, now));
}

// What may be gone, or larger than it was listed, by now.
Status MountedState::fetch(const Mount& mount, const std::vector<BlobInfo>& wanted, const CopiedBefore& before,
                           CopiedBefore& now) {
  for (std::size_t at = 0; at < wanted.size();) {
    std::size_t end = batch_end(wanted.size(), at, [&](std::size_t i) { return wanted[i].size; });
    std::vector<std::optional<Blob>> blobs(end - at);
    WARREN_TRY(for_each_parallel(
        blobs.size(),
        [&](std::size_t i) -> Status {
          blobs[i] = WARREN_TRY(mount.store->get(wanted[at + i].key));
          return Ok{};
        },
        kRequestsAtOnce));
    Transaction change = WARREN_TRY(agent_.store().begin_write());
    MountedRows rows(agent_.store());
    for (std::optional<Blob>& blob : blobs) {
      if (!blob) continue;
      MountedRow row{.key = blob->info.key,
                     .hash = sha256_hex(as_bytes(blob->content)),
                     .size = blob->content.size(),
                     .expires_at_ms = expiry_ms_of(blob->info),
                     .attributes = {}};
      std::string token = mounted_token(mount.identity, blob->info);
      WARREN_TRY(put_row(rows, mount.path, before, row, blob->content, token));
      now.tokens[row.key] = std::move(token);
      now.rows[row.key] = std::move(row);
    }
    WARREN_TRY(change.commit());
    at = end;
  }
  return Ok{};
}

Status MountedState::remove_rows(const Mount& mount, const std::vector<std::string>& keys) {
  if (keys.empty()) return Ok{};
  Transaction change = WARREN_TRY(agent_.store().begin_write());
  MountedRows rows(agent_.store());
  for (const std::string& key : keys) WARREN_TRY(rows.remove(mount.path, key));
  return change.commit();
}

Result<CoveredMount> MountedState::copy_in_working(const Mount& mount, CopyBudget& budget, bool& has_changed) {
  CopiedBefore before = WARREN_TRY(read_before(mount));
  std::vector<CopiedNode> nodes;
  if (working_ != nullptr) nodes = WARREN_TRY(copy_tree(*working_, mount.path, mount.identity, before, budget));
  CopiedBefore now;
  {
    bool has_new = std::ranges::any_of(nodes, [](const CopiedNode& node) { return node.value.has_value(); });
    std::optional<Transaction> change;
    if (has_new) change.emplace(WARREN_TRY(agent_.store().begin_write()));
    MountedRows rows(agent_.store());
    for (CopiedNode& node : nodes) {
      if (node.value) WARREN_TRY(put_row(rows, mount.path, before, node.row, *node.value, node.token));
      now.tokens[node.row.key] = std::move(node.token);
      now.rows[node.row.key] = std::move(node.row);
    }
    if (change) WARREN_TRY(change->commit());
  }
  std::vector<std::string> gone;
  for (const auto& [key, row] : before.rows) {
    if (!now.rows.contains(key)) gone.push_back(key);
  }
  WARREN_TRY(remove_rows(mount, gone));
  has_changed = has_changed || now.rows != before.rows;
  return covered_mount(mount.path, now);
}

}  // namespace warren
