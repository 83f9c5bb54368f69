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
  std::function<Result<Consent>(std::string_view question)> asker();
  // The result that asks, if the call stopped because of that.
  std::optional<Json> find_question() const;

 private:
  Result<Consent> ask_in_session(std::string_view question);
  Consent ask_by_result(std::string_view question);
  std::string state_of(std::string_view question) const;

  const Request& request_;
  std::optional<std::string> asked_;  // and not answered yet
};

}  // namespace warren::mcp
