// What a namespace is made of beside the agent file: the stores that are mounted in it, and the file that holds working
// memory between commands.
#pragma once

#include <memory>
#include <string>

#include "backends/blob/blob_store.h"
#include "base/clock.h"
#include "base/result.h"
#include "store/store.h"
#include "vfs/mount_spec.h"

namespace warren {

// Passwords come from the environment. The store need not answer yet.
Result<std::unique_ptr<BlobStore>> open_mount(const MountSpec& mount, Clock& clock);

// In the user's runtime folder. Named after the agent's file, not its path, so that a new agent of the same name begins
// with nothing.
Result<std::string> working_file(const std::string& agent_path);
// Makes it if it is missing. It has the agent's key: what an encrypted agent works with is as secret as its file.
Result<std::unique_ptr<Store>> open_working_file(const std::string& file, Store& agent, Clock& clock);

}  // namespace warren
