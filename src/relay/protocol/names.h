// Names of agents, channels and message files.
//
// A message file is `{timestamp_ns}-{hex}.msg`: 1 to 19 digits, then 8 to 32 hex digits. We write 19 and 16, so that
// names sort by creation. The stem is the name without `.msg`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warren::relay {

inline constexpr std::string_view kOrchestrator = "__orchestrator__";
inline constexpr std::string_view kLead = "Lead";  // an alias of the agent configured as `lead`

// A letter, then letters, digits, `_` and `-`; at most 63 bytes; not reserved (in any case).
bool is_agent_name(std::string_view name);
Status check_agent_name(std::string_view name);

// Without the `#`. As an agent name, but may also start with a digit or `_`, and no name is reserved.
Status check_channel_name(std::string_view name);

bool is_message_file(std::string_view name);
std::string make_message_stem(std::int64_t timestamp_ns, std::uint64_t random);
std::string_view stem_of(std::string_view file);  // the argument is a message file's name
std::optional<std::int64_t> timestamp_of(std::string_view file);

// "sender/stem", unique. The sender is the agent whose outbox the file was in.
std::string make_message_id(std::string_view sender, std::string_view stem);

}  // namespace warren::relay
