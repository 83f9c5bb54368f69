#include <fmt/format.h>

#include "agent/agent_state.h"
#include "cli/changes/session_here.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/attributes_json.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"

namespace warren::cli {
namespace {

Json info_json(const AgentInfo& info) {
  Json json;
  set_bytes(json, "path", info.path);
  json["schema_version"] = info.schema_version;
  json["encrypted"] = info.is_encrypted;
  json["chunk_bytes"] = info.chunk_bytes;
  json["page_bytes"] = info.page_bytes;
  json["file_bytes"] = info.file_bytes;
  json["free_bytes"] = info.free_bytes;
  json["wal_bytes"] = info.wal_bytes;
  json["files"] = info.files;
  json["directories"] = info.directories;
  json["symlinks"] = info.symlinks;
  json["other"] = info.other;
  json["content_bytes"] = info.content_bytes;
  json["stored_bytes"] = info.stored_bytes;
  json["chunks"] = info.chunks;
  json["fragmentation"] = info.fragmentation;
  json["keys"] = info.keys;
  json["tool_calls"] = info.tool_calls;
  json["pending_calls"] = info.pending_calls;
  json["journal_rows"] = info.journal_rows;
  json["quota_bytes"] = number_or_null(info.quota_bytes);
  json["quota_inodes"] = number_or_null(info.quota_inodes);
  return json;
}

Result<Exit> run_info(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead));
  AgentInfo info = WARREN_TRY(describe_agent(*agent));
  Output& out = context.out;
  if (args.has("json")) {
    out.json(info_json(info));
    return Exit::kOk;
  }
  auto limit = [](const auto& value, auto format) { return value ? format(*value) : std::string("none"); };
  out.print("       path: {}\n", out.name(info.path));
  out.print("     schema: {} (chunks of {}, pages of {})\n", info.schema_version, out.size(info.chunk_bytes),
            out.size(info.page_bytes));
  if (info.is_encrypted) out.print(" encryption: AEGIS-256\n");
  out.print("  file size: {} ({} of it free, {} in the write-ahead log)\n", out.size(info.file_bytes),
            out.size(info.free_bytes), out.size(info.wal_bytes));
  out.print("       tree: {} files, {} directories, {} links, {} other\n", info.files, info.directories, info.symlinks,
            info.other);
  out.print("    content: {} in {} chunks, {} stored, {:.1f}% fragmented\n", out.size(info.content_bytes), info.chunks,
            out.size(info.stored_bytes), info.fragmentation * 100);
  out.print("       keys: {}\n", info.keys);
  out.print(" tool calls: {} ({} pending)\n", info.tool_calls, info.pending_calls);
  out.print("    journal: {} rows\n", info.journal_rows);
  out.print("      quota: {}, {} inodes\n",
            limit(info.quota_bytes, [&](std::uint64_t bytes) { return out.size(bytes); }),
            limit(info.quota_inodes, [](std::uint64_t count) { return std::to_string(count); }));
  return Exit::kOk;
}

}  // namespace

Command make_info() {
  return {.name = "info",
          .summary = "Show an agent's size, counts and fragmentation",
          .details = "",
          .positionals = {optional_id_argument()},
          .options = {json_option()},
          .subcommands = {},
          .handler = in_session_here<run_info>};
}

}  // namespace warren::cli
