// Opening a backend by its address: "memory:", "sqlite:notes.db", "redis://host/0".
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/blob/blob_store.h"
#include "base/clock.h"
#include "base/result.h"

namespace warren {

struct BackendOptions {
  Clock& clock;                               // outlives the store
  std::optional<std::string> password = {};   // in place of one in the address
  std::chrono::milliseconds timeout{10'000};  // of one call
  std::string directory = {};                 // where relative paths and programs are found; empty: the current one
};

// A service need not answer yet: its first call says so. kInvalid for an address that cannot be one, with the known
// schemes if that is the reason. No message contains a password.
Result<std::unique_ptr<BlobStore>> open_blob_store(const std::string& address, const BackendOptions& options);

// "memory:, sqlite:PATH, …", for help texts and messages.
std::string known_blob_schemes();

// Whether the address is a URL ("scheme://…"), which may contain a password.
bool is_service_address(std::string_view address);

// The passwords that are written in the address of a service: before the '@' and in its options, as written.
std::vector<std::string_view> passwords_in(std::string_view address);

}  // namespace warren
