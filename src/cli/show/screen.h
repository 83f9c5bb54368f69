// A full screen of a terminal: the alternate screen, keys, and text cut to columns.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/show/output.h"

namespace warren::cli {

// The alternate screen, without a cursor. The destructor restores the original one, if leave() has not.
class Screen {
 public:
  explicit Screen(Output& out) : out_(out) { enter(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen() { leave(); }

  // For a program that is stopped and continued.
  void enter() {
    write("\x1b[?1049h\x1b[?25l");
    is_entered_ = true;
  }
  // A terminal that leaves twice puts the cursor back over what was written between.
  void leave() {
    if (is_entered_) write("\x1b[?25h\x1b[?1049l");
    is_entered_ = false;
  }

  // The lines are written as they are: the caller has made them printable and cut them to the width.
  void show(const std::vector<std::string>& lines);

 private:
  void write(std::string_view text);

  Output& out_;
  bool is_entered_ = false;
};

enum class KeyKind { kText, kUp, kDown, kLeft, kRight, kPageUp, kPageDown, kHome, kEnd, kEnter, kTab, kEscape, kOther };
struct Key {
  KeyKind kind = KeyKind::kOther;
  char letter = '\0';  // of kText, and of a control character: '\x03' for ^C

  bool operator==(const Key&) const = default;
};

// The key at the start of the bytes, which are what a terminal sends; removes it. nullopt if more bytes are needed;
// with `is_all` nothing follows, so a lone escape is a key.
enum class KeyBytes { kMoreMayFollow, kAll };
std::optional<Key> take_key(std::string& bytes, KeyBytes which);

// Columns of printable text on a terminal: two for East Asian wide characters, none for combining ones.
std::size_t display_columns(std::string_view printable_text);
// Text of a stranger in exactly so many columns: tabs become spaces, control characters are escaped, the rest is cut
// off or filled with spaces. `skip` columns at the start are left out.
std::string fit(std::string_view text, std::size_t columns, std::size_t skip = 0);

}  // namespace warren::cli
