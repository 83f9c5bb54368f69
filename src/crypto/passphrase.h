// Keys from passphrases.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace warren {

// 32 bytes by scrypt (RFC 7914) with N = 32768, r = 8, p = 1: about a tenth of a second and 32 MiB, for whoever guesses
// too. The cost is part of the format of what is encrypted with it: never change it. kLimit if there is no memory.
Result<std::string> key_of_passphrase(std::string_view passphrase, Bytes salt);

}  // namespace warren
