#include <utility>

#include "base/ascii.h"
#include "base/utf8.h"
#include "pg/connection.h"
#include "pg/libpq.h"

namespace warren::pg {
namespace {

int digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

// PostgreSQL stores no NUL.
std::size_t clean_length(std::string_view text) { return text[0] == '\0' ? 0 : utf8_length(text); }

}  // namespace

std::optional<std::string> clean_text(std::string_view text) {
  std::size_t clean = 0;
  while (clean < text.size()) {
    std::size_t step = clean_length(text.substr(clean));
    if (step == 0) break;
    clean += step;
  }
  if (clean == text.size()) return std::nullopt;
  std::string out(text.substr(0, clean));
  for (std::size_t at = clean; at < text.size();) {
    std::size_t step = clean_length(text.substr(at));
    if (step == 0) out += "\xEF\xBF\xBD";
    else out += text.substr(at, step);
    at += step == 0 ? 1 : step;
  }
  return out;
}

Reply::Reply(Reply&& other) noexcept : pq_(other.pq_), result_(std::exchange(other.result_, nullptr)) {}

Reply& Reply::operator=(Reply&& other) noexcept {
  std::swap(pq_, other.pq_);
  std::swap(result_, other.result_);
  return *this;
}

Reply::~Reply() {
  if (result_ != nullptr) pq_->PQclear(result_);
}

int Reply::row_count() const { return result_ == nullptr ? 0 : pq_->PQntuples(result_); }

std::int64_t Reply::changed() const {
  std::string_view digits = result_ == nullptr ? "" : pq_->PQcmdTuples(result_);
  return parse_number<std::int64_t>(digits).value_or(0);
}

bool Reply::is_null(int row, int column) const { return pq_->PQgetisnull(result_, row, column) != 0; }

std::string_view Reply::text(int row, int column) const {
  return {pq_->PQgetvalue(result_, row, column), static_cast<std::size_t>(pq_->PQgetlength(result_, row, column))};
}

std::int64_t Reply::integer(int row, int column) const {
  std::string_view digits = text(row, column);
  if (digits == "t") return 1;
  return parse_number<std::int64_t>(digits).value_or(0);
}

std::string Reply::bytes(int row, int column) const {
  std::string_view hex = text(row, column);
  if (!hex.starts_with("\\x")) return std::string(hex);
  hex.remove_prefix(2);
  std::string out;
  out.reserve(hex.size() / 2);
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) out += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  return out;
}

}  // namespace warren::pg
