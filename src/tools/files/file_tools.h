// What the tools of files share: paths of the namespace, errors with a next call, media types, pages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "fs/types.h"
#include "tools/tool.h"
#include "vfs/rights.h"

namespace warren {

// What one answer carries at most; a longer file, listing or search is in pages.
inline constexpr std::uint64_t kToolPageBytes = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kToolReadBytesMax = std::uint64_t{8} << 20;
inline constexpr std::uint64_t kToolFileBytesMax = std::uint64_t{64}
                                                   << 20;  // a file that is edited or searched as a whole
inline constexpr std::size_t kToolPageEntries = 1000;

// The argument as a path of the namespace; without one, the directory that the caller is confined to. It may be a
// vfs:// URI of this agent, in which names that are not UTF-8 can be written. A refusal is recorded as one of the
// operation `op`.
Result<std::string> path_argument(ToolContext& context, const Json& arguments, const char* name, std::string_view op);

std::string text_argument(const Json& arguments, const char* name, std::string_view fallback = {});
bool flag_argument(const Json& arguments, const char* name, bool fallback = false);
std::uint64_t count_argument(const Json& arguments, const char* name, std::uint64_t fallback);

// The answer, or the error with a hint that names a call which leads on. `path` is the one that was asked for.
enum class FileUse { kRead, kWrite };
ToolAnswer file_answer(Result<ToolAnswer> made, std::string_view path, FileUse use = FileUse::kRead);

// Keys have paths for the policy: /state/kv/KEY. Bytes other than letters, digits, '-', '.', '_', '~' and '/' are %XX,
// and so are the dots of a name that has nothing else.
std::string key_path(std::string_view key);
// kDenied, on the record, if the caller may not do this with the key; kTooLarge, kBusy by the policy's limits.
Status check_key(NamespaceView& view, Rights::Operation operation, std::string_view key, std::uint64_t size_bytes = 0);
// Those that the caller may read.
Result<std::vector<std::string>> readable_keys(NamespaceView& view, std::vector<std::string> keys);

// "/project/src" is "/src" in the agent's base; nullopt: it is elsewhere in the namespace.
std::optional<std::string> path_in_project(std::string_view path);
std::string project_path_of(std::string_view base_path);
// Whether it is a file of the base, or below a directory of it, that runs do not see.
bool is_hidden_in_project(Agent& agent, std::string_view path);

// kDenied, on the record as `op`, if the caller may not do this at the path.
Status check_right(ToolContext& context, Rights::Operation operation, const std::string& path, std::string_view op);

// Asks whether to go on, if somebody can be asked. kDenied: not, or not yet.
Status check_consent(const ToolContext& context, const ConsentQuestion& question);

// What is in a directory, for the question whether it may be removed or replaced.
class RemovedTree {
 public:
  void add(std::string_view path, const Attributes& node);
  // "… and the 3 files and directories in it"; the first names are in it, too.
  ConsentQuestion question(std::string_view verb, std::string_view name) const;
  std::string summary() const;  // "3 files and directories (a, b, …)"
  const std::string& state() const { return state_; }
  bool is_empty() const { return count_ == 0; }

 private:
  std::size_t count_ = 0;
  std::size_t named_ = 0;
  std::string first_;  // names
  std::string state_;  // a chain of hashes
};
// Asks before `name` is removed with what is in it, if anything is; `look` reads it. kConflict if something in it has
// changed while the user was asked.
Status check_removal(const ToolContext& context, std::string_view verb, std::string_view name,
                     const std::function<Result<RemovedTree>()>& look);

// kUnavailable once the caller has cancelled the call.
Status check_cancelled(const ToolContext& context);

// "file", "directory", "symlink", "other".
std::string_view kind_of(const Attributes& node);
std::string time_text(const Timestamp& at);  // 2026-01-31T12:00:00Z

// As for items, by the bytes first. If they say nothing, since they are a part of the file, by a name of binary files.
std::string media_type_of(std::string_view path, std::string_view bytes);

// vfs://AGENT/PATH, in both every byte that a URI cannot have as %XX.
std::string vfs_uri(std::string_view agent, std::string_view path);

// A name or path for JSON. Bytes that are not UTF-8 are replaced, and `key`_base64 has them as they are.
void set_path_text(Json& to, const char* key, std::string_view bytes);
// A path that is not UTF-8 also gets "uri", which tools take in its place.
void set_path_uri(Json& to, const ToolContext& context, std::string_view path);

// Whether what is below this directory may be listed; a directory that may not is passed over by searches.
Result<bool> may_enter(ToolContext& context, const std::string& path);

}  // namespace warren
