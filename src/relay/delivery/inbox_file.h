// Files in inboxes: what they contain and how they are named.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "relay/protocol/message.h"

namespace warren::relay {

// The content: the message with its sender and its id as the first headers.
std::string render(const Message& message, std::string_view sender, std::string_view id);

// The name: sorts by the stamp, and is unique to the message.
std::string inbox_name(std::string_view message_id, std::int64_t stamp_ns);
std::string inbox_name_end(std::string_view message_id);  // all of it after the stamp

// When the directory was created, by which it is told from another in its place; 0 if the filesystem does not know.
std::int64_t birth_of_inbox_ns(int inbox);

}  // namespace warren::relay
