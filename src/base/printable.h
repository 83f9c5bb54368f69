// Makes text from strangers safe to show: file names, messages, patches, anything an agent can write.
//
// Escaped are characters that control a terminal (C0, DEL, C1), that reorder or hide text (bidirectional controls,
// zero-width and other invisible characters), that end a line for some programs (U+2028, U+2029), and bytes that are
// not UTF-8: as \xNN for a byte, \uNNNN or \UNNNNNNNN for a character. Messages use quote() (base/path.h).
#pragma once

#include <string>
#include <string_view>

namespace warren {

// For a name or anything else within a line: line ends and tabs are escaped, too.
std::string printable(std::string_view bytes);

// For text of several lines: line ends and tabs stay as they are.
std::string printable_text(std::string_view bytes);

// The JSON text with these characters as \uNNNN, which is the same JSON. It must be valid UTF-8.
std::string printable_json(std::string_view json);

}  // namespace warren
