// Our own SQL text. It converts from compile-time text only, so that values reach a statement only by
// being bound.
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

// SQL that a user typed (`warren sql`): the name marks it as not ours.
struct UserSql {
  std::string_view text;
};

}  // namespace warren
