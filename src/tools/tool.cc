#include "tools/tool.h"

#include <algorithm>
#include <exception>
#include <map>

#include <fmt/format.h>

#include "agent/agent.h"
#include "agent/agent_namespace.h"
#include "base/path.h"
#include "base/utf8.h"
#include "tools/hints.h"
#include "tools/schema.h"
#include "tools/tool_beat.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

// A longer text of a call is cut in the trail: what was written is in the file.
constexpr std::size_t kRecordedTextBytes = std::size_t{16} << 10;
constexpr std::size_t kRecordedBytes = std::size_t{64} << 10;  // of all arguments, or of the result
constexpr std::size_t kShownTextBytes = std::size_t{1} << 10;
constexpr int kRecordedLevels = 100;

std::string_view type_of(Code code) {
  switch (code) {
    case Code::kInvalid:
    case Code::kNameTooLong: return "invalid_argument";
    case Code::kExists: return "already_exists";
    case Code::kDenied:
    case Code::kNotPermitted: return "denied";
    case Code::kTooLarge:
    case Code::kNoSpace:
    case Code::kLimit: return "limit";
    case Code::kStale: return "not_found";
    default: return name_of(code);
  }
}

std::string shortened(const std::string& text) {
  std::size_t end = kShownTextBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return fmt::format("{}… ({} bytes in all)", text.substr(0, end), text.size());
}

// Arguments and results are as deep as their schemas, except what a tool passes through, and an answer adds levels to
// that. What is recorded must stay readable, so it ends below a level that every reader takes.
void shorten(Json& value, int levels_left) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() > kRecordedTextBytes) value = shortened(text);
  }
  if (!value.is_structured() || value.empty()) return;
  if (levels_left == 0) {
    value = "… (nested deeper)";
    return;
  }
  for (Json& member : value) shorten(member, levels_left - 1);
}

bool is_deeper_than(const Json& value, int levels) {
  if (!value.is_structured() || value.empty()) return false;
  if (levels == 0) return true;
  return std::ranges::any_of(value, [levels](const Json& member) { return is_deeper_than(member, levels - 1); });
}

std::string recorded(const Json& whole) {
  std::string text = dump_json(whole);
  if (text.size() <= kRecordedTextBytes && !is_deeper_than(whole, kRecordedLevels))
    return text;  // so is every text in it
  Json value = whole;
  shorten(value, kRecordedLevels);
  text = dump_json(value);
  if (text.size() <= kRecordedBytes) return text;
  if (value.is_object()) {  // many short texts: a member as a whole
    for (Json& member : value) {
      std::string one = dump_json(member);
      if (one.size() > kShownTextBytes) member = shortened(one);
    }
  }
  std::string rest = dump_json(value);
  return rest.size() <= kRecordedBytes ? rest : dump_json(Json{{"cut", shortened(text)}});
}

ToolAnswer failed(ToolError error) {
  ToolAnswer answer;
  answer.error = std::move(error);
  return answer;
}

// A library of ours that throws has a bug; the model and the trail still get an answer.
ToolAnswer called(ToolContext& context, const Tool& tool, const Json& arguments) {
  try {
    ToolBeat beat(context, std::string(tool.title));
    return tool.call(context, arguments);
  } catch (const std::exception& thrown) {
    return failed({.type = "internal", .message = thrown.what(), .next_action_hint = {}});
  }
}

std::string_view how_to_meet(ToolNeed need) {
  switch (need) {
    case ToolNeed::kNothing: return "";
    case ToolNeed::kRelay: return "This agent has no mailbox at a relay. Ask the operator for one.";
    case ToolNeed::kRun:
      return "Commands are not allowed here. Ask the operator to allow them, or use the tools of files.";
    case ToolNeed::kApply:
      return "Applying is not allowed here. Tell the user what diff shows, and leave it to the operator.";
  }
  return "";
}

ToolAnswer judged(ToolContext& context, const Tool& tool, const Json& arguments) {
  static const ToolReach kNothing;
  if (!is_met(tool.need, context.reach != nullptr ? *context.reach : kNothing)) {
    return failed({.type = "unavailable",
                   .message = fmt::format("{} cannot be called here", tool.name),
                   .next_action_hint = std::string(how_to_meet(tool.need))});
  }
  if (context.view.caller().grants && !is_for_peers(tool)) {
    return failed({.type = "denied",
                   .message = fmt::format("{} is not for other agents", tool.name),
                   .next_action_hint = "Use the tools of files."});
  }
  if (std::optional<ToolError> problem = check_arguments(tool, arguments)) return failed(std::move(*problem));
  if (!tool.hints.is_read_only && (context.is_read_only || context.agent.is_read_only())) {
    return failed({.type = "read_only",
                   .message = fmt::format("{} changes something, and this agent is open for reading only", tool.name),
                   .next_action_hint = "Only tools that read can be called here."});
  }
  return called(context, tool, arguments);
}

// No error leaves without a next step, or with one that only people at a shell or users of other tools can take.
ToolAnswer with_hint(const ToolContext& context, const Tool& tool, ToolAnswer answer) {
  if (!answer.error) return answer;
  std::string& hint = answer.error->next_action_hint;
  auto can_be_followed = [&] {
    return !hint.empty() && !is_for_shell(hint) && (!context.offered || names_only(hint, *context.offered));
  };
  if (!can_be_followed()) hint = default_hint(tool, answer.error->type);
  if (!can_be_followed())
    hint = "Use another tool of those that are offered here, or tell the user what the message says.";
  return answer;
}

// What was read leaves only if that is on the record, where it is to be. After the call's own row, whose transaction
// takes the events along.
ToolAnswer on_record(ToolContext& context, ToolAnswer answer) {
  if (Status noted = context.view.check_recorded(); !noted.ok()) {
    return failed(
        tool_error(noted.error(), "What was read could not be recorded, so it is not shown. Ask the operator."));
  }
  return answer;
}

std::string recorded_result(const ToolAnswer& answer) {
  if (!answer.blob) return recorded(answer.structured);
  Json result = answer.structured;
  result["blob"] = {{"mime", answer.blob->mime}, {"size_bytes", answer.blob->bytes.size()}};
  return recorded(result);
}

// Built once: a schema takes longer to build than to check.
const Json& input_schema_of(const Tool& tool) {
  static const std::map<const Tool*, Json> kSchemas = [] {
    std::map<const Tool*, Json> made;
    for (const Tool* one : all_tools()) made.emplace(one, one->input_schema());
    return made;
  }();
  return kSchemas.at(&tool);
}

}  // namespace

std::optional<ToolError> check_arguments(const Tool& tool, const Json& arguments) {
  const Json& schema = input_schema_of(tool);
  std::optional<std::string> problem = find_schema_problem(schema, arguments);
  if (!problem) return std::nullopt;
  return ToolError{.type = "invalid_argument",
                   .message = fmt::format("{}: {}", tool.name, *problem),
                   .next_action_hint = fmt::format("Call {} again with arguments that match its input schema: {}",
                                                   tool.name, dump_json(schema))};
}

ToolAnswer call_tool(ToolContext& context, const Tool& tool, const Json& arguments) {
  Timestamp started = context.clock.now();
  std::int64_t began = context.clock.monotonic_ns();
  ToolAnswer answer = with_hint(context, tool, judged(context, tool, arguments));
  if (context.agent.is_read_only()) return on_record(context, std::move(answer));
  CallRecord record{.name = tool.name,
                    .started_at = started.seconds,
                    .completed_at = std::max(started.seconds, context.clock.now().seconds),
                    .parameters = recorded(arguments),
                    .result = {},
                    .error = {},
                    .duration_ns = std::max<std::int64_t>(0, context.clock.monotonic_ns() - began),
                    .details = {.session = context.session},
                    .is_json = true};
  if (answer.error) record.error = fmt::format("{}: {}", answer.error->type, answer.error->message);
  else record.result = recorded_result(answer);
  Result<std::int64_t> kept = context.agent.tools().record(record);
  if (kept.ok()) return on_record(context, std::move(answer));
  if (answer.error) {
    answer.error->message += fmt::format(", and that could not be recorded: {}", kept.error().message());
    return answer;
  }
  return failed({.type = "not_recorded",
                 .message = fmt::format("the call was made, but could not be recorded: {}", kept.error().message()),
                 .next_action_hint = "Look at what there is before you call this again."});
}

Json to_json(const ToolError& error) {
  return {{"is_error", true},
          {"error_type", error.type},
          {"message", error.message},
          {"next_action_hint", error.next_action_hint}};
}

ToolError tool_error(const Error& error, std::string hint) {
  return {.type = std::string(type_of(error.code())),
          .message = error.message(),
          .next_action_hint = hint.empty() ? error.hint() : std::move(hint)};
}

}  // namespace warren
