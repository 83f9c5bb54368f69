// Which model a folder holds. A folder's name alone does not tell: two models can have the same one, and vectors of
// different models must never be compared.
#pragma once

#include <string>

#include "base/result.h"

namespace warren {

// The folder's name, "@" and twelve digits that change with whatever changes the vectors: the settings, the vocabulary
// and the weights. Of the weights, 256 places are read, so that it stays cheap; a model that was trained further
// differs in nearly all of them. Of the default model as it is installed, the name alone.
Result<std::string> identity_of_model(const std::string& folder);

// The folder's name in an identity.
std::string folder_of_identity(const std::string& identity);

}  // namespace warren
