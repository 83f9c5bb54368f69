#include "mcp/consent.h"

#include "base/bytes.h"
#include "crypto/digest.h"
#include "mcp/session.h"

namespace warren::mcp {
namespace {

constexpr const char* kAnswerKey = "confirm";

bool has_forms(const Json& capabilities) {
  auto found = capabilities.find("elicitation");
  if (found == capabilities.end() || !found->is_object()) return false;
  return found->empty() || found->contains("form");
}

Json question_params(std::string_view question, Revision revision) {
  Json params{{"message", question},
              {"requestedSchema",
               {{"type", "object"},
                {"properties", {{kAnswerKey, {{"type", "boolean"}, {"title", "Go on"}, {"description", question}}}}},
                {"required", Json::array({kAnswerKey})}}}};
  if (revision >= Revision::k2025_11_25) params["mode"] = "form";
  return params;
}

// What a client answers to elicitation/create.
Consent consent_of(const Json& result) {
  if (!result.is_object() || result.value("action", Json()) != "accept") return Consent::kNo;
  auto content = result.find("content");
  bool is_yes = content != result.end() && content->is_object() && content->value(kAnswerKey, Json()) == true;
  return is_yes ? Consent::kYes : Consent::kNo;
}

}  // namespace

std::function<Result<Consent>(const ConsentQuestion&)> ConsentRound::asker() {
  bool has_state = has_sessions(request_.revision);
  Json capabilities = has_state ? request_.session.client_capabilities()
                                : meta_of(request_.params).value(kMetaCapabilities, Json::object());
  if (!has_forms(capabilities)) return {};
  if (has_state) return [this](const ConsentQuestion& question) { return ask_in_session(question); };
  return [this](const ConsentQuestion& question) -> Result<Consent> { return ask_by_result(question); };
}

Result<Consent> ConsentRound::ask_in_session(const ConsentQuestion& question) {
  Json answer = WARREN_TRY(
      request_.session.ask_client(request_, "elicitation/create", question_params(question.text, request_.revision)));
  return consent_of(answer);
}

// An answer counts only for the question that was asked: what it is about may have changed meanwhile.
std::string ConsentRound::hash_of(const ConsentQuestion& question) const {
  Json what{request_.params.value("name", Json()), request_.params.value("arguments", Json()), question.text,
            question.state};
  return sha256_hex(as_bytes(dump_json(what)));
}

Consent ConsentRound::ask_by_result(const ConsentQuestion& question) {
  std::string hash = hash_of(question);
  OpenQuestions& open = request_.service.open_questions();
  auto responses = request_.params.find("inputResponses");
  bool is_answer = responses != request_.params.end() && responses->is_object() && responses->contains(kAnswerKey) &&
                   open.take(find_text(request_.params, "requestState").value_or(""), hash);
  if (is_answer) return consent_of((*responses)[kAnswerKey]);
  Json one{{"method", "elicitation/create"}, {"params", question_params(question.text, request_.revision)}};
  asked_ = Json{{"resultType", "input_required"},
                {"inputRequests", {{kAnswerKey, std::move(one)}}},
                {"requestState", open.add(std::move(hash))}};
  return Consent::kPending;
}

}  // namespace warren::mcp
