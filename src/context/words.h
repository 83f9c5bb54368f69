// What a search asks for in words, as an expression of FTS5.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace warren {

struct SearchWord {
  std::string text;        // a word, or several as a phrase
  bool is_prefix = false;  // the beginning of a word

  bool operator==(const SearchWord&) const = default;
};

// Words of the query in order, without repetitions. Common words that say little are left out unless there is nothing
// else; a phrase keeps them. At most kSearchWords.
inline constexpr std::size_t kSearchWords = 64;
std::vector<SearchWord> parse_search_words(std::string_view query);

// Any of them may occur. Every word is quoted, so that nothing in it is an operator. Empty if there are none.
std::string match_expression(const std::vector<SearchWord>& words);

// The line, counted from 0, in whose neighbourhood most of the words are: the best one to show. 0 if there are none.
std::size_t best_line(std::string_view body, const std::vector<SearchWord>& words);

}  // namespace warren
