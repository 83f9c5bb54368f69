// Kinds of content for several threads: libmagic's state is for one thread at a time.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "documents/content_type.h"

namespace warren {

// Thread-safe. Without libmagic, text/mime.h decides.
class TypePool {
 public:
  std::string type_of(std::string_view name, std::string_view content);

 private:
  std::unique_ptr<ContentTypes> take();  // null: not installed

  std::mutex mutex_;
  bool is_missing_ = false;                          // under mutex_, like the following
  std::vector<std::unique_ptr<ContentTypes>> idle_;  // at most one for each thread
};

}  // namespace warren
