#include "mcp/service.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/ascii.h"
#include "base/path.h"

namespace warren::mcp {
namespace {

constexpr std::string_view kOffByDefault = "run";

std::vector<std::string_view> group_names() {
  std::vector<std::string_view> groups;
  for (const Tool* tool : all_tools()) {
    if (std::find(groups.begin(), groups.end(), tool->group) == groups.end()) groups.push_back(tool->group);
  }
  return groups;
}

bool is_selected(const Tool& tool, const std::vector<std::string_view>& words) {
  if (words.empty()) return tool.group != kOffByDefault;
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return word == tool.name || word == tool.group || (word == "all" && tool.group != kOffByDefault);
  });
}

}  // namespace

Result<std::vector<const Tool*>> select_tools(std::string_view list, bool is_read_only) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    std::size_t comma = list.find(',');
    std::string_view word = trimmed(list.substr(0, comma));
    list.remove_prefix(comma == list.npos ? list.size() : comma + 1);
    if (word.empty()) continue;
    std::vector<std::string_view> groups = group_names();
    bool is_known =
        word == "all" || find_tool(word) != nullptr || std::find(groups.begin(), groups.end(), word) != groups.end();
    if (!is_known) {
      return Error(Code::kInvalid, fmt::format("there is no tool or group {}", quote(word)),
                   fmt::format("the groups are {}; `all` is every tool of them", fmt::join(groups, ", ")));
    }
    words.push_back(word);
  }
  std::vector<const Tool*> chosen;
  for (const Tool* tool : all_tools()) {
    if (is_selected(*tool, words) && (!is_read_only || tool->hints.is_read_only)) chosen.push_back(tool);
  }
  return chosen;
}

Service::Service(Agent& agent, AgentNamespace& names, NamespaceView& view, Clock& clock, ServiceOptions options)
    : agent_(agent), names_(names), view_(view), clock_(clock), options_(std::move(options)) {}

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
  Json all{{"resources", {{"subscribe", true}, {"listChanged", false}}},
           {"prompts", {{"listChanged", false}}},
           {"logging", Json::object()}};
  if (!options_.tools.empty()) all["tools"] = {{"listChanged", false}};
  if (revision >= Revision::k2025_03_26) all["completions"] = Json::object();
  return all;
}

std::string Service::instructions() const {
  return fmt::format(
      "The files, keys and memory of agent {}. Paths begin with '/'. /mem/working is scratch space that does not "
      "last, /mem/episodic is a log that only grows, /mem/semantic holds items with embeddings, /context has "
      "documents. "
      "What the rules do not allow is refused with a hint.{}",
      quote(names_.agent_id()), options_.is_read_only ? " Nothing can be changed here." : "");
}

Status Service::sync() const {
  WARREN_TRY(view_.sync(kRootInode).within("sync the agent file"));
  return names_.sync_mounts();
}

}  // namespace warren::mcp
