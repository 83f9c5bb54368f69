// What is mounted in an agent's namespace, as a part of its checkpoints (docs/design/history.md, "Mounts").
//
// Before a checkpoint, the mounts are copied into the agent file (store/history/mounted_rows.h): only what has changed
// since the last copy is fetched. After a restore, the mounts are made what the checkpoint has. Covered are stores that
// can list their values, and working memory; not the relay's folders.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "agent/checkpoints/working_copy.h"
#include "backends/blob/blob_store.h"
#include "base/clock.h"
#include "base/result.h"
#include "store/history/mounted_rows.h"
#include "vfs/blob_fs.h"
#include "vfs/mount_spec.h"

namespace warren {

inline constexpr std::uint64_t kMountedValues = 100'000;                // of one checkpoint
inline constexpr std::uint64_t kMountedBytes = std::uint64_t{1} << 30;  // of one checkpoint
inline constexpr std::string_view kWorkingMemoryPath = "/mem/working";

// Of a store that was opened by its address: empty if what it has ends with the process.
std::string identity_of(BlobStore& store);

// Thread-safe. The agent, the clock and what is added outlive it.
class MountedState {
 public:
  MountedState(Agent& agent, Clock& clock);
  ~MountedState();
  MountedState(const MountedState&) = delete;
  MountedState& operator=(const MountedState&) = delete;

  // For a command that ends at once: opens the stores, and finds the working memory of such commands. Makes nothing.
  static Result<std::unique_ptr<MountedState>> open(Agent& agent, const std::vector<MountSpec>& mounts, Clock& clock);

  // Before the first use. `identity` is the same as long as it is the same store, or tree; empty: only here and now.
  // `fs` may be null; what was written to it is stored first. A store on kWorkingMemoryPath replaces working memory.
  void add(std::string path, BlobStore& store, BlobFs* fs, std::string identity);
  void set_working(FileSystem& fs, std::string identity);
  void clear();  // nothing is covered from now on

  std::vector<std::string> paths() const;
  bool has_path(std::string_view path) const;  // whether it is in something that is covered

  enum class Unreachable { kFail, kLeaveOut };
  struct Copied {
    std::vector<CoveredMount> covered;
    std::vector<std::string> problems;  // of mounts that were left out, for people
    bool has_changed = false;           // something is not what it was at the last copy
  };
  // Makes the rows what the mounts have. A failure names the mount; nothing but the rows has changed then. One that was
  // left out is not tried again for a minute.
  Result<Copied> copy_in(Unreachable unreachable = Unreachable::kFail);

  // Makes the mounts what this checkpoint has, as far as it covers them. Can be repeated.
  Status copy_out(std::int64_t checkpoint);
  // kNotFound unless the mount that `path` is in is among those that the checkpoint covers.
  Status check_covered(std::int64_t checkpoint, const std::vector<std::string>& covered, std::string_view path) const;
  // Only what is at or below `path`. kNotFound as check_covered, or if nothing is there, neither then nor now.
  Status copy_out_path(std::int64_t checkpoint, std::string_view path);

 private:
  struct Mount {
    std::string path;
    BlobStore* store = nullptr;  // null: working memory
    BlobFs* fs = nullptr;
    std::string identity;
  };

  const Mount* find_mount(std::string_view path) const;  // that this path is in
  bool is_mount(std::string_view path) const;
  Result<std::optional<CoveredMount>> copy_in_one(const Mount& mount, CopyBudget& budget, bool& has_changed);
  Result<std::optional<CoveredMount>> copy_in_store(const Mount& mount, CopyBudget& budget, bool& has_changed);
  Result<CoveredMount> copy_in_working(const Mount& mount, CopyBudget& budget, bool& has_changed);
  Result<CopiedBefore> read_before(const Mount& mount);
  Status fetch(const Mount& mount, const std::vector<BlobInfo>& wanted, const CopiedBefore& before, CopiedBefore& now);
  Status remove_rows(const Mount& mount, const std::vector<std::string>& keys);
  Result<bool> copy_out_one(const Mount& mount, Store& source, std::string_view below);
  Result<bool> copy_out_store(const Mount& mount, MountedRows& rows, Store& source, std::string_view below);
  Result<std::map<std::string, MountedRow>> list_wanted(const Mount& mount, MountedRows& rows, Store& source,
                                                        std::string_view below);
  Status put_values(const Mount& mount, MountedRows& rows, Store& source, const std::vector<MountedRow>& wanted);
  Result<bool> copy_out_working(const Mount& mount, MountedRows& rows, Store& source, std::string_view below);
  Result<FileSystem*> working_for_writing();
  bool is_resting(const std::string& path);

  Agent& agent_;
  Clock& clock_;
  std::vector<std::unique_ptr<BlobStore>> owned_;
  std::vector<Mount> mounts_;
  FileSystem* working_ = nullptr;         // null: it is empty
  std::string working_file_;              // where it is made, if it is needed
  std::unique_ptr<Store> working_store_;  // of working_file_
  std::mutex mutex_;
  std::map<std::string, std::int64_t> failed_at_us_;  // under mutex_: mounts that were left out
};

}  // namespace warren
