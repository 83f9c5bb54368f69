// Questions to the user of a client, before a tool destroys something: whether to go on.
//
// In a session the server asks with elicitation/create and waits. From 2026-07-28 on it answers the call with
// input_required, and the client calls again with the answer.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "mcp/request.h"
#include "tools/tool.h"

namespace warren::mcp {

// For one call of a tool; the request outlives it.
class ConsentRound {
 public:
  explicit ConsentRound(const Request& request) : request_(request) {}

  // For ToolContext::ask: empty if this client cannot ask its user.
  std::function<Result<Consent>(const ConsentQuestion&)> asker();
  // The result that asks, if the call stopped because of that.
  const std::optional<Json>& find_question() const { return asked_; }

 private:
  Result<Consent> ask_in_session(const ConsentQuestion& question);
  Consent ask_by_result(const ConsentQuestion& question);
  std::string hash_of(const ConsentQuestion& question) const;

  const Request& request_;
  std::optional<Json> asked_;  // the result that asks
};

}  // namespace warren::mcp
