// The revisions of the protocol, and what they differ in.
//
// Up to 2025-11-25 a client begins a session with `initialize`. From 2026-07-28 on there are no sessions: each request
// says in its _meta which revision it speaks.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/json.h"

namespace warren::mcp {

// In the order of time.
enum class Revision : std::uint8_t { k2024_11_05, k2025_03_26, k2025_06_18, k2025_11_25, k2026_07_28 };

inline constexpr Revision kNewestWithSessions = Revision::k2025_11_25;

std::string_view name_of(Revision revision);
std::optional<Revision> find_revision(std::string_view name);
inline bool has_sessions(Revision revision) { return revision <= kNewestWithSessions; }
// JSON arrays of messages; only this revision has them.
inline bool has_batches(Revision revision) { return revision == Revision::k2025_03_26; }
inline bool has_annotations(Revision revision) { return revision >= Revision::k2025_03_26; }
// Titles, outputSchema, structuredContent.
inline bool has_structure(Revision revision) { return revision >= Revision::k2025_06_18; }

Json stateless_revisions();  // the names, for server/discover

// Members of _meta.
inline constexpr const char* kMetaVersion = "io.modelcontextprotocol/protocolVersion";
inline constexpr const char* kMetaCapabilities = "io.modelcontextprotocol/clientCapabilities";
inline constexpr const char* kMetaLogLevel = "io.modelcontextprotocol/logLevel";
inline constexpr const char* kMetaServer = "io.modelcontextprotocol/serverInfo";
inline constexpr const char* kMetaSubscription = "io.modelcontextprotocol/subscriptionId";

// Of a request's params; an empty object if there is none.
const Json& meta_of(const Json& params);

}  // namespace warren::mcp
