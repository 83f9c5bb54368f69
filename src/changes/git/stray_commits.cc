#include "changes/git/stray_commits.h"

#include <algorithm>

#include "base/ascii.h"
#include "changes/git/git.h"
#include "changes/git/git_refs.h"
#include "changes/git/quarantine.h"
#include "fs/path_ops.h"
#include "fs/tree_ops.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::string_view kOwnObjects = "/.git/objects/";
constexpr std::uint64_t kStashLogBytes = std::uint64_t{16} << 20;

// The lines of a text, without those that are empty.
template <class Visit>
void for_each_line(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.empty()) visit(line);
  }
}

std::string list_loose(const std::vector<TreeChange>& in_git) {
  std::string ids;
  for (const TreeChange& change : in_git) {
    if (!change.after || !change.after->is_file() || !change.path.starts_with(kOwnObjects)) continue;
    std::string name = change.path.substr(kOwnObjects.size());
    if (object_file_of(name) == ObjectFile::kLoose) ids += name.erase(name.find('/'), 1) + "\n";
  }
  return ids;
}

// The objects in the packs of a quarantine.
Result<std::string> list_packed(const std::string& quarantine) {
  std::string ids;
  std::string packs = quarantine + "/objects/pack";
  Fd dir = WARREN_TRY(open_host_dir(packs));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(dir.get()));
  for (const HostEntry& entry : entries) {
    if (!entry.name.ends_with(".idx")) continue;
    Fd index = WARREN_TRY(open_host_file_below(dir.get(), entry.name));
    Git git(quarantine);
    git.set_limit(limits::kGitTime);
    std::string listed = WARREN_TRY(git.ask({"show-index"}, index.get()));
    for_each_line(listed, [&](std::string_view line) {  // "<offset> <id> (<crc>)"
      std::size_t begin = line.find(' ');
      if (begin == line.npos) return;
      std::string_view id = line.substr(begin + 1);
      id = id.substr(0, id.find(' '));
      if (is_object_id(id)) ids.append(id).push_back('\n');
    });
  }
  return ids;
}

void exclude(std::string_view id, std::string& asked) {
  if (is_object_id(id)) asked.append("^").append(id).push_back('\n');
}

// What the references of the agent's repository name, HEAD, and every stash.
Status exclude_references(FileSystem& fs, std::string& asked) {
  std::optional<GitHeads> heads = WARREN_TRY(find_git_heads(fs, "/.git"));
  if (heads) exclude(heads->commit, asked);
  Result<std::string> packed = read_file(fs, "/.git/packed-refs", {.size_bytes_max = limits::kGitPackedRefsBytes});
  if (packed.ok()) {
    for (const auto& [name, id] : parse_packed_references(*packed)) exclude(id, asked);
  }
  Result<std::string> stashes = read_file(fs, "/.git/logs/refs/stash", {.size_bytes_max = kStashLogBytes});
  if (stashes.ok()) {
    for_each_line(*stashes, [&](std::string_view line) {  // "<old> <new> <who> …"
      std::size_t space = line.find(' ');
      if (space != line.npos) exclude(line.substr(space + 1).substr(0, space), asked);
    });
  }
  std::size_t count = 0;
  return walk(fs, "/.git/refs", [&](const WalkEntry& entry) -> Result<WalkNext> {
    if (++count > limits::kGitRefs) return WalkNext::kStop;
    if (!entry.attributes.is_file() || entry.attributes.size > limits::kGitRefBytes) return WalkNext::kContinue;
    std::string text = WARREN_TRY(read_file(fs, entry.path, {.size_bytes_max = limits::kGitRefBytes}));
    exclude(trimmed(text, kWhitespace), asked);
    return WalkNext::kContinue;
  });
}

}  // namespace

Result<std::size_t> count_stray_commits(const AgentOverlay& overlay, const std::vector<TreeChange>& in_git) {
  ScratchDir scratch = WARREN_TRY(ScratchDir::make("objects"));
  std::string quarantine = scratch.path() + "/quarantine";
  Git base(overlay.base_path);
  base.set_limit(limits::kGitTime);
  WARREN_TRY(make_quarantine(overlay, in_git, base, quarantine));
  std::string packed = WARREN_TRY(list_packed(quarantine));
  std::string ids = list_loose(in_git) + packed;
  if (ids.empty()) return std::size_t{0};
  Git git(quarantine);
  git.set_limit(limits::kGitTime);
  std::string types = WARREN_TRY(git.ask_with({"cat-file", "--batch-check=%(objecttype) %(objectname)"}, ids));
  constexpr std::string_view kCommit = "commit ";
  std::string asked;
  for_each_line(types, [&](std::string_view line) {
    if (line.starts_with(kCommit)) asked.append(line.substr(kCommit.size())).push_back('\n');
  });
  if (asked.empty()) return std::size_t{0};
  WARREN_TRY(exclude_references(overlay.merged, asked));
  std::string known = WARREN_TRY(base.ask({"for-each-ref", "--format=%(objectname)"}));
  for_each_line(known, [&](std::string_view id) { exclude(id, asked); });
  std::string count = WARREN_TRY(git.ask_with({"rev-list", "--count", "--ignore-missing", "--stdin"}, asked));
  return parse_number<std::size_t>(count).value_or(0);
}

}  // namespace warren
