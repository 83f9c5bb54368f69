// The entry for a server in the configuration of MCP clients, as text: no files are touched here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren::mcp {

enum class ConfigFormat { kJson, kToml };
enum class ConfigPlace { kProject, kHome };

struct ClientConfig {
  std::string_view name;   // "cursor"
  std::string_view title;  // "Cursor"
  ConfigPlace place;       // what `file` is relative to
  std::string_view file;   // ".cursor/mcp.json"
  ConfigFormat format;
  std::string_view servers;  // the member, or table, that has the servers by name
  bool has_type = false;     // an entry says "type": "stdio"
};
std::span<const ClientConfig> client_configs();
const ClientConfig* find_client_config(std::string_view name);

struct ServerEntry {
  std::string name;  // of the server, among others in the file
  std::string command;
  std::vector<std::string> arguments;
};

// kInvalid if the name cannot stand in a configuration: it is empty, too long, not UTF-8, or has control characters.
Status check_server_name(std::string_view name);

// The entry alone, as a file that has nothing else would be.
std::string entry_text(const ClientConfig& client, const ServerEntry& entry);

// The text of the configuration with the entry, or without it; everything else stays. An entry of the same name is
// replaced. kInvalid if the text is not understood; kExists if a TOML file has such a
// server that we did not write. What is made of TOML is read again before it is returned: it has this entry, and all
// other values are as before.
Result<std::string> with_entry(const ClientConfig& client, std::string_view text, const ServerEntry& entry);
// "" if nothing is left. kNotFound if there is no such entry.
Result<std::string> without_entry(const ClientConfig& client, std::string_view text, std::string_view name);

}  // namespace warren::mcp
