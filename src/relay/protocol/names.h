// Names of the relay: agents, channels, and message files.
//
// A message file is `{timestamp_ns}-{hex}.msg`: 1 to 19 digits, and 8 to 32 hexadecimal ones (we write 19 and 16, so
// that names sort as they were made). Its stem is the name without `.msg`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace warren::relay {

inline constexpr std::string_view kOrchestrator = "__orchestrator__";
inline constexpr std::string_view kLead = "Lead";  // whoever leads, by whatever name

// A letter, then letters, digits, `_` and `-`; at most 63; no reserved name (whatever its case).
bool is_agent_name(std::string_view name);
Status check_agent_name(std::string_view name);

// Without its `#`: the same letters, at most 63, also beginning with a digit.
Status check_channel_name(std::string_view name);

bool is_message_file(std::string_view name);
std::string make_message_stem(std::int64_t timestamp_ns, std::uint64_t random);
std::string_view stem_of(std::string_view file);  // of a message file
std::optional<std::int64_t> timestamp_of(std::string_view file);

// "sender/stem": what a message is known by. The sender is the directory it came from.
std::string make_message_id(std::string_view sender, std::string_view stem);

}  // namespace warren::relay
