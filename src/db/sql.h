// SQL text that was written by us: it converts from compile-time text only, so that values can
// reach a statement by binding alone.
#pragma once

#include <string_view>

namespace warren {

class Sql {
 public:
  consteval Sql(const char* text) : text_(text) {}  // NOLINT: implicit by design

  constexpr std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

// Text a person typed (`warren sql`): the name says that someone else answers for it.
struct UserSql {
  std::string_view text;
};

}  // namespace warren
