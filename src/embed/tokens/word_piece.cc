#include "embed/tokens/word_piece.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/path.h"

namespace warren {
namespace {

constexpr std::size_t kPiecesMax = std::size_t{4} << 20;
constexpr std::size_t kPieceBytes = 1024;
constexpr std::string_view kContinues = "##";

Result<std::int32_t> special_piece(const std::unordered_map<std::string_view, std::int32_t>& pieces,
                                   std::string_view name) {
  auto found = pieces.find(name);
  if (found == pieces.end()) return Error(Code::kCorrupt, fmt::format("the vocabulary has no {}", quote(name)));
  return found->second;
}

}  // namespace

Status WordPiece::add(std::string_view piece, std::int32_t number) {
  if (piece.size() > kPieceBytes) {
    return Error(Code::kCorrupt, fmt::format("piece {} of the vocabulary has more than {} bytes", number, kPieceBytes));
  }
  const bool continues = piece.size() > kContinues.size() && piece.starts_with(kContinues);
  if (continues) piece.remove_prefix(kContinues.size());
  longest_bytes_ = std::max(longest_bytes_, piece.size());
  // Of two equal pieces the later counts, as in other programs.
  (continues ? continues_ : begins_)[piece] = number;
  return Ok{};
}

Status WordPiece::finish() {
  begin_ = WARREN_TRY(special_piece(begins_, "[CLS]"));
  end_ = WARREN_TRY(special_piece(begins_, "[SEP]"));
  unknown_ = WARREN_TRY(special_piece(begins_, "[UNK]"));
  return Ok{};
}

Result<WordPiece> WordPiece::from_lines(std::string text, BertWordsOptions options) {
  WordPiece pieces(options);
  pieces.text_ = std::make_unique<std::string>(std::move(text));
  std::string_view rest = *pieces.text_;
  while (!rest.empty()) {
    if (pieces.size_ == kPiecesMax) {
      return Error(Code::kCorrupt, fmt::format("the vocabulary has more than {} pieces", kPiecesMax));
    }
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view piece = rest.substr(0, end);
    if (piece.ends_with('\r')) piece.remove_suffix(1);
    WARREN_TRY(pieces.add(piece, static_cast<std::int32_t>(pieces.size_++)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  WARREN_TRY(pieces.finish());
  return pieces;
}

Result<WordPiece> WordPiece::from_pieces(const std::vector<std::pair<std::string, std::int64_t>>& pieces,
                                         BertWordsOptions options) {
  if (pieces.size() > kPiecesMax) {
    return Error(Code::kCorrupt, fmt::format("the vocabulary has more than {} pieces", kPiecesMax));
  }
  WordPiece built(options);
  built.text_ = std::make_unique<std::string>();
  std::size_t bytes = 0;
  for (const auto& [piece, number] : pieces) bytes += piece.size();
  built.text_->reserve(bytes);  // the keys point into it
  built.size_ = pieces.size();
  for (const auto& [piece, number] : pieces) {
    if (number < 0 || number >= static_cast<std::int64_t>(pieces.size())) {
      return Error(Code::kCorrupt,
                   fmt::format("piece {} has the number {}, of {} pieces", quote(piece), number, pieces.size()));
    }
    const std::size_t at = built.text_->size();
    *built.text_ += piece;
    WARREN_TRY(built.add(std::string_view(*built.text_).substr(at), static_cast<std::int32_t>(number)));
  }
  WARREN_TRY(built.finish());
  return built;
}

// The longest piece that fits, again and again.
void WordPiece::add_word(std::string_view word, std::vector<std::int32_t>& tokens) const {
  const std::size_t before = tokens.size();
  const Pieces* pieces = &begins_;
  while (!word.empty()) {
    std::size_t length = std::min(word.size(), longest_bytes_);
    auto found = pieces->find(word.substr(0, length));
    while (found == pieces->end() && length > 1) found = pieces->find(word.substr(0, --length));
    if (found == pieces->end()) {
      tokens.resize(before);
      tokens.push_back(unknown_);
      return;
    }
    tokens.push_back(found->second);
    word.remove_prefix(length);
    pieces = &continues_;
  }
}

std::vector<std::int32_t> WordPiece::encode(std::string_view text, std::size_t tokens_max) const {
  const std::size_t pieces_max = std::max<std::size_t>(tokens_max, 2) - 1;
  std::vector<std::int32_t> tokens{begin_};
  split_bert_words(text, options_, [&](std::string_view word, std::size_t characters) {
    if (characters > kWordCharacters) tokens.push_back(unknown_);
    else add_word(word, tokens);
    return tokens.size() < pieces_max;
  });
  tokens.resize(std::min(tokens.size(), pieces_max));
  tokens.push_back(end_);
  return tokens;
}

}  // namespace warren
