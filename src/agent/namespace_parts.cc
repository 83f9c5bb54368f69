#include "agent/namespace_parts.h"

#include <cstdlib>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "agent/running.h"
#include "backends/open_backend.h"
#include "base/path.h"
#include "os/files/host_files.h"
#include "os/files/host_stat.h"

namespace warren {

Result<std::unique_ptr<BlobStore>> open_mount(const MountSpec& mount, Clock& clock) {
  auto variables = [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  auto what = [&] { return "mount " + quote(mount.path); };
  std::string address = WARREN_TRY(expand_address(mount.backend, variables).within(what));
  BackendOptions how{.clock = clock, .password = mount.password, .directory = mount.directory};
  if (!mount.password_env.empty()) {
    how.password = variables(mount.password_env);
    if (!how.password) {
      return Error(Code::kInvalid, fmt::format("mount {}: the environment variable {} is not set", quote(mount.path),
                                               quote(mount.password_env)));
    }
  }
  return open_blob_store(address, how).within(what);
}

Result<std::string> working_file(const std::string& agent_path) {
  std::string folder = WARREN_TRY(runtime_folder());
  std::string whole = WARREN_TRY(canonical_host_path(agent_path));
  HostStat info = WARREN_TRY(host_stat(AT_FDCWD, whole.c_str()));
  return fmt::format("{}/working-{:x}-{:x}-{:x}.db", folder, info.st_dev, info.st_ino, info.generation);
}

// Of several processes that make the file at once, one makes it and all open it.
Result<std::unique_ptr<Store>> open_working_file(const std::string& file, Store& agent, Clock& clock) {
  StoreOptions options{.mode = OpenMode::kReadWrite, .durability = Durability::kProcess, .commits = Commits::kEach};
  options.key = agent.database().key();
  options.find_key = agent.database().key_finder();
  StoreOptions how = options;
  std::optional<struct stat> there = WARREN_TRY(find_host_file(file));
  if (!there) how.mode = OpenMode::kCreate;
  Result<std::unique_ptr<Store>> store = Store::open(file, how, clock);
  if (store.ok() || there) return store;
  // Whatever the error: if somebody else has made it meanwhile, it is theirs that counts.
  there = WARREN_TRY(find_host_file(file));
  return there ? Store::open(file, options, clock) : std::move(store);
}

}  // namespace warren
