// The word for a change, as programs read it.
#pragma once

#include <string_view>

#include "changes/changes.h"

namespace warren {

constexpr std::string_view change_word(TreeChangeKind kind) {
  switch (kind) {
    case TreeChangeKind::kAdded: return "added";
    case TreeChangeKind::kModified: return "modified";
    case TreeChangeKind::kDeleted: return "deleted";
    case TreeChangeKind::kRenamed: return "renamed";
  }
  return "changed";
}

}  // namespace warren
