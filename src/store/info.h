// Sizes, counts and fragmentation of an agent file, for `warren info`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "store/store.h"

namespace warren {

struct AgentInfo {
  std::string path;
  std::string schema_version;
  bool is_encrypted = false;
  std::uint32_t chunk_bytes = 0;
  std::uint32_t page_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t free_bytes = 0;  // within the file, for reuse
  std::uint64_t wal_bytes = 0;
  std::uint64_t files = 0;
  std::uint64_t directories = 0;
  std::uint64_t symlinks = 0;
  std::uint64_t other = 0;
  std::uint64_t content_bytes = 0;  // sum of the sizes of files, holes included
  std::uint64_t stored_bytes = 0;   // sum of the lengths of chunks
  std::uint64_t chunks = 0;
  std::uint64_t keys = 0;
  std::uint64_t tool_calls = 0;
  std::uint64_t pending_calls = 0;
  std::uint64_t journal_rows = 0;
  double fragmentation = 0;  // share of consecutive chunks that are not stored next to each other
  std::optional<std::uint64_t> quota_bytes;
  std::optional<std::uint64_t> quota_inodes;
};

// Reads every row of fs_inode and the index of fs_data: O(nodes + chunks).
Result<AgentInfo> describe_agent(Store& store);

}  // namespace warren
