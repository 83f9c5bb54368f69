// What kind of content bytes are, by libmagic, which knows far more kinds than text/mime.h.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warren {

// For one thread: its state is reused from file to file.
class ContentTypes {
 public:
  // kUnavailable: the library or its data is not installed.
  static Result<std::unique_ptr<ContentTypes>> open();
  ~ContentTypes();

  // "application/pdf", "text/markdown". The bytes decide; the name's ending only tells kinds of text apart. Never
  // fails: what nobody knows is "application/octet-stream" or "text/plain".
  std::string type_of(std::string_view name, std::string_view content);

 private:
  struct State;
  explicit ContentTypes(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace warren
