// The tables of an agent file: creating them, and recognising those of other programs.
//
// The format is AgentFS's, version 0.4 (docs/format.md); our own tables start with wr_. There are no
// virtual tables and no triggers in the file: AgentFS's engine refuses to open a file that has one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "db/database.h"

namespace warren {

// In order of age, so that `<` means older.
enum class SchemaVersion { k0_0, k0_2, k0_4 };

std::string_view name_of(SchemaVersion version);  // "0.4"

// What a file contains. Files of other programs may lack any table but fs_inode and fs_dentry.
struct Schema {
  SchemaVersion version = SchemaVersion::k0_4;
  std::uint32_t chunk_bytes = 4096;
  bool has_chunks = true;              // fs_data by chunk_index; the oldest files have offsets instead
  bool has_symlinks = true;            // fs_symlink
  bool has_kv = true;                  // kv_store
  bool has_tool_calls = true;          // tool_calls
  bool tool_calls_have_status = true;  // as AgentFS's SDK creates the table; its specification has none
  bool has_extensions = true;          // our wr_ tables
  bool has_expiries = true;            // wr_expiry, which a file of an older Warren lacks
  bool journal_has_authors = true;     // wr_journal.door and .space, which a file of an older Warren lacks
  bool has_all_extensions = true;      // all of them; a file of an older Warren lacks those added since

  bool is_current() const { return version == SchemaVersion::k0_4; }
};

// The value of chunk_size in fs_config; nullopt if it is not a supported size.
std::optional<std::uint32_t> parse_chunk_bytes(std::string_view text);

// Changes nothing. kCorrupt if it is a database but not an agent file.
Result<Schema> inspect_schema(Database& database);

// Creates every table in a new, empty database.
Status create_schema(Database& database, std::uint32_t chunk_bytes, Timestamp now);

// Adds the tables that a 0.4 file of another program lacks; idempotent. Call in a write transaction.
Status complete_schema(Database& database);

}  // namespace warren
