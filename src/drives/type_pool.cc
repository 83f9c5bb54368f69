#include "drives/type_pool.h"

#include "text/mime.h"

namespace warren {

std::unique_ptr<ContentTypes> TypePool::take() {
  {
    std::lock_guard lock(mutex_);
    if (is_missing_) return nullptr;
    if (!idle_.empty()) {
      std::unique_ptr<ContentTypes> one = std::move(idle_.back());
      idle_.pop_back();
      return one;
    }
  }
  Result<std::unique_ptr<ContentTypes>> opened = ContentTypes::open();
  if (opened.ok()) return std::move(opened).take_value();
  std::lock_guard lock(mutex_);
  is_missing_ = true;
  return nullptr;
}

std::string TypePool::type_of(std::string_view name, std::string_view content) {
  std::unique_ptr<ContentTypes> types = take();
  if (!types) return std::string(mime_type_of(name, content));
  std::string type = types->type_of(name, content);
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(types));
  return type;
}

}  // namespace warren
