// An agent's checkpoints as a store of values, which a namespace shows at /state/checkpoints: one for each, in JSON.
//
// The key is the checkpoint's name; of several with one name the newest has it, and the others are NAME@ID. Putting an
// empty value under a name takes a checkpoint. Nothing else can be changed here: who keeps an agent's checkpoints is
// not for the agent to decide, so removing one needs the agent file.
#pragma once

#include <string>
#include <vector>

#include "agent/agent.h"
#include "backends/blob/blob_store.h"
#include "store/history/history.h"

namespace warren {

inline constexpr std::string_view kCheckpointsPath = "/state/checkpoints";

class MountedState;

// Thread-safe like the agent, which outlives it.
class CheckpointBlobs final : public BlobStore {
 public:
  // `mounted` is what checkpoints that are taken here cover. It outlives this.
  CheckpointBlobs(Agent& agent, MountedState& mounted) : agent_(agent), mounted_(mounted) {}

  std::string name() const override { return "checkpoints"; }
  BlobAbilities abilities() const override;
  Result<std::optional<Blob>> get(std::string_view key) override;
  Result<std::optional<Blob>> get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) override;
  Result<std::optional<BlobInfo>> find(std::string_view key) override;
  // kDenied for a value that is not empty, and for a checkpoint that exists (kExists if that is a condition); kInvalid
  // for a key that cannot be a checkpoint's name.
  Result<BlobInfo> put(std::string_view key, Bytes content, const PutOptions& options) override;
  Result<bool> remove(std::string_view key) override;  // kDenied
  Result<BlobPage> list(const ListOptions& options) override;
  Status apply(std::span<const BlobChange> changes) override;

 private:
  Result<std::vector<Blob>> all();  // sorted by key

  Agent& agent_;
  MountedState& mounted_;
};

}  // namespace warren
