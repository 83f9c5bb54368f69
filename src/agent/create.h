// Making, copying and replacing whole agents.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"

namespace warren {

enum class Replace { kNo, kYes };

struct CreateOptions {
  std::optional<std::string> id;    // default: agent-<Unix time>
  Replace replace = Replace::kNo;   // kYes: removes the agent's own files first, and no others
  std::optional<std::string> base;  // a directory of the host to lay the agent over
  std::uint32_t chunk_bytes = limits::kChunkBytesDefault;
};

struct CreatedAgent {
  std::string id;
  std::string path;
  std::optional<std::string> base;  // canonical
};

// In ./.agentfs, which is made when missing. kExists, kInvalid (id, chunk size), kNotFound and
// kNotDirectory (base). When it fails half-way, no agent is left behind.
Result<CreatedAgent> create_agent(const CreateOptions& options, Clock& clock);

// Makes the agent `id_or_path` what the backup `file` holds. The backup is checked first: kCorrupt
// when it is damaged. An agent that exists is replaced only with kYes, and not while another process
// has it open (kBusy; a process that opens it at this very moment is not seen). Returns its path.
Result<std::string> restore_agent(const std::string& id_or_path, const std::string& file, Replace replace,
                                  Clock& clock);

}  // namespace warren
