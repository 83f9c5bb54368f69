// Our own SQL text. It converts from compile-time text only, so that values reach a statement only by
// being bound.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace warren {

class Sql {
 public:
  consteval Sql(const char* text) : text_(text) {}  // NOLINT: implicit by design

  constexpr std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

// SQL put together from such texts and whole numbers, where tables are handled alike.
class JoinedSql {
 public:
  JoinedSql() = default;
  JoinedSql(Sql text) : text_(text.text()) {}  // NOLINT: implicit by design

  JoinedSql& operator+=(const JoinedSql& more) {
    text_ += more.text_;
    return *this;
  }
  JoinedSql& operator+=(Sql more) {
    text_ += more.text();
    return *this;
  }
  JoinedSql& operator+=(std::int64_t number) {
    text_ += std::to_string(number);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// SQL that a user typed (`warren sql`): the name marks it as not ours.
struct UserSql {
  std::string_view text;
};

}  // namespace warren
