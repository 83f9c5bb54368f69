#include "text/glob.h"

#include <algorithm>
#include <optional>

#include "text/glob_check.h"

namespace warren {
namespace {

// Without empty and '.' components, and without a leading or trailing '/'.
std::string tidy(std::string_view path) {
  std::string out;
  for (std::size_t at = 0; at < path.size();) {
    std::size_t end = std::min(path.find('/', at), path.size());
    std::string_view part = path.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (!out.empty()) out += '/';
    out += part;
  }
  return out;
}

struct Class {
  std::bitset<256> set;
  std::size_t end = 0;  // after the ']'
};

// Reads the byte at `at`, after a backslash if there is one, and advances; nullopt at the end or before a '/'.
std::optional<unsigned char> take_member(std::string_view pattern, std::size_t& at) {
  if (at < pattern.size() && pattern[at] == '\\') ++at;
  if (at >= pattern.size() || pattern[at] == '/') return std::nullopt;
  return static_cast<unsigned char>(pattern[at++]);
}

// The class that starts with the '[' at `at`; nullopt if it is not closed within its component.
std::optional<Class> parse_class(std::string_view pattern, std::size_t at) {
  Class result;
  ++at;
  bool negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (negated) ++at;
  for (bool first = true; at < pattern.size(); first = false) {
    if (pattern[at] == ']' && !first) {
      if (negated) result.set.flip();
      result.set.reset('/');
      result.end = at + 1;
      return result;
    }
    auto low = take_member(pattern, at);
    if (!low) return std::nullopt;
    auto high = low;
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') high = take_member(pattern, ++at);
    if (!high) return std::nullopt;
    for (unsigned byte = *low; byte <= *high; ++byte) result.set.set(byte);
  }
  return std::nullopt;
}

}  // namespace

Glob::Glob(std::string_view pattern) {
  std::string text = tidy(pattern);
  for (std::size_t at = 0; at < text.size();) at = add_token(text, at);
  if (!is_plain_) return;
  for (const Token& token : tokens_) plain_ += static_cast<char>(token.byte);
}

bool Glob::at_component_start() const {
  if (tokens_.empty() || tokens_.back().kind == Kind::kDirs) return true;
  return tokens_.back().kind == Kind::kByte && tokens_.back().byte == '/';
}

void Glob::add_byte(char c) { tokens_.push_back({.kind = Kind::kByte, .byte = static_cast<unsigned char>(c)}); }

// Adds the token at `at`, special or not, and returns the index after it.
std::size_t Glob::add_token(std::string_view pattern, std::size_t at) {
  if (pattern[at] == '[') return add_class(pattern, at);
  if (pattern[at] == '?') {
    is_plain_ = false;
    tokens_.push_back({.kind = Kind::kAnyByte});
    return at + 1;
  }
  if (pattern[at] != '*') {
    if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
    add_byte(pattern[at]);
    return at + 1;
  }
  is_plain_ = false;
  std::size_t end = std::min(pattern.find_first_not_of('*', at), pattern.size());
  bool deep = end - at >= 2;
  if (deep && at_component_start() && end < pattern.size() && pattern[end] == '/') {
    tokens_.push_back({.kind = Kind::kDirs});
    return end + 1;
  }
  tokens_.push_back({.kind = deep ? Kind::kDeepStar : Kind::kStar});
  return end;
}

std::size_t Glob::add_class(std::string_view pattern, std::size_t at) {
  std::optional<Class> found = parse_class(pattern, at);
  if (!found) {
    add_byte('[');
    return at + 1;
  }
  is_plain_ = false;
  tokens_.push_back({.kind = Kind::kClass, .set = sets_.size()});
  sets_.push_back(found->set);
  return found->end;
}

// State i: the tokens before i have matched. Tokens that may match nothing are passed at once.
void Glob::enter(std::vector<bool>& states, std::size_t state) const {
  while (!states[state]) {
    states[state] = true;
    if (state == tokens_.size()) return;
    Kind kind = tokens_[state].kind;
    if (kind != Kind::kStar && kind != Kind::kDeepStar && kind != Kind::kDirs) return;
    ++state;
  }
}

bool Glob::accepts(const Token& token, unsigned char byte) const {
  switch (token.kind) {
    case Kind::kByte: return byte == token.byte;
    case Kind::kAnyByte:
    case Kind::kStar: return byte != '/';
    case Kind::kClass: return sets_[token.set].test(byte);
    case Kind::kDeepStar:
    case Kind::kDirs: return true;
  }
  return false;
}

// The order matters: enter() stops at a state that is already set, so a state must be entered before `next[i] = true`
// keeps it without the states that follow it.
void Glob::step(const std::vector<bool>& states, unsigned char byte, std::vector<bool>& next) const {
  next.assign(states.size(), false);
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const Token& token = tokens_[i];
    if (!states[i] || !accepts(token, byte)) continue;
    switch (token.kind) {
      case Kind::kStar:
      case Kind::kDeepStar: enter(next, i); break;
      case Kind::kDirs:
        // Within a directory's name, matching continues only after its '/'.
        if (byte == '/') enter(next, i + 1);
        next[i] = true;
        break;
      default: enter(next, i + 1);
    }
  }
}

bool Glob::matches(std::string_view path) const {
  std::string text = tidy(path);
  if (is_plain_) {
    if (plain_.empty() || text == plain_) return true;
    return text.size() > plain_.size() && text.starts_with(plain_) && text[plain_.size()] == '/';
  }
  return after(text).back();
}

// The states when this much has been read.
std::vector<bool> Glob::after(std::string_view text) const {
  std::vector<bool> states(tokens_.size() + 1);
  std::vector<bool> next;
  enter(states, 0);
  for (char c : text) {
    step(states, static_cast<unsigned char>(c), next);
    states.swap(next);
  }
  return states;
}

std::string Glob::below(std::string_view dir) const {
  std::string text = tidy(dir);
  if (is_plain_) {
    if (matches(text)) return "all";
    bool is_above = text.empty() || (plain_.starts_with(text) && plain_[text.size()] == '/');
    return is_above ? "/" + plain_.substr(text.empty() ? 0 : text.size() + 1) : "none";
  }
  std::string mark;
  for (bool state : after(text.empty() ? text : text + '/')) mark += state ? '1' : '0';
  return mark;
}

bool has_unclosed_class(std::string_view pattern) {
  for (std::size_t at = 0; at < pattern.size();) {
    if (pattern[at] == '[') {
      std::optional<Class> found = parse_class(pattern, at);
      if (!found) return true;
      at = found->end;
    } else {
      at += pattern[at] == '\\' ? 2 : 1;
    }
  }
  return false;
}

bool glob_match(std::string_view pattern, std::string_view path) { return Glob(pattern).matches(path); }

}  // namespace warren
