// Blob stores that an operator names on the command line.
#pragma once

#include <memory>
#include <string>

#include "backends/blob/blob_store.h"
#include "base/clock.h"
#include "base/result.h"

namespace warren {

// "s3://bucket/prefix"; ${NAME} in it is a variable of the environment, as in the addresses of mounts.
Result<std::unique_ptr<BlobStore>> open_store_at(const std::string& address, Clock& clock);

}  // namespace warren
