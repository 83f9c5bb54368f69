// Texts that are almost like a valid one: for parsers of strangers' input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

namespace warren::testing {

// The same seed gives the same texts.
class Mutations {
 public:
  explicit Mutations(std::uint32_t seed) : random_(seed) {}

  // The text after one to four changes: bytes turned, replaced, removed, repeated, moved or cut off, or a word of JSON
  // that parsers stumble over put in.
  std::string of(std::string text);
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

 private:
  void change(std::string& text);
  std::mt19937 random_;
};

}  // namespace warren::testing
