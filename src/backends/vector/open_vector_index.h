// Opening a vector index by its address: "memory:", "chroma://host:8000/collection".
#pragma once

#include <memory>
#include <string>

#include "backends/open_backend.h"
#include "backends/vector/vector_index.h"
#include "base/result.h"

namespace warren {

// As open_blob_store: a service need not answer yet, and no message contains a password.
Result<std::unique_ptr<VectorIndex>> open_vector_index(const std::string& address, const BackendOptions& options);

// Whether open_vector_index knows the scheme, and open_blob_store does not.
bool is_vector_address(std::string_view address);

std::string known_vector_schemes();

}  // namespace warren
