#include "agent/copies/store_address.h"

#include <cstdlib>
#include <optional>

#include "backends/open_backend.h"
#include "vfs/mount_spec.h"

namespace warren {

Result<std::unique_ptr<BlobStore>> open_store_at(const std::string& address, Clock& clock) {
  auto variables = [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  std::string expanded = WARREN_TRY(expand_address(address, variables));
  return open_blob_store(expanded, {.clock = clock});
}

}  // namespace warren
