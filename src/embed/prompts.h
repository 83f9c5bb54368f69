// What some models want in front of a text.
#pragma once

#include <string>
#include <string_view>

#include "embed/embedder.h"

namespace warren {

struct Prompts {
  std::string query;
  std::string passage;

  const std::string& of(TextRole role) const { return role == TextRole::kQuery ? query : passage; }
};

// Of well-known models whose files do not say it, by their name; both are empty for all others.
Prompts known_prompts(std::string_view model);

}  // namespace warren
