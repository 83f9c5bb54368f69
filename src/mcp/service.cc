#include "mcp/service.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/ascii.h"
#include "base/path.h"

namespace warren::mcp {
namespace {

constexpr std::size_t kRenewalsMax = 1000;  // of the view; each stays in memory

std::vector<std::string_view> group_names() {
  std::vector<std::string_view> groups;
  for (const Tool* tool : all_tools()) {
    if (std::find(groups.begin(), groups.end(), tool->group) == groups.end()) groups.push_back(tool->group);
  }
  return groups;
}

// Why a tool cannot be offered; "" if it can.
std::string_view why_not(const Tool& tool, const ToolChoice& choice) {
  if (choice.is_read_only && !tool.hints.is_read_only) return "it changes something, and the server is read-only";
  if (choice.is_for_peer && !is_for_peers(tool)) return "it is not for other agents";
  if (choice.reach == nullptr || is_met(tool.need, *choice.reach)) return "";
  switch (tool.need) {
    case ToolNeed::kRelay: return "it needs --relay-as NAME";
    case ToolNeed::kRun: return "it needs --allow run";
    case ToolNeed::kApply: return "it needs --allow apply";
    case ToolNeed::kNothing: break;
  }
  return "";
}

Status check_word(std::string_view word, const ToolChoice& choice) {
  if (word == "all") return Ok{};
  if (const Tool* tool = find_tool(word)) {
    std::string_view why = why_not(*tool, choice);
    if (why.empty()) return Ok{};
    return Error(Code::kInvalid, fmt::format("{} cannot be offered: {}", quote(word), why));
  }
  std::vector<std::string_view> groups = group_names();
  if (std::ranges::find(groups, word) == groups.end()) {
    return Error(Code::kInvalid, fmt::format("there is no tool or group {}", quote(word)),
                 fmt::format("the groups are {}; `all` is every tool of them", fmt::join(groups, ", ")));
  }
  std::string_view why;
  for (const Tool* tool : all_tools()) {
    if (tool->group != word) continue;
    why = why_not(*tool, choice);
    if (why.empty()) return Ok{};
  }
  return Error(Code::kInvalid, fmt::format("no tool of the group {} can be offered: {}", quote(word), why));
}

bool is_selected(const Tool& tool, const std::vector<std::string_view>& words) {
  if (words.empty()) return true;
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return word == tool.name || word == tool.group || word == "all"; });
}

}  // namespace

// A list that a script left empty must not become all tools.
Result<std::vector<const Tool*>> select_tools(std::optional<std::string_view> list, const ToolChoice& choice) {
  std::vector<std::string_view> words;
  for (std::string_view rest = list.value_or(""); list;) {
    std::size_t comma = rest.find(',');
    std::string_view word = trimmed(rest.substr(0, comma));
    if (word.empty()) {
      return Error(Code::kInvalid, fmt::format("{} has an empty word", quote(*list)),
                   "give names of tools or groups, with commas, or leave the option out for all of them");
    }
    WARREN_TRY(check_word(word, choice));
    words.push_back(word);
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::vector<const Tool*> chosen;
  for (const Tool* tool : all_tools()) {
    if (is_selected(*tool, words) && why_not(*tool, choice).empty()) chosen.push_back(tool);
  }
  return chosen;
}

bool is_long(const Tool& tool) { return tool.need == ToolNeed::kRun || tool.need == ToolNeed::kApply; }

std::shared_ptr<void> Service::begin_long_call() {
  auto end = [](void* service) { static_cast<Service*>(service)->long_calls_.fetch_sub(1); };
  if (long_calls_.fetch_add(1) < kLongCallsMax) return {this, end};
  end(this);
  return nullptr;
}

Service::Service(Agent& agent, AgentNamespace& names, NamespaceView& view, Clock& clock, ServiceOptions options)
    : agent_(agent), names_(names), clock_(clock), options_(std::move(options)), view_(&view) {}

Status Service::refresh_view() {
  if (!options_.renew_view) return Ok{};
  std::lock_guard lock(renewing_);
  // Before it is renewed: the next renewal would say that nothing has changed, and the old rights would hold on.
  bool is_at_limit = renewed_.size() >= kRenewalsMax;
  if (is_at_limit) return Error(Code::kLimit, "the caller's rights have changed too often", "start the server again");
  std::unique_ptr<NamespaceView> renewed = WARREN_TRY(options_.renew_view());
  if (!renewed) return Ok{};
  view_ = renewed.get();
  renewed_.push_back(std::move(renewed));
  return Ok{};
}

ToolContext Service::tool_context(const std::atomic<bool>* is_cancelled) const {
  return {.agent = agent_,
          .names = names_,
          .view = view(),
          .clock = clock_,
          .session = options_.session,
          .is_read_only = options_.is_read_only,
          .is_cancelled = is_cancelled,
          .progress = {},
          .open_index = options_.open_index,
          .open_embedder = options_.open_embedder,
          .reach = &options_.reach,
          .ask = {},
          .last_document = nullptr,
          .offered = &options_.tools};
}

const Tool* Service::find_tool(std::string_view name) const {
  auto found = std::ranges::find(options_.tools, name, &Tool::name);
  return found == options_.tools.end() ? nullptr : *found;
}

bool Service::offers_group(std::string_view group) const {
  return std::ranges::find(options_.tools, group, &Tool::group) != options_.tools.end();
}

Json Service::server_info(Revision revision) const {
  Json info{{"name", "warren"}, {"version", options_.version}};
  if (has_structure(revision)) info["title"] = fmt::format("Warren: agent {}", names_.agent_id());
  return info;
}

Json Service::capabilities(Revision revision) const {
  Json all{{"prompts", {{"listChanged", false}}}, {"logging", Json::object()}};
  if (serves_resources()) all["resources"] = {{"subscribe", true}, {"listChanged", serves_files()}};
  if (!options_.tools.empty()) all["tools"] = {{"listChanged", false}};
  if (revision >= Revision::k2025_03_26) all["completions"] = Json::object();
  return all;
}

std::string Service::instructions() const {
  return fmt::format(
      "The files, keys and memory of agent {}. Paths begin with '/'. /mem/working is scratch space that does not "
      "last, /mem/episodic is a log that only grows, /mem/semantic holds items with embeddings, /context has "
      "documents. "
      "What the rules do not allow is refused with a hint.{}{}",
      quote(names_.agent_id()), options_.is_read_only ? " Nothing can be changed here." : "",
      root() == "/" ? "" : fmt::format(" Only what is below {} may be used.", quote(root())));
}

std::string Service::root() const {
  const std::string& root = view().caller().root;
  return root.empty() ? "/" : root;
}

Status Service::sync() const {
  WARREN_TRY(view().sync(kRootInode).within("sync the agent file"));
  return names_.sync_mounts();
}

}  // namespace warren::mcp
