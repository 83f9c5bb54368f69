// Internal values as the public API has them, and back.
#pragma once

#include <warren/v1/files.h>

#include "fs/tree_ops.h"
#include "fs/types.h"

namespace warren::v1 {

Attributes to_public(const warren::Attributes& from);
warren::RemoveOptions to_internal(const RemoveOptions& options);

}  // namespace warren::v1
