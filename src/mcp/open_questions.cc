#include "mcp/open_questions.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "crypto/digest.h"
#include "crypto/hmac.h"

namespace warren::mcp {

std::string OpenQuestions::add(std::string hash) {
  std::string bytes(32, '\0');
  fill_with_random(as_mutable_bytes(bytes));
  std::string state = sha256_hex(as_bytes(bytes));
  std::lock_guard lock(mutex_);
  open_.push_back({.state = state, .hash = std::move(hash)});
  if (open_.size() > kOpenMax) open_.pop_front();
  return state;
}

bool OpenQuestions::take(std::string_view state, std::string_view hash) {
  std::lock_guard lock(mutex_);
  auto found = std::ranges::find_if(open_, [&](const Open& one) { return one.state == state && one.hash == hash; });
  if (found == open_.end()) return false;
  open_.erase(found);
  return true;
}

}  // namespace warren::mcp
