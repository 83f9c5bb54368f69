#include "context/words.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/ascii.h"

namespace warren {
namespace {

constexpr std::size_t kWordBytes = 200;

constexpr std::array<std::string_view, 127> kStopWords{
    "a",     "about", "above", "after",  "again",  "all",   "also",   "am",      "an",     "and",  "any",   "are",
    "as",    "at",    "be",    "been",   "before", "being", "below",  "between", "both",   "but",  "by",    "can",
    "could", "did",   "do",    "does",   "doing",  "down",  "during", "each",    "few",    "for",  "from",  "further",
    "had",   "has",   "have",  "having", "he",     "her",   "here",   "hers",    "him",    "his",  "how",   "i",
    "if",    "in",    "into",  "is",     "it",     "its",   "just",   "may",     "me",     "more", "most",  "must",
    "my",    "no",    "nor",   "not",    "now",    "of",    "off",    "on",      "once",   "only", "or",    "other",
    "our",   "ours",  "out",   "over",   "own",    "same",  "shall",  "she",     "should", "so",   "some",  "such",
    "than",  "that",  "the",   "their",  "them",   "then",  "there",  "these",   "they",   "this", "those", "through",
    "to",    "too",   "under", "until",  "up",     "us",    "very",   "was",     "we",     "were", "what",  "when",
    "where", "which", "while", "who",    "whom",   "why",   "will",   "with",    "would",  "you",  "your"};

bool is_stop_word(std::string_view word) { return std::ranges::find(kStopWords, to_lower(word)) != kStopWords.end(); }

bool has_letters(std::string_view word) {
  return std::ranges::any_of(word, [](char c) { return is_letter(c) || is_digit(c) || (c & 0x80) != 0; });
}

void add_word(std::vector<SearchWord>& words, std::string_view text, bool is_prefix) {
  SearchWord word{.text = std::string(text.substr(0, kWordBytes)), .is_prefix = is_prefix};
  if (words.size() < kSearchWords && has_letters(text) && std::ranges::find(words, word) == words.end()) {
    words.push_back(std::move(word));
  }
}

bool has_word(std::string_view line, const SearchWord& word) {
  // The stem of an English word is about its beginning; this only chooses what is shown.
  constexpr std::size_t kStemBytes = 5;
  std::string wanted = to_lower(word.text);
  bool is_phrase = wanted.find_first_of(kWhitespace) != std::string::npos;
  if (!is_phrase && !word.is_prefix && wanted.size() > kStemBytes + 1) wanted.resize(kStemBytes);
  return line.find(wanted) != std::string_view::npos;
}

}  // namespace

std::vector<SearchWord> parse_search_words(std::string_view query) {
  std::vector<SearchWord> all;
  std::vector<SearchWord> useful;
  for (std::size_t at = query.find_first_not_of(kWhitespace); at < query.size();
       at = query.find_first_not_of(kWhitespace, at)) {
    bool is_phrase = query[at] == '"';
    std::size_t begin = is_phrase ? at + 1 : at;
    std::size_t end =
        std::min(is_phrase ? query.find('"', begin) : query.find_first_of(" \t\r\n\"", begin), query.size());
    std::string_view word = query.substr(begin, end - begin);
    at = is_phrase ? end + 1 : end;
    bool is_prefix = !is_phrase && word.ends_with('*');
    while (!is_phrase && word.ends_with('*')) word.remove_suffix(1);
    word = trimmed(word, kWhitespace);
    add_word(all, word, is_prefix);
    if (is_phrase || is_prefix || !is_stop_word(trimmed(word, "?!.,;:()'"))) add_word(useful, word, is_prefix);
    if (at >= query.size()) break;
  }
  return useful.empty() ? all : useful;
}

std::string match_expression(const std::vector<SearchWord>& words) {
  std::string expression;
  for (const SearchWord& word : words) {
    if (!expression.empty()) expression += " OR ";
    expression += '"';
    for (char c : word.text) {
      if (c == '\0') continue;
      if (c == '"') expression += '"';
      expression += c;
    }
    expression += word.is_prefix ? "\"*" : "\"";
  }
  return expression;
}

std::size_t best_line(std::string_view body, const std::vector<SearchWord>& words) {
  std::string lower = to_lower(body);
  std::size_t best = 0;
  std::size_t most = 0;
  std::size_t number = 0;
  for (std::size_t at = 0; at < lower.size(); ++number) {
    std::size_t end = std::min(lower.find('\n', at), lower.size());
    std::string_view line = std::string_view(lower).substr(at, end - at);
    auto found = static_cast<std::size_t>(
        std::ranges::count_if(words, [&](const SearchWord& word) { return has_word(line, word); }));
    if (found > most) {
      most = found;
      best = number;
    }
    at = end + 1;
  }
  return best;
}

}  // namespace warren
