// What commands about trust are given: keys as text or files, and where the operator's decisions are.
#pragma once

#include <string>

#include "cli/context.h"
#include "crypto/ed25519.h"
#include "trust/trust_file.h"

namespace warren::cli {

// $XDG_CONFIG_HOME/warren/trust, or ~/.config/warren/trust.
Result<TrustFile> operator_trust(Context& context);

// "ed25519:…", or a file that contains that, or one that contains the private key.
Result<Ed25519Public> read_public_key(const std::string& what);
// kDenied if others may read the file.
Result<Ed25519Private> read_private_key(const std::string& file);

}  // namespace warren::cli
