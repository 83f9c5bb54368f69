// How OverlayFs runs a change. Included only by its own .cc files.
#pragma once

#include "base/side_change.h"
#include "fs/overlay/overlay_fs.h"

namespace warren {

template <class T>
Result<T> OverlayFs::change(const std::function<Result<T>()>& body) {
  std::unique_lock lock(mutex_);
  std::unique_ptr<Unit> unit = WARREN_TRY(upper_.begin(UnitAccess::kWrite, Batched::kYes, lock));
  WARREN_TRY(refresh());
  Result<T> result = body();
  if (!result.ok()) {
    SideChange not_the_operation;
    unit->commit().ignore("the reason why the change failed is reported instead");
    return result;
  }
  WARREN_TRY(unit->commit());
  return result;
}

}  // namespace warren
