#include "changes/pinned/pinned_git.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "changes/git/base_heads.h"
#include "changes/git/git.h"
#include "changes/pinned/git_state.h"
#include "fs/list_dir.h"
#include "fs/path_ops.h"
#include "fs/tree_ops.h"

namespace warren {
namespace {

constexpr std::string_view kGitName = ".git";
constexpr std::string_view kPinnedDir = "/.git";
constexpr std::string_view kObjectsDir = "/.git/objects";
constexpr std::string_view kRecordHeader = "# HEAD and the references at the start of this session, for Warren\n";
constexpr std::string_view kBegunLine = "# begun ";             // seconds.nanoseconds
constexpr std::size_t kGitRecordBytes = std::size_t{16} << 20;  // of a list of paths or changes
constexpr std::uint32_t kRecordMode = S_IFREG | 0644U;

std::string write_packed(const GitReferences& references) {
  std::string text = "# pack-refs with: sorted \n";
  for (const auto& [name, id] : references) text += fmt::format("{} {}\n", id, name);
  return text;
}

Result<std::optional<Attributes>> find_entry(FileSystem& fs, Inode dir, std::string_view name) {
  Result<Attributes> found = fs.lookup(dir, name);
  if (found.ok()) return std::optional(*found);
  if (found.error().code() == Code::kNotFound) return std::optional<Attributes>();
  return std::move(found).take_error();
}

Result<std::optional<Attributes>> find_record(UpperLayer& upper, std::string_view name = kPinRecord) {
  std::optional<Attributes> none;
  std::optional<Attributes> git = WARREN_TRY(find_entry(upper.fs(), kRootInode, kGitName));
  if (!git || !git->is_directory()) return none;
  std::optional<Attributes> record = WARREN_TRY(find_entry(upper.fs(), git->inode, name));
  return record && record->is_file() ? record : none;
}

std::optional<Timestamp> parse_begun(std::string_view text) {
  std::size_t at = text.find(kBegunLine);
  if (at == text.npos) return std::nullopt;
  text.remove_prefix(at + kBegunLine.size());
  text = text.substr(0, text.find('\n'));
  std::size_t point = std::min(text.find('.'), text.size());
  std::optional<std::int64_t> seconds = parse_number<std::int64_t>(text.substr(0, point));
  std::optional<std::int32_t> rest = parse_number<std::int32_t>(text.substr(std::min(point + 1, text.size())));
  if (!seconds || !rest || *rest < 0 || *rest > 999'999'999) return std::nullopt;
  return Timestamp{.seconds = *seconds, .nanoseconds = *rest};
}

// Writes the state into the upper layer, as copies of the base's nodes.
class StateWriter {
 public:
  StateWriter(UpperLayer& upper, const GitState& state) : upper_(upper), state_(state) {}

  Status write() {
    std::uint64_t bytes = 0;
    std::string packed = write_packed(state_.references);
    std::string record = write_pin_record(state_.head, state_.references, state_.begun);
    for (const GitStateNode& node : state_.nodes) bytes += node.content.size();
    WARREN_TRY(upper_.reserve(bytes + packed.size() + record.size()));
    Inode top = WARREN_TRY(upper_.adopt(kRootInode, kGitName, state_.dir, ""));
    WARREN_TRY(upper_.put_origin({.upper = top, .base_path = "", .seen = {}, .hidden_names = 0}));
    dirs_.emplace("", top);
    for (const GitStateNode& node : state_.nodes) WARREN_TRY(write_node(node));
    Attributes as = state_.dir;
    as.mode = kRecordMode;
    WARREN_TRY(write_file_at("packed-refs", as, packed));
    return write_file_at(std::string(kPinRecord), as, record);
  }

 private:
  Status write_node(const GitStateNode& node) {
    if (node.as.is_file()) return write_file_at(node.path, node.as, node.content);
    auto [dir, name] = place_of(node.path);
    Inode made = WARREN_TRY(upper_.adopt(dir, name, node.as, node.content));
    if (!node.as.is_directory()) return Ok{};
    dirs_.emplace(node.path, made);
    if (!node.is_shown) return Ok{};
    return upper_.put_origin(
        {.upper = made, .base_path = join_path(kPinnedDir, node.path), .seen = node.as, .hidden_names = 0});
  }

  Status write_file_at(const std::string& path, Attributes as, std::string_view content) {
    as.size = content.size();
    as.nlink = 1;
    as.atime = as.mtime = as.ctime = state_.time;
    auto [dir, name] = place_of(path);
    Inode made = WARREN_TRY(upper_.adopt(dir, name, as, ""));
    if (!content.empty()) WARREN_TRY(upper_.fs().write(made, 0, as_bytes(content)));
    return upper_.restore(made, as);
  }

  std::pair<Inode, std::string> place_of(const std::string& path) const {
    std::size_t slash = path.rfind('/');
    if (slash == path.npos) return {dirs_.at(""), path};
    return {dirs_.at(path.substr(0, slash)), path.substr(slash + 1)};
  }

  UpperLayer& upper_;
  const GitState& state_;
  std::unordered_map<std::string, Inode> dirs_;  // by path below .git
};

// Of the upper layer alone: the base's directory shows again.
Status drop_git(UpperLayer& upper) {
  std::vector<Inode> nodes;
  WARREN_TRY(walk(upper.fs(), kPinnedDir,
                  [&](const WalkEntry& entry) -> Result<WalkNext> {
                    nodes.push_back(entry.attributes.inode);
                    return WalkNext::kContinue;
                  },
                  {.follow = Follow::kNo}));
  WARREN_TRY(remove(upper.fs(), kPinnedDir, {.recursive = Recursive::kYes}));
  for (Inode node : nodes) WARREN_TRY(upper.remove_origin(node));
  return upper.remove_whiteouts_below(kPinnedDir);
}

bool is_object_dir(std::string_view name) {
  return name.size() == 2 && std::all_of(name.begin(), name.end(), is_lower_hex_digit);
}

// What is in the way of new objects of the base: git removes the directories of loose objects once it has packed these,
// and may have made them again.
struct HiddenObjects {
  std::vector<std::string> removed;  // "/.git/objects/ab"
  std::vector<Origin> made;          // with the base's directory
};

Result<HiddenObjects> find_hidden_objects(const AgentOverlay& overlay) {
  HiddenObjects found;
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));
  std::vector<std::string> removed = WARREN_TRY(overlay.upper.list_whiteouts_in(kObjectsDir));
  for (const std::string& name : removed) {
    if (is_object_dir(name)) found.removed.push_back(join_path(kObjectsDir, name));
  }
  std::unordered_map<Inode, std::string> opaque;
  Result<Attributes> objects = lstat(overlay.upper.fs(), kObjectsDir);
  if (!objects.ok()) return found;
  std::vector<DirEntry> entries = WARREN_TRY(list_dir(overlay.upper.fs(), objects->inode, DirDetail::kTypes));
  for (const DirEntry& entry : entries) {
    if (S_ISDIR(entry.type) && is_object_dir(entry.name))
      opaque.emplace(entry.inode, join_path(kObjectsDir, entry.name));
  }
  std::vector<Origin> origins = WARREN_TRY(overlay.upper.list_origins());
  for (Origin& row : origins) {
    auto dir = row.base_path.empty() ? opaque.find(row.upper) : opaque.end();
    if (dir == opaque.end()) continue;
    Result<Attributes> there = lstat(overlay.base, dir->second);
    if (!there.ok() || !there->is_directory()) continue;
    row.base_path = dir->second;
    row.seen = *there;
    found.made.push_back(std::move(row));
  }
  return found;
}

}  // namespace

std::string write_pin_record(const std::string& head, const GitReferences& references, Timestamp begun) {
  std::string text(kRecordHeader);
  if (!head.empty()) text += fmt::format("{} HEAD\n", head);
  for (const auto& [name, id] : references) text += fmt::format("{} {}\n", id, name);
  return text + fmt::format("{}{}.{:09}\n", kBegunLine, begun.seconds, begun.nanoseconds);
}

PinnedGit parse_pin_record(std::string_view text) {
  PinnedGit pinned{.made = {}, .begun = {}, .head = {}, .references = parse_packed_references(text)};
  if (std::optional<Timestamp> begun = parse_begun(text)) pinned.begun = *begun;
  constexpr std::string_view kHeadLine = " HEAD\n";
  if (text.starts_with(kRecordHeader)) text.remove_prefix(kRecordHeader.size());
  std::size_t end = text.find(' ');
  bool has_head = end != text.npos && is_object_id(text.substr(0, end)) && text.substr(end).starts_with(kHeadLine);
  if (has_head) pinned.head = text.substr(0, end);
  return pinned;
}

Result<std::optional<Timestamp>> find_pin_time(UpperLayer& upper) {
  std::optional<Attributes> record = WARREN_TRY(find_record(upper));
  return record ? std::optional(record->mtime) : std::nullopt;
}

Result<std::optional<PinnedGit>> find_pinned_git(const AgentOverlay& overlay) {
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kRead));
  std::optional<Attributes> record = WARREN_TRY(find_record(overlay.upper));
  // The agent can write there, too. Without a record, the session can still be reviewed and dropped.
  if (!record || record->size > limits::kGitPackedRefsBytes) return std::optional<PinnedGit>();
  std::string text(static_cast<std::size_t>(record->size), '\0');
  text.resize(WARREN_TRY(overlay.upper.fs().read(record->inode, 0, as_mutable_bytes(text))));
  PinnedGit pinned = parse_pin_record(text);
  pinned.made = record->mtime;
  if (pinned.begun == Timestamp{}) pinned.begun = pinned.made;
  return std::optional(std::move(pinned));
}

Result<bool> pin_git(const AgentOverlay& overlay) {
  std::optional<GitState> state = WARREN_TRY(read_git_state(overlay.base));
  if (!state) return false;
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kWrite));
  WARREN_TRY(StateWriter(overlay.upper, *state).write());
  WARREN_TRY(unit->commit());
  return true;
}

Result<bool> pin_git(Agent& agent) {
  std::optional<AgentOverlay> overlay = agent.overlay();
  if (!overlay) return false;
  return pin_git(*overlay);
}

Result<bool> show_base_objects(const AgentOverlay& overlay) {
  HiddenObjects hidden = WARREN_TRY(find_hidden_objects(overlay));
  if (hidden.removed.empty() && hidden.made.empty()) return false;
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kWrite));
  for (const std::string& path : hidden.removed) {
    WARREN_TRY(overlay.upper.remove_whiteout(path));
    WARREN_TRY(overlay.upper.remove_cover(path));
  }
  for (const Origin& row : hidden.made) WARREN_TRY(overlay.upper.put_origin(row));
  WARREN_TRY(unit->commit());
  return true;
}

Status show_base_head(Agent& agent) {
  constexpr const char* kReference = "/.git/refs/warren/base";
  std::optional<AgentOverlay> overlay = agent.overlay();
  if (!overlay) return Ok{};
  std::optional<PinnedGit> pinned = WARREN_TRY(find_pinned_git(*overlay));
  if (!pinned) return Ok{};
  std::optional<GitHeads> heads = WARREN_TRY(find_base_heads(*overlay));
  if (!heads || heads->commit.empty()) return Ok{};
  Attributes git = WARREN_TRY(lstat(overlay->merged, kPinnedDir));
  WARREN_TRY(write_file(overlay->merged, kReference, as_bytes(heads->commit + "\n"), {.owner = git.owner}));
  SetTime made = SetTime::to(pinned->made);
  return set_times(overlay->merged, kReference, made, made, Follow::kNo);
}

Result<std::vector<std::string>> list_applied_paths(UpperLayer& upper) {
  std::string text = WARREN_TRY(read_git_record(upper, kAppliedRecord));
  return split_at_nul(text);
}

Status add_applied_paths(UpperLayer& upper, const std::vector<std::string>& paths) {
  if (paths.empty()) return Ok{};
  std::vector<std::string> known = WARREN_TRY(list_applied_paths(upper));
  std::set<std::string> all(known.begin(), known.end());
  all.insert(paths.begin(), paths.end());
  std::string text;
  for (const std::string& path : all) text += path + '\0';
  return write_git_record(upper, kAppliedRecord, text);
}

Result<std::string> read_git_record(UpperLayer& upper, std::string_view name) {
  std::optional<Attributes> file = WARREN_TRY(find_record(upper, name));
  if (!file || file->size > kGitRecordBytes) return std::string();
  std::string text(static_cast<std::size_t>(file->size), '\0');
  text.resize(WARREN_TRY(upper.fs().read(file->inode, 0, as_mutable_bytes(text))));
  return text;
}

Status write_git_record(UpperLayer& upper, std::string_view name, std::string_view text) {
  std::optional<Attributes> as = WARREN_TRY(find_record(upper));
  if (!as || text.size() > kGitRecordBytes) return Ok{};
  as->size = text.size();
  Attributes git = WARREN_TRY(upper.fs().lookup(kRootInode, kGitName));
  std::optional<Attributes> file = WARREN_TRY(find_entry(upper.fs(), git.inode, name));
  if (file && !file->is_file()) return Ok{};  // the agent's
  if (file) WARREN_TRY(upper.fs().unlink(git.inode, name));
  if (!text.empty()) {
    Inode made = WARREN_TRY(upper.adopt(git.inode, name, *as, ""));
    WARREN_TRY(upper.fs().write(made, 0, as_bytes(text)));
    WARREN_TRY(upper.restore(made, *as));
  }
  return upper.restore(git.inode, git);
}

Status pin_git_again(UpperLayer& upper, const std::optional<GitState>& state) {
  WARREN_TRY(drop_git(upper));
  return state ? StateWriter(upper, *state).write() : Status(Ok{});
}

}  // namespace warren
