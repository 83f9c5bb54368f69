// What the files of Ingest share.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "drives/ingest.h"
#include "os/fd.h"
#include "text/ignore_rules.h"

namespace warren {

inline constexpr std::size_t kIgnoreFileBytes = std::size_t{1} << 20;
inline constexpr std::array<std::string_view, 2> kIgnoreFiles = {".gitignore", ".warrenignore"};  // the second wins

// kTooLarge.
Result<std::string> read_added_file(int file, std::uint64_t size_bytes_max);
// Databases of programs, which are not what anybody looks for. Ours would contain itself.
bool is_never_added(std::string_view name);
std::string below_path(std::string_view dir, std::string_view name);  // "a/b"; "b" if `dir` is empty

Status check_identity(int dir, const IngestSource& source);  // kConflict

// A folder that is walked. Patterns are bound to the repository that it is in.
struct Ingest::Folder {
  Fd root;
  std::string host_path;  // absolute
  Ref top;
  std::string prefix;  // from the repository to the folder; "" if they are the same
  IgnoreStack ignored;
};

// What a source has now, to find the items that it no longer has.
struct Ingest::Seen {
  std::unordered_set<std::string> files;  // by to_string(Ref)
  std::vector<Ref> unread;                // directories of which nothing is known
};

}  // namespace warren
