// Words of a command line as shells quote them: ShellWords and quoted_for_bash of completion.h.
#include "base/ascii.h"
#include "cli/syntax/completion.h"

namespace warren::cli {
namespace {

bool is_one_of(std::string_view all, char c) { return all.find(c) != all.npos; }

// Splits a command line at spaces that are not quoted.
class Splitter {
 public:
  Splitter(std::string_view breaks, Quoting quoting) : breaks_(breaks), is_fish_(quoting == Quoting::kFish) {}

  void take(char c) {
    if (is_escaped_) take_escaped(c);
    else if (quote_ == '\'') take_in_single_quotes(c);
    else if (quote_ == '"') take_in_double_quotes(c);
    else take_plain(c);
  }

  ShellWords finish() {
    ShellWords out{.words = std::move(words_),
                   .is_redirection = is_redirection_,
                   .is_expanded = is_expanded_,
                   .replaced_from = replaced_from_,
                   .quote = quote_};
    out.words.push_back(std::move(word_));
    return out;
  }

 private:
  // Between quotes a backslash only escapes what has a meaning there; fish has letters for control characters.
  void take_escaped(char c) {
    is_escaped_ = false;
    std::string_view escapable = quote_ == '\'' ? "'\\" : is_fish_ ? "\"$\\\n" : "\"$`\\\n";
    if (quote_ != '\0' && !is_one_of(escapable, c)) add('\\');
    if (quote_ == '\0' && is_fish_ && (is_letter(c) || is_digit(c))) is_expanded_ = true;
    if (quote_ == '"' && !is_fish_ && c == '!') is_expanded_ = true;
    bool is_line_joined = c == '\n' && quote_ != '\'';
    if (!is_line_joined) add(c);
  }

  void take_in_single_quotes(char c) {
    if (c == '\'') end_quote();
    else if (c == '\\' && is_fish_) is_escaped_ = true;
    else add(c);
  }

  void take_in_double_quotes(char c) {
    if (c == '"') return end_quote();
    if (c == '\\') {
      is_escaped_ = true;
      return;
    }
    if (c == '$' || (!is_fish_ && is_one_of("`!", c))) is_expanded_ = true;
    add(c);
  }

  void take_plain(char c) {
    if (c == '\\') {
      is_escaped_ = true;
      has_word_ = true;
    } else if (c == '\'' || c == '"') {
      quote_ = c;
      has_word_ = true;
      replaced_from_outside_ = replaced_from_;
      replaced_from_ = word_.size();
    } else if (c == ' ' || c == '\t' || c == '\n') {
      end_word();
    } else if (c == '<' || c == '>') {
      word_.clear();  // a file descriptor's number, if anything
      has_word_ = false;
      is_redirection_ = true;
    } else {
      if (is_one_of(is_fish_ ? "$*?{}()" : "$`*?[{}()!;&|", c) || (c == '~' && !has_word_)) is_expanded_ = true;
      add(c);
      if (is_one_of(breaks_, c)) replaced_from_ = word_.size();
    }
  }

  void add(char c) {
    word_ += c;
    has_word_ = true;
  }

  // After the closing quote bash replaces what is in the quotes, too.
  void end_quote() {
    quote_ = '\0';
    replaced_from_ = replaced_from_outside_;
  }

  void end_word() {
    replaced_from_ = 0;
    is_expanded_ = false;
    if (!has_word_) return;
    if (!is_redirection_) words_.push_back(word_);
    word_.clear();
    has_word_ = false;
    is_redirection_ = false;
  }

  const std::string_view breaks_;
  const bool is_fish_;
  std::vector<std::string> words_;
  std::string word_;
  std::size_t replaced_from_ = 0;
  std::size_t replaced_from_outside_ = 0;  // what it was before the quote
  bool has_word_ = false;                  // a word has begun; it may be empty, as ''
  bool is_redirection_ = false;
  bool is_expanded_ = false;
  bool is_escaped_ = false;
  char quote_ = '\0';
};

std::string with_backslashes(std::string_view word, std::string_view special) {
  std::string out;
  for (char c : word) {
    if (is_one_of(special, c)) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

ShellWords split_shell_words(std::string_view line, std::string_view breaks, Quoting quoting) {
  Splitter splitter(breaks, quoting);
  for (char c : line) splitter.take(c);
  return splitter.finish();
}

// '=', ':' and '@' stay as they are: bash ends a word at them, and what follows is completed by itself. bash closes the
// quotes, unless the last character is already such a quote: then it is for us to close them.
std::optional<std::string> quoted_for_bash(std::string_view word, char quote) {
  if (quote == '\0') return with_backslashes(word, " \t\n\"'\\$`;&|()<>*?[]{}~!^#");
  std::string out;
  if (quote == '"') {
    if (is_one_of(word, '!'))
      return std::nullopt;  // history expansion, which a backslash prevents but stays in the word
    out = with_backslashes(word, "\"$`\\");
  } else {
    for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  if (word.ends_with(quote)) out += quote;
  return out;
}

}  // namespace warren::cli
