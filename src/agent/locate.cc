#include "agent/locate.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "agent/sessions.h"
#include "base/ascii.h"
#include "base/path.h"
#include "os/files/host_files.h"
#include "text/nearest.h"

namespace warren {
namespace {

constexpr std::string_view kSuffix = ".db";
constexpr std::string_view kIndexSuffix = ".index.db";
constexpr std::size_t kListedInHint = 8;

Result<bool> is_host_file(const std::string& path) {
  std::optional<struct stat> there = WARREN_TRY(find_host_file(path));
  return there && S_ISREG(there->st_mode);
}

constexpr std::size_t kPrefixLetters = 3;

// A name that `run` has made up: "swift-fox-12ab".
bool is_generated(std::string_view id) {
  std::size_t last = id.rfind('-');
  std::size_t first = id.find('-');
  if (last == id.npos || first == last || id.size() - last != 5) return false;
  return std::all_of(id.begin() + static_cast<long>(last) + 1, id.end(), is_lower_hex_digit) &&
         std::all_of(id.begin(), id.begin() + static_cast<long>(last),
                     [](char c) { return c == '-' || (c >= 'a' && c <= 'z'); });
}

// The only session whose id starts like this, if `run` has made up its name. A name that somebody chose must be written
// in full: a script that means "fix" must not get "fix2" once "fix" is gone.
std::optional<std::string> find_session_by_start(std::string_view start) {
  if (start.size() < kPrefixLetters || !is_agent_id(start)) return std::nullopt;
  Result<std::vector<std::string>> ids = list_session_ids();
  if (!ids.ok()) return std::nullopt;
  std::erase_if(*ids, [&](const std::string& id) { return !id.starts_with(start); });
  bool is_unique = ids->size() == 1 && is_generated(ids->front());
  return is_unique ? std::optional(ids->front()) : std::nullopt;
}

// "did you mean 'x'?"; "" if nothing is similar.
std::string guess(std::string_view id) {
  std::vector<std::string> known;
  for (Result<std::vector<std::string>> some : {list_agents(), list_session_ids()}) {
    if (some.ok()) known.insert(known.end(), some->begin(), some->end());
  }
  std::string meant;  // the shortest id that begins like this, or a similar one
  for (const std::string& one : known) {
    if (!id.empty() && one.starts_with(id) && (meant.empty() || one.size() < meant.size())) meant = one;
  }
  if (meant.empty()) meant = nearest(id, std::vector<std::string_view>(known.begin(), known.end()));
  return meant.empty() ? "" : fmt::format("did you mean {}?", quote(meant));
}

std::string missing_hint(std::string_view id) {
  std::string start = is_agent_id(id) ? guess(id) : "";
  if (start.empty() && is_agent_id(id)) {
    Result<std::vector<std::string>> sessions = list_session_ids();
    bool has_sessions = sessions.ok() && !sessions->empty();
    start = has_sessions ? "`warren sessions` lists the sessions" : fmt::format("`warren init {}` creates it", id);
  }
  Result<std::vector<std::string>> known = list_agents();
  if (!known.ok() || known->empty()) return start;
  std::size_t count = std::min(known->size(), kListedInHint);
  std::string agents = fmt::format("{}", fmt::join(known->begin(), known->begin() + static_cast<long>(count), ", "));
  if (count < known->size()) agents += ", …";
  std::string_view between = start.empty() ? "" : start.ends_with('?') ? " " : "; ";
  return fmt::format("{}{}agents here: {}", start, between, agents);
}

Error is_ambiguous(const std::string& id, const std::string& file, const std::string& session) {
  return {
      Code::kConflict,
      fmt::format("{} is ambiguous: there is the file {}, and the session {}", quote(id), quote(file), quote(session)),
      fmt::format("write `{}{}` for the session, or `./{}` for the file", kSessionPrefix, id, file)};
}

Result<std::string> locate_session(std::string_view id) {
  WARREN_TRY(check_agent_id(id));
  std::optional<std::string> file = WARREN_TRY(find_session_file(id));
  if (file) return *std::move(file);
  if (std::optional<std::string> meant = find_session_by_start(id)) return locate_session(*meant);
  std::string similar = guess(id);
  return Error(Code::kNotFound, fmt::format("no session {}", quote(id)),
               similar.empty() ? "`warren sessions` lists them" : similar);
}

}  // namespace

std::string_view session_id_of(std::string_view id) {
  if (id.starts_with(kSessionPrefix)) id.remove_prefix(kSessionPrefix.size());
  return id;
}

bool is_agent_id(std::string_view id) {
  auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  // 200 leaves room for its longest file name, <id>.index.db with SQLite's suffix, within 255 bytes.
  return !id.empty() && id.size() <= 200 && std::all_of(id.begin(), id.end(), allowed);
}

Status check_agent_id(std::string_view id) {
  if (is_agent_id(id)) return Ok{};
  return Error(Code::kInvalid, fmt::format("{} is not a valid agent id", quote(id)),
               "use only letters, digits, '-' and '_', at most 200 characters");
}

std::string path_of_agent(std::string_view id) { return fmt::format("{}/{}{}", kAgentsDir, id, kSuffix); }

Result<std::string> locate_agent(std::string_view id_or_path) {
  std::string text(id_or_path);
  if (id_or_path == kMemoryAgent) return text;
  if (id_or_path.starts_with(kSessionPrefix)) return locate_session(session_id_of(id_or_path));
  std::optional<std::string> file;
  if (is_agent_id(id_or_path) && WARREN_TRY(find_host_file(path_of_agent(id_or_path))))
    file = path_of_agent(id_or_path);
  else if (text.find('\0') == text.npos && WARREN_TRY(is_host_file(text))) file = text;
  std::optional<std::string> session = WARREN_TRY(find_session_file(id_or_path));
  if (file && session) return is_ambiguous(text, *file, *session);
  if (file) return *std::move(file);
  if (session) return *std::move(session);
  if (std::optional<std::string> meant = find_session_by_start(id_or_path)) return locate_session(*meant);
  std::optional<struct stat> there = WARREN_TRY(find_host_file(text));
  if (there && S_ISDIR(there->st_mode)) {
    return Error(Code::kIsDirectory, fmt::format("{} is a directory, not an agent file", quote(text)),
                 missing_hint(""));
  }
  if (is_agent_id(id_or_path)) {
    return Error(Code::kNotFound, fmt::format("no agent or session {}", quote(text)), missing_hint(text));
  }
  return Error(Code::kNotFound, fmt::format("{} is neither an agent id nor a file", quote(text)), missing_hint(text));
}

Result<std::vector<std::string>> list_agents() {
  std::vector<std::string> ids;
  std::string folder(kAgentsDir);
  if (!WARREN_TRY(find_host_file(folder))) return ids;
  Fd dir = WARREN_TRY(open_host_dir(folder));
  for (const HostEntry& entry : WARREN_TRY(list_host_dir(dir.get()))) {
    std::string_view name = entry.name;
    if (!name.ends_with(kSuffix) || name.ends_with(kIndexSuffix)) continue;
    std::string_view id = name.substr(0, name.size() - kSuffix.size());
    if (is_agent_id(id)) ids.emplace_back(id);
  }
  std::sort(ids.begin(), ids.end());  // by id: "a-b.db" comes before "a.db", "a" before "a-b"
  return ids;
}

}  // namespace warren
