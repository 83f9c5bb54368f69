#include "agent/record/audit_note.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <sys/file.h>
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
#include "os/files/host_files.h"

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

// nullopt if there is none. One that was lost half-way in a power cut is empty, and says nothing; kCorrupt for others
// that are not notes.
Result<std::optional<AuditNote>> read_note(const std::string& path) {
  if (!WARREN_TRY(find_host_file(path))) return std::optional<AuditNote>();
  std::string text = WARREN_TRY(read_host_file(path, kAuditNoteBytesMax));
  if (text.empty()) return std::optional<AuditNote>();
  std::optional<AuditNote> note = decode_note(text);
  if (!note) {
    return Error(Code::kCorrupt, fmt::format("Warren's note about the audit trail, {}, is damaged", quote(path)),
                 "`warren audit ID verify --accept` replaces it");
  }
  return note;
}

// Not synced: a command that writes one value must not wait for three disks' writes.
Status write_note(const std::string& path, const AuditNote& note) {
  std::string draft = path + ".XXXXXX";
  Fd fd(::mkostemp(draft.data(), O_CLOEXEC));
  if (!fd.is_open()) return system_error(errno, fmt::format("write {}", quote(path)));
  std::string text = fmt::format("{}\n{}\n{}\n{}\n", kAuditNoteMagic, note.first, note.seq, note.hash);
  Status done = write_all(fd.get(), as_bytes(text));
  if (::close(fd.release()) != 0 && done.ok()) done = system_error(errno, fmt::format("write {}", quote(path)));
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

Result<Fd> lock_notes() {
  std::string home = WARREN_TRY(agents_home());
  std::string path = home + "/audit/.lock";
  Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.is_open() || ::flock(lock.get(), LOCK_EX) != 0)
    return system_error(errno, fmt::format("lock {}", quote(path)));
  return lock;
}

// Replaces the note unless the trail lacks the row that it has. Two processes that close the agent at once take turns.
Status update_note(AuditLog& log, const std::string& path, const AuditNote& now) {
  std::optional<AuditNote> known = WARREN_TRY(read_note(path));
  if (known && known->seq >= now.seq) return Ok{};
  if (!WARREN_TRY(contains(log, known))) return Ok{};
  return write_note(path, now);
}

}  // namespace

Status note_audit_head(AuditLog& log, const std::string& agent_path) {
  NotePaths paths = WARREN_TRY(paths_of_notes(agent_path));
  AuditNote now = WARREN_TRY(note_of(log));
  if (now.seq == 0) return Ok{};
  WARREN_TRY(make_notes_dir());
  Fd lock = WARREN_TRY(lock_notes());
  WARREN_TRY(update_note(log, paths.by_file, now));
  return update_note(log, paths.by_path, now);
}

Result<std::vector<AuditPoint>> find_audit_notes(const std::string& agent_path) {
  std::vector<AuditPoint> points;
  if (!agents_home().ok()) return points;
  NotePaths paths = WARREN_TRY(paths_of_notes(agent_path));
  std::optional<AuditNote> about_file = WARREN_TRY(read_note(paths.by_file));
  std::optional<AuditNote> about_path = WARREN_TRY(read_note(paths.by_path));
  auto add = [&](const AuditNote& note, std::string_view where) {
    points.push_back({.seq = note.seq, .hash = hash_of_hex(note.hash), .where = std::string(where)});
    points.push_back({.seq = 1, .hash = hash_of_hex(note.first), .where = std::string(where)});
  };
  if (about_file) add(*about_file, "Warren's own note about this file");
  if (about_path) add(*about_path, "Warren's own note about this path");
  return points;
}

Status forget_audit_notes(const std::string& agent_path) {
  NotePaths paths = WARREN_TRY(paths_of_notes(agent_path));
  for (const std::string& path : {paths.by_file, paths.by_path}) WARREN_TRY(remove_host_file(path));
  return Ok{};
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
