#include "text/diff/pick_hunks.h"

namespace warren {

std::string pick_hunks(std::string_view old_text, std::string_view new_text, const std::vector<Hunk>& hunks,
                       const std::vector<bool>& is_taken) {
  std::string out;
  LineCursor before(old_text);
  LineCursor after(new_text);
  for (std::size_t i = 0; i < hunks.size(); ++i) {
    out += before.take_until(hunks[i].before.begin);
    after.take_until(hunks[i].after.begin);
    std::string_view was = before.take_until(hunks[i].before.end());
    std::string_view is = after.take_until(hunks[i].after.end());
    out += i < is_taken.size() && is_taken[i] ? is : was;
  }
  out += before.take_until(static_cast<std::size_t>(-1));
  return out;
}

}  // namespace warren
