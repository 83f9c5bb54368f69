#include "base/shell_word.h"

namespace warren {

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=@%,./:";
  bool is_plain = !text.empty() && text[0] != '=' && text.find_first_not_of(kPlain) == text.npos;  // zsh expands =x
  if (is_plain) return std::string(text);
  std::string word = "'";
  for (char c : text) {
    if (c == '\'') word += "'\\''";
    else word += c;
  }
  return word + "'";
}

}  // namespace warren
