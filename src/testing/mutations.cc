#include "testing/mutations.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace warren::testing {
namespace {

constexpr std::size_t kRangeMax = 24;
constexpr std::array<std::string_view, 24> kWords{"null",
                                                  "true",
                                                  "-1",
                                                  "0",
                                                  "1e999",
                                                  "1.5",
                                                  "18446744073709551616",
                                                  "9007199254740993",
                                                  "{}",
                                                  "[]",
                                                  "[[[[[[",
                                                  "\"\"",
                                                  "\"",
                                                  "\\ud800",
                                                  "\\u0000",
                                                  "\xff\xfe",
                                                  ",",
                                                  "//..//",
                                                  "/../",
                                                  "\\",
                                                  ":",
                                                  "}",
                                                  "\xc3\xa4",
                                                  "-9223372036854775808"};

}  // namespace

std::string Mutations::of(std::string text) {
  for (std::size_t left = 1 + below(4); left > 0; --left) change(text);
  return text;
}

void Mutations::change(std::string& text) {
  std::size_t at = below(text.size());
  std::size_t length = std::min(text.size() - at, 1 + below(kRangeMax));
  switch (below(8)) {
    case 0:
      if (!text.empty()) text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ 1U << below(8));
      break;
    case 1:
      if (!text.empty()) text[at] = static_cast<char>(random_());
      break;
    case 2: text.erase(at, length); break;
    case 3: text.insert(at, text.substr(at, length)); break;
    case 4: text.insert(below(text.size()), text.substr(at, length)); break;
    case 5: text.insert(at, kWords[below(kWords.size())]); break;
    case 6: text.replace(at, length, kWords[below(kWords.size())]); break;
    default: text.resize(text.size() - std::min(text.size(), below(kRangeMax)));
  }
}

}  // namespace warren::testing
