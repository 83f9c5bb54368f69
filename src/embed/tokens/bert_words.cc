#include "embed/tokens/bert_words.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/utf8.h"
#include "embed/tokens/unicode_tables.h"

namespace warren {
namespace {

constexpr char32_t kNotUtf8 = 0xFFFD;

// The first row that does not end before the character.
template <class Row, class Last>
const Row* row_at(std::span<const Row> table, char32_t code, Last last) {
  auto found = std::lower_bound(table.begin(), table.end(), code,
                                [&](const Row& row, char32_t wanted) { return last(row) < wanted; });
  return found == table.end() ? nullptr : &*found;
}

bool is_in(std::span<const CodeRange> table, char32_t code) {
  const CodeRange* row = row_at(table, code, [](const CodeRange& range) { return range.last; });
  return row != nullptr && row->first <= code;
}

bool is_white_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_dropped(char32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  if (code < 0x80) return code < ' ' || code == 0x7F;
  return code == kNotUtf8 || is_in(kControlTable, code);
}

bool is_punctuation(char32_t code) {
  if (code < 0x80) {
    return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) ||
           (code >= 123 && code <= 126);
  }
  return is_in(kPunctuationTable, code);
}

bool is_ideograph(char32_t code) {
  constexpr std::array<CodeRange, 8> kRanges{{{0x3400, 0x4DBF},
                                              {0x4E00, 0x9FFF},
                                              {0xF900, 0xFAFF},
                                              {0x20000, 0x2A6DF},
                                              {0x2A700, 0x2B73F},
                                              {0x2B740, 0x2B81F},
                                              {0x2B920, 0x2CEAF},
                                              {0x2F800, 0x2FA1F}}};
  return code >= 0x3400 && is_in(kRanges, code);
}

// The characters that one becomes: at most three.
struct Folded {
  std::array<char32_t, 3> codes{};
  std::size_t count = 0;

  void add(char32_t code) { codes[count++] = code; }
};

char32_t lower_case(char32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + ('a' - 'A') : code;
  const LowerRun* run = row_at(kLowerTable, code, [](const LowerRun& one) { return one.last; });
  if (run == nullptr || code < run->first || (code - run->first) % run->step != 0) return code;
  return static_cast<char32_t>(static_cast<std::int32_t>(code) + run->distance);
}

// A Hangul syllable is composed of two or three letters by arithmetic (Unicode, 3.12).
Folded letters_of_hangul(char32_t code) {
  constexpr char32_t kVowels = 21;
  constexpr char32_t kTails = 28;
  const char32_t index = code - 0xAC00;
  Folded letters;
  letters.add(0x1100 + index / (kVowels * kTails));
  letters.add(0x1161 + index % (kVowels * kTails) / kTails);
  if (index % kTails != 0) letters.add(0x11A7 + index % kTails);
  return letters;
}

Folded without_accents(char32_t code) {
  Folded folded;
  if (code < 0xC0) {
    folded.add(code);
  } else if (code >= 0xAC00 && code <= 0xD7A3) {
    folded = letters_of_hangul(code);
  } else if (is_in(kMarkTable, code)) {
    return folded;
  } else if (const BaseOf* base = row_at(kBaseTable, code, [](const BaseOf& one) { return one.code; });
             base != nullptr && base->code == code) {
    folded.add(base->base);
  } else if (const BasesOf* bases = row_at(kBasesTable, code, [](const BasesOf& one) { return one.code; });
             bases != nullptr && bases->code == code) {
    for (char32_t one : bases->bases) {
      if (one != 0) folded.add(one);
    }
  } else {
    folded.add(code);
  }
  return folded;
}

Folded fold(char32_t code, const BertWordsOptions& options) {
  Folded folded;
  if (options.strips_accents) folded = without_accents(code);
  else folded.add(code);
  if (!options.has_lower_case) return folded;
  for (std::size_t i = 0; i < folded.count; ++i) folded.codes[i] = lower_case(folded.codes[i]);
  return folded;
}

// Takes one character off the text; kNotUtf8 for a byte that begins none.
char32_t take_code(std::string_view& text) {
  const std::size_t length = utf8_length(text);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  char32_t code = kNotUtf8;
  if (length == 1) code = byte(0);
  else if (length > 1) code = byte(0) & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) code = code << 6U | (byte(i) & 0x3FU);
  text.remove_prefix(std::max<std::size_t>(length, 1));
  return code;
}

void append_utf8(std::string& text, char32_t code) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6U);
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12U);
    add(0x80 | (code >> 6U & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | code >> 18U);
    add(0x80 | (code >> 12U & 0x3F));
    add(0x80 | (code >> 6U & 0x3F));
    add(0x80 | (code & 0x3F));
  }
}

// The word that is being read.
class WordSink {
 public:
  explicit WordSink(const TakeWord& take) : take_(take) {}

  // Both return whether to go on.
  bool end_word() {
    if (characters_ == 0) return true;
    const bool goes_on = take_(word_, characters_);
    word_.clear();
    characters_ = 0;
    return goes_on;
  }
  bool add_alone(char32_t code) {
    if (!end_word()) return false;
    add(code);
    return end_word();
  }
  void add(char32_t code) {
    if (++characters_ <= kWordCharacters) append_utf8(word_, code);
  }

 private:
  const TakeWord& take_;
  std::string word_;
  std::size_t characters_ = 0;
};

// Returns whether to go on.
bool take_character(char32_t code, const BertWordsOptions& options, WordSink& sink) {
  if (is_dropped(code)) return true;
  if (is_white_space(code)) return sink.end_word();
  const bool is_alone = options.splits_ideographs && is_ideograph(code);
  const Folded folded = fold(code, options);
  for (std::size_t i = 0; i < folded.count; ++i) {
    const char32_t one = folded.codes[i];
    if (!is_alone && !is_punctuation(one)) sink.add(one);
    else if (!sink.add_alone(one)) return false;
  }
  return true;
}

}  // namespace

void split_bert_words(std::string_view text, const BertWordsOptions& options, const TakeWord& take) {
  WordSink sink(take);
  while (!text.empty()) {
    if (!take_character(take_code(text), options, sink)) return;
  }
  sink.end_word();
}

}  // namespace warren
