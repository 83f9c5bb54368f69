// The fixtures that public conformance suites of the protocol expect from a server (`serve mcp --conformance`): tools,
// prompts and resources with fixed names and contents, served by the same dispatcher as everything else.
#pragma once

#include <optional>
#include <string>

#include "mcp/request.h"

namespace warren::mcp::conformance {

Json tools();  // as tools/list has them
// conformance_asks.cc
void add_asking_tools(Json& list);
std::optional<Answer> call_asking_tool(const Request& request, const std::string& name);
// conformance_rounds.cc
void add_round_tools(Json& list);
std::optional<Answer> call_round_tool(const Request& request, const std::string& name);
std::optional<Answer> get_round_prompt(const Request& request, const std::string& name);

// Nullopt: it is none of these.
std::optional<Answer> call_tool(const Request& request, const std::string& name);

Json resources();
Json templates();
std::optional<Answer> read_resource(const std::string& uri);
bool is_resource(const std::string& uri);

Json prompts();
std::optional<Answer> get_prompt(const Request& request, const std::string& name);

}  // namespace warren::mcp::conformance
