// The options that say where the key of an encrypted agent comes from.
#pragma once

#include <optional>
#include <vector>

#include "agent/keys/file_key.h"
#include "cli/syntax/args.h"

namespace warren::cli {

std::vector<Option> key_options();

// nullopt if none is given; kInvalid if several are.
Result<std::optional<KeySource>> find_key_source(const Arguments& args);

// Of a command that makes a file: --encrypt and the options above. kInvalid if there is a key and no --encrypt.
std::vector<Option> encrypt_options();
Result<std::optional<Encryption>> find_encryption(const Arguments& args);

}  // namespace warren::cli
