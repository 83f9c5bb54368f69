// Private keys in files: PEM, for their owner alone.
#pragma once

#include <string>

#include "base/result.h"
#include "crypto/ed25519.h"

namespace warren {

// kDenied if others may read it. No error contains anything of the key.
Result<Ed25519Private> read_key_file(const std::string& path);
// Writes PATH (0600) and PATH.pub. kExists if one of them is there: a lost key cannot be made again.
Status write_key_files(const std::string& path, const Ed25519Private& key);

}  // namespace warren
