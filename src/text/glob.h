// Path filters of commands: the paths that a word on the command line selects.
//
// Paths are bytes and start at the root: a leading or trailing '/' and '.' or empty components make no difference, in
// the pattern and in the path. A pattern matches a whole path:
//   *       any bytes but '/', or none; also a leading '.'
//   **      any bytes, including '/'; as a whole component followed by '/', any number of directories, or none
//   ?       one byte other than '/'
//   [a-z]   one of these bytes, never '/'; [!a-z] and [^a-z] any other byte
//   \x      the byte x itself
// An unclosed '[' matches itself. A pattern without any of these names a path: it matches that path and everything
// below it; "" and "/" match everything.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warren {

// Compiled once for many paths. A value; safe to use from several threads.
class Glob {
 public:
  explicit Glob(std::string_view pattern);

  // O(pattern × path) for any input.
  bool matches(std::string_view path) const;
  // Equal for two directories if the same paths below them, as seen from each, match.
  std::string below(std::string_view dir) const;
  // A path rather than a pattern: it includes everything below it.
  bool is_plain() const { return is_plain_; }

 private:
  enum class Kind : std::uint8_t { kByte, kAnyByte, kClass, kStar, kDeepStar, kDirs };
  using ByteSet = std::bitset<256>;

  struct Token {
    Kind kind = Kind::kByte;
    unsigned char byte = 0;
    std::size_t set = 0;  // into sets_
  };

  std::size_t add_token(std::string_view pattern, std::size_t at);
  std::size_t add_class(std::string_view pattern, std::size_t at);
  bool at_component_start() const;
  void add_byte(char c);
  void enter(std::vector<bool>& states, std::size_t state) const;
  std::vector<bool> after(std::string_view text) const;
  void step(const std::vector<bool>& states, unsigned char byte, std::vector<bool>& next) const;
  bool accepts(const Token& token, unsigned char byte) const;

  std::vector<Token> tokens_;
  std::vector<ByteSet> sets_;
  std::string plain_;  // the path meant, when is_plain_
  bool is_plain_ = true;
};

// Glob(pattern).matches(path), for one path.
bool glob_match(std::string_view pattern, std::string_view path);

}  // namespace warren
