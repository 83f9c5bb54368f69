// How OverlayFs runs a change; for its own files alone.
#pragma once

#include "fs/overlay_fs.h"

namespace warren {

template <class T>
Result<T> OverlayFs::change(const std::function<Result<T>()>& body) {
  std::unique_lock lock(mutex_);
  std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(UnitAccess::kWrite));
  WARREN_TRY(refresh());
  Result<T> result = body();
  Status committed = unit->commit();
  if (!result.ok()) {
    committed.ignore("what is reported is why the change could not be made");
    return result;
  }
  WARREN_TRY(std::move(committed));
  return result;
}

}  // namespace warren
