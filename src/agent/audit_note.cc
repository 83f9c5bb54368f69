#include "agent/audit_note.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/base_note.h"
#include "agent/sessions.h"
#include "base/ascii.h"
#include "base/path.h"
#include "crypto/digest.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/host_files.h"

namespace warren {
namespace {

constexpr std::string_view kAuditNoteMagic = "warren-audit-1";
constexpr std::size_t kAuditNoteBytesMax = 65'536;

struct AuditNote {
  std::string first;  // the hash of the first row, in hexadecimal digits
  std::int64_t seq = 0;
  std::string hash;
};

struct NotePaths {
  std::string by_file;
  std::string by_path;
};

Result<NotePaths> paths_of_notes(const std::string& agent_path) {
  std::string home = WARREN_TRY(agents_home());
  HostIdentity file = WARREN_TRY(identify_host_node(agent_path));
  std::string whole = WARREN_TRY(canonical_host_path(agent_path));
  NotePaths paths;
  paths.by_file = file.born_ns != 0 ? fmt::format("{}/audit/{}-{}", home, file.inode, file.born_ns)
                                    : fmt::format("{}/audit/{}@{}", home, file.inode, file.device);
  paths.by_path = fmt::format("{}/audit/path-{}", home, sha256_hex(as_bytes(whole)).substr(0, 32));
  return paths;
}

std::optional<AuditNote> decode_note(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  if (words.size() < 4 || words[0] != kAuditNoteMagic) return std::nullopt;
  std::optional<std::int64_t> seq = parse_number<std::int64_t>(words[2]);
  if (!seq || *seq < 1 || words[1].size() != 64 || words[3].size() != 64) return std::nullopt;
  return AuditNote{.first = words[1], .seq = *seq, .hash = words[3]};
}

// A note that cannot be read, or was lost half-way in a power cut, says nothing.
std::optional<AuditNote> read_note(const std::string& path) {
  Result<std::string> text = read_host_file(path, kAuditNoteBytesMax);
  return text.ok() ? decode_note(*text) : std::nullopt;
}

// Not synced: a command that writes one value must not wait for three disks' writes.
Status write_note(const std::string& path, const AuditNote& note) {
  std::string draft = path + ".XXXXXX";
  Fd fd(::mkostemp(draft.data(), O_CLOEXEC));
  if (!fd.is_open()) return system_error(errno, fmt::format("write {}", quote(path)));
  std::string text = fmt::format("{}\n{}\n{}\n{}\n", kAuditNoteMagic, note.first, note.seq, note.hash);
  Status done = write_all(fd.get(), as_bytes(text));
  if (done.ok() && ::rename(draft.c_str(), path.c_str()) != 0) done = system_error(errno, "rename");
  if (!done.ok()) ::unlink(draft.c_str());
  return done;
}

Result<std::optional<std::string>> hash_of_row(AuditLog& log, std::int64_t seq) {
  std::vector<StoredAuditRow> rows = WARREN_TRY(log.read_after(seq - 1, 1));
  if (rows.empty() || rows.front().row.seq != seq) return std::optional<std::string>();
  return std::optional(hex_of(rows.front().row.hash));
}

Result<bool> contains(AuditLog& log, const std::optional<AuditNote>& note) {
  if (!note) return true;
  std::optional<std::string> hash = WARREN_TRY(hash_of_row(log, note->seq));
  return hash && *hash == note->hash;
}

AuditHash hash_of_hex(std::string_view text) {
  AuditHash hash{};
  for (std::size_t i = 0; i < hash.size() && i * 2 + 1 < text.size(); ++i) {
    hash[i] = static_cast<std::byte>(std::strtoul(std::string(text.substr(i * 2, 2)).c_str(), nullptr, 16));
  }
  return hash;
}

Result<AuditNote> note_of(AuditLog& log) {
  AuditHead head = WARREN_TRY(log.head());
  std::optional<std::string> first = WARREN_TRY(hash_of_row(log, 1));
  return AuditNote{.first = first.value_or(std::string(64, '0')), .seq = head.seq, .hash = hex_of(head.hash)};
}

Status make_notes_dir() {
  std::string home = WARREN_TRY(agents_home());
  return make_host_dirs(home + "/audit", 0700);
}

}  // namespace

Status note_audit_head(AuditLog& log, const std::string& agent_path) {
  NotePaths paths = WARREN_TRY(paths_of_notes(agent_path));
  AuditNote now = WARREN_TRY(note_of(log));
  if (now.seq == 0) return Ok{};
  WARREN_TRY(make_notes_dir());
  if (WARREN_TRY(contains(log, read_note(paths.by_file)))) WARREN_TRY(write_note(paths.by_file, now));
  std::optional<AuditNote> at_path = read_note(paths.by_path);
  bool is_other_agent = at_path && at_path->first != now.first;
  if (is_other_agent || WARREN_TRY(contains(log, at_path))) WARREN_TRY(write_note(paths.by_path, now));
  return Ok{};
}

Result<std::vector<AuditPoint>> find_audit_notes(AuditLog& log, const std::string& agent_path) {
  std::vector<AuditPoint> points;
  if (!agents_home().ok()) return points;
  NotePaths paths = WARREN_TRY(paths_of_notes(agent_path));
  AuditNote now = WARREN_TRY(note_of(log));
  if (std::optional<AuditNote> note = read_note(paths.by_file)) {
    points.push_back({.seq = note->seq, .hash = hash_of_hex(note->hash), .where = "Warren's own note about this file"});
  }
  std::optional<AuditNote> at_path = read_note(paths.by_path);
  if (at_path && at_path->first == now.first) {
    points.push_back(
        {.seq = at_path->seq, .hash = hash_of_hex(at_path->hash), .where = "Warren's own note about this path"});
  }
  return points;
}

Status accept_audit_head(AuditLog& log, const std::string& agent_path) {
  NotePaths paths = WARREN_TRY(paths_of_notes(agent_path));
  AuditNote now = WARREN_TRY(note_of(log));
  WARREN_TRY(make_notes_dir());
  for (const std::string& path : {paths.by_file, paths.by_path}) {
    if (now.seq == 0) WARREN_TRY(remove_host_file(path));
    else WARREN_TRY(write_note(path, now));
  }
  return Ok{};
}

}  // namespace warren
