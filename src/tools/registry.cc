#include <algorithm>

#include "tools/tool.h"

// Every tool: one line each, ordered by group and then by name. The tool NAME is made by NAME_tool() in NAME.cc of
// a room of this module, or in the file of its family.
#define WARREN_ALL_TOOLS           \
  WARREN_TOOL(checkpoint)          \
  WARREN_TOOL(diff)                \
  WARREN_TOOL(history)             \
  WARREN_TOOL(restore)             \
  WARREN_TOOL(context_copy)        \
  WARREN_TOOL(context_count_lines) \
  WARREN_TOOL(context_create_dir)  \
  WARREN_TOOL(context_delete)      \
  WARREN_TOOL(context_dir_size)    \
  WARREN_TOOL(context_edit)        \
  WARREN_TOOL(context_exists)      \
  WARREN_TOOL(context_info)        \
  WARREN_TOOL(context_list_drives) \
  WARREN_TOOL(context_move)        \
  WARREN_TOOL(context_read)        \
  WARREN_TOOL(context_refresh)     \
  WARREN_TOOL(context_search)      \
  WARREN_TOOL(context_tree)        \
  WARREN_TOOL(context_write)       \
  WARREN_TOOL(search)              \
  WARREN_TOOL(access)              \
  WARREN_TOOL(copy)                \
  WARREN_TOOL(edit_file)           \
  WARREN_TOOL(find)                \
  WARREN_TOOL(grep)                \
  WARREN_TOOL(mkdir)               \
  WARREN_TOOL(read_file)           \
  WARREN_TOOL(readdir)             \
  WARREN_TOOL(remove)              \
  WARREN_TOOL(rename)              \
  WARREN_TOOL(stat)                \
  WARREN_TOOL(tree)                \
  WARREN_TOOL(write_file)          \
  WARREN_TOOL(kv_delete)           \
  WARREN_TOOL(kv_get)              \
  WARREN_TOOL(kv_list)             \
  WARREN_TOOL(kv_set)              \
  WARREN_TOOL(memory)              \
  WARREN_TOOL(relay_ack)           \
  WARREN_TOOL(relay_agents)        \
  WARREN_TOOL(relay_inbox)         \
  WARREN_TOOL(relay_send)          \
  WARREN_TOOL(apply)               \
  WARREN_TOOL(run)                 \
  WARREN_TOOL(vfs_operation)

namespace warren {

#define WARREN_TOOL(name) const Tool& name##_tool();
WARREN_ALL_TOOLS
#undef WARREN_TOOL

const std::vector<const Tool*>& all_tools() {
#define WARREN_TOOL(name) &name##_tool(),
  static const std::vector<const Tool*> tools{WARREN_ALL_TOOLS};
#undef WARREN_TOOL
  return tools;
}

bool is_met(ToolNeed need, const ToolReach& reach) {
  switch (need) {
    case ToolNeed::kNothing: return true;
    case ToolNeed::kRelay: return reach.relay.has_value();
    case ToolNeed::kRun: return reach.run != nullptr;
    case ToolNeed::kApply: return reach.apply != nullptr;
  }
  return false;
}

bool is_for_peers(const Tool& tool) { return tool.group == "files"; }

const Tool* find_tool(std::string_view name) {
  const std::vector<const Tool*>& tools = all_tools();
  auto found = std::ranges::find(tools, name, &Tool::name);
  return found == tools.end() ? nullptr : *found;
}

}  // namespace warren
