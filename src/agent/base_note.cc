#include "agent/base_note.h"

#include <algorithm>

#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "agent/sessions.h"
#include "base/ascii.h"
#include "base/below.h"
#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "os/processes/capture.h"

namespace warren {
namespace {

constexpr std::string_view kNoteMagic = "warren-base-1";
constexpr std::size_t kNoteBytesMax = std::size_t{64} << 20;

Result<std::string> notes_dir() {
  std::string home = WARREN_TRY(agents_home());
  return home + "/bases";
}

// Without a time of birth the device is part of the name, because inode numbers are unique only within one.
Result<std::string> path_of_note(const HostIdentity& agent) {
  std::string dir = WARREN_TRY(notes_dir());
  if (agent.born_ns != 0) return fmt::format("{}/{}-{}", dir, agent.inode, agent.born_ns);
  return fmt::format("{}/{}@{}", dir, agent.inode, agent.device);
}

// Fields that end with NUL: none of them can contain it.
std::string encode(const BaseNote& note) {
  std::string out;
  auto add = [&](std::string_view text) { out.append(text).push_back('\0'); };
  add(kNoteMagic);
  add(note.base);
  for (std::uint64_t number : {note.base_node.device, note.base_node.inode, note.base_node.born_ns}) {
    add(fmt::format("{}", number));
  }
  add(note.commit);
  for (const std::string& path : note.hidden) add(path);
  return out;
}

std::optional<BaseNote> decode(std::string_view text) {
  std::vector<std::string> fields;
  for (std::size_t end = text.find('\0'); end != text.npos; end = text.find('\0')) {
    fields.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  if (!text.empty() || fields.size() < 6 || fields[0] != kNoteMagic) return std::nullopt;
  std::optional<std::uint64_t> device = parse_number<std::uint64_t>(fields[2]);
  std::optional<std::uint64_t> inode = parse_number<std::uint64_t>(fields[3]);
  std::optional<std::uint64_t> born = parse_number<std::uint64_t>(fields[4]);
  if (!device || !inode || !born) return std::nullopt;
  BaseNote note{.base = fields[1], .base_node = {*device, *inode, *born}, .commit = fields[5], .hidden = {}};
  note.hidden.assign(fields.begin() + 6, fields.end());
  return note;
}

// "" if the base is not in a git repository, or git is not installed.
std::string find_head(const std::string& base) {
  Result<Captured> head = run_captured({"git", "rev-parse", "--verify", "--quiet", "HEAD^{commit}"}, base);
  if (!head.ok() || head->status != 0) return "";
  std::string commit(trimmed(head->output, kWhitespace));
  bool is_id = std::all_of(commit.begin(), commit.end(),
                           [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  return is_id ? commit : "";
}

}  // namespace

bool HostIdentity::is_same(const HostIdentity& other) const {
  if (inode != other.inode || born_ns != other.born_ns) return false;
  return born_ns != 0 || device == other.device;
}

Result<HostIdentity> identify_host_node(const std::string& path) {
  struct stat info {};
  struct statx more {};
  if (::stat(path.c_str(), &info) != 0) return system_error(errno, fmt::format("stat {}", quote(path)));
  HostIdentity identity{.device = info.st_dev, .inode = info.st_ino};
  bool has_birth = ::statx(AT_FDCWD, path.c_str(), 0, STATX_BTIME, &more) == 0 && (more.stx_mask & STATX_BTIME) != 0;
  if (has_birth) {
    identity.born_ns = static_cast<std::uint64_t>(more.stx_btime.tv_sec) * 1'000'000'000U + more.stx_btime.tv_nsec;
  }
  return identity;
}

Status put_base_note(const std::string& agent_path, const BaseNote& note) {
  HostIdentity agent = WARREN_TRY(identify_host_node(agent_path));
  std::string dir = WARREN_TRY(notes_dir());
  WARREN_TRY(make_host_dirs(dir, 0700));
  std::string path = WARREN_TRY(path_of_note(agent));
  return replace_host_file(path, encode(note), 0600);
}

Status put_base_note(const std::string& agent_path, const std::string& base, NoteFor what) {
  BaseNote note{.base = base, .base_node = {}, .commit = {}, .hidden = {}};
  if (what == NoteFor::kNewAgent) {
    note.commit = find_head(base);
  } else {
    std::optional<BaseNote> old = WARREN_TRY(find_base_note(agent_path));
    if (old && old->base == base) note.hidden = std::move(old->hidden);
  }
  note.base_node = WARREN_TRY(identify_host_node(base));
  return put_base_note(agent_path, note).within("note the agent's base");
}

Status add_hidden_paths(const std::string& agent_path, const std::string& base, const std::vector<std::string>& paths) {
  std::optional<BaseNote> note = WARREN_TRY(find_base_note(agent_path));
  if (!note) {
    WARREN_TRY(put_base_note(agent_path, base, NoteFor::kOldAgent));
    note = WARREN_TRY(find_base_note(agent_path));
  }
  if (!note) return Ok{};
  std::size_t had = note->hidden.size();
  for (const std::string& path : paths) {
    bool is_known = std::find(note->hidden.begin(), note->hidden.end(), path) != note->hidden.end();
    bool is_inside = path != note->base && is_at_or_below(path, note->base);
    if (!is_known && is_inside) note->hidden.push_back(path);
  }
  if (note->hidden.size() == had) return Ok{};
  return put_base_note(agent_path, *note).within("note what is hidden from the agent");
}

Result<std::optional<BaseNote>> find_base_note(const std::string& agent_path) {
  if (!agents_home().ok()) return std::optional<BaseNote>();
  HostIdentity agent = WARREN_TRY(identify_host_node(agent_path));
  std::string path = WARREN_TRY(path_of_note(agent));
  Result<std::string> text = read_host_file(path, kNoteBytesMax);
  // Inside a run the folder is out of reach. Without a note, apply asks.
  bool is_none = !text.ok() && (text.error().code() == Code::kNotFound || text.error().code() == Code::kDenied);
  if (is_none) return std::optional<BaseNote>();
  std::string bytes = WARREN_TRY(std::move(text));
  std::optional<BaseNote> note = decode(bytes);
  if (!note)
    return Error(Code::kCorrupt, fmt::format("{} is damaged", quote(path)), "remove it; then Warren asks again");
  return note;
}

Status remove_base_note(const std::string& agent_path) {
  Result<HostIdentity> agent = identify_host_node(agent_path);
  if (!agent.ok()) return Ok{};
  std::string path = WARREN_TRY(path_of_note(*agent));
  WARREN_TRY(remove_host_file(path));
  return Ok{};
}

}  // namespace warren
