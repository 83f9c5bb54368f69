// Divides a text into chunks for a search: pieces of at most about 1,000 bytes that follow the text's structure.
//
// Larger pieces mix topics, and a search finds them worse. A piece of Markdown ends with its section, a piece of source
// code with its function or other top-level block, any other with its paragraph, as far as the sizes allow. Together
// the pieces are the whole text, in order. Every input has a result: a line of any length, invalid UTF-8, no line end.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace warren {

enum class TextShape { kPlain, kMarkdown, kCode };

// By the ending of the file's name.
TextShape shape_of_name(std::string_view name);

struct TextChunk {
  std::string_view body;       // whole lines, except where a line is longer than a chunk; never cuts a UTF-8 character
  std::size_t first_line = 0;  // from 1
  std::size_t last_line = 0;   // inclusive
  std::string heading;         // the headings above it, "Install > Linux"; of code: the block it is a part of
};

inline constexpr std::size_t kChunkTextBytes = 1000;    // at most
inline constexpr std::size_t kChunkSectionBytes = 300;  // a chunk of at least this size ends where a section begins
inline constexpr std::size_t kChunkHeadingBytes = 200;  // of `heading`, at most

// O(bytes). The text must outlive the chunks. Text of only white space has none.
std::vector<TextChunk> chunk_text(std::string_view text, TextShape shape);

// At most `bytes_max` bytes of the start, without cutting a UTF-8 character.
std::string_view cut_utf8(std::string_view text, std::size_t bytes_max);

}  // namespace warren
