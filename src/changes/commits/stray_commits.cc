#include "changes/commits/stray_commits.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/limits.h"
#include "changes/commits/dropped_commits.h"
#include "changes/git/blobs.h"
#include "changes/git/git.h"
#include "changes/git/git_log.h"
#include "changes/git/git_refs.h"
#include "changes/git/git_tree.h"
#include "changes/git/quarantine.h"
#include "changes/pinned/pinned_git.h"
#include "fs/path_ops.h"
#include "fs/tree_ops.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::string_view kOwnObjects = "/.git/objects/";
constexpr std::size_t kIndexAt = 2;  // in a list of a commit and its parents
// For the whole question: a run ends with it, and `warren sessions` asks it of each session. What takes longer counts
// as work. Objects of an honest agent are copied and indexed faster than this.
constexpr std::chrono::seconds kStrayTime{60};
constexpr std::uint64_t kStrayBytesInSecond = std::uint64_t{4} << 20;

Git::Deadline find_deadline(const std::vector<TreeChange>& in_git) {
  std::uint64_t bytes = 0;
  for (const TreeChange& change : in_git) bytes += change.after ? change.after->size : 0;
  auto time = kStrayTime + std::chrono::seconds(std::min(bytes / kStrayBytesInSecond, std::uint64_t{3600}));
  return std::chrono::steady_clock::now() + std::min<std::chrono::milliseconds>(time, limits::kGitTime);
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

bool has_packs(const std::vector<TreeChange>& in_git) {
  return std::any_of(in_git.begin(), in_git.end(), [](const TreeChange& change) {
    bool is_file = change.after && change.after->is_file() && change.path.starts_with(kOwnObjects);
    return is_file && object_file_of(change.path.substr(kOwnObjects.size())) == ObjectFile::kPack;
  });
}

void exclude(std::string_view id, std::string& asked) {
  if (is_object_id(id)) asked.append("^").append(id).push_back('\n');
}

// What the references of the agent's repository name, HEAD, and every stash.
Status exclude_references(FileSystem& fs, std::string& asked) {
  Result<std::optional<GitHeads>> heads = find_git_heads(fs, "/.git");
  if (!heads.ok()) return std::move(heads).take_error();
  if (*heads) exclude((*heads)->commit, asked);
  Result<std::string> packed = read_file(fs, "/.git/packed-refs", {.size_bytes_max = limits::kGitPackedRefsBytes});
  if (packed.ok()) {
    for (const auto& [name, id] : parse_packed_references(*packed)) exclude(id, asked);
  }
  for (const LogEntry& entry : read_git_log(fs, "/.git/logs/refs/stash")) exclude(entry.to, asked);
  std::size_t count = 0;
  return walk(fs, "/.git/refs", [&](const WalkEntry& entry) -> Result<WalkNext> {
    if (++count > limits::kGitRefs) return WalkNext::kStop;
    if (!entry.attributes.is_file() || entry.attributes.size > limits::kGitRefBytes) return WalkNext::kContinue;
    std::string text = WARREN_TRY(read_file(fs, entry.path, {.size_bytes_max = limits::kGitRefBytes}));
    exclude(trimmed(text, kWhitespace), asked);
    return WalkNext::kContinue;
  });
}

// Whether git has put another commit in the place of the old one: "commit (amend): …", "rebase (fixup): …",
// "pull --rebase (finish): …". When a rebase starts, it has replaced nothing yet.
bool is_replacement(const LogEntry& entry) {
  std::string_view action = std::string_view(entry.message).substr(0, entry.message.find(':'));
  if (entry.from == entry.to || action.find("(start)") != action.npos) return false;
  return action.find("(amend)") != action.npos || action.starts_with("rebase") ||
         action.find("--rebase") != action.npos;
}

// The old commits of amendments and rebases, by the logs of HEAD and of the branches.
std::set<std::string> list_replaced(FileSystem& fs) {
  std::set<std::string> replaced;
  auto add = [&](const std::string& path) {
    for (const LogEntry& entry : read_git_log(fs, path)) {
      if (is_replacement(entry)) replaced.insert(entry.from);
    }
  };
  add("/.git/logs/HEAD");
  for (const std::string& path : list_branch_logs(fs)) add(path);
  return replaced;
}

std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> words;
  while (!line.empty()) {
    std::size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.emplace_back(line.substr(0, end));
    line.remove_prefix(std::min(line.size(), end + 1));
  }
  return words;
}

// What only the agent has of a tree.
struct OwnTree {
  std::set<std::string> blobs;
  std::set<std::string> trees;  // directly in it
  bool has_markers = false;     // of a conflict, in a blob of it or of a tree below it
  bool is_of_merge = false;     // or in a tree that it is below
};

// Passes on what is known of the trees up and down, until nothing changes.
void note_conflicts(std::map<std::string, OwnTree>& trees) {
  bool has_changed = true;
  auto note = [&](bool& place) {
    has_changed = has_changed || !place;
    place = true;
  };
  while (has_changed) {
    has_changed = false;
    for (auto& [id, tree] : trees) {
      if (tree.has_markers) note(tree.is_of_merge);
      for (const std::string& name : tree.trees) {
        auto below = trees.find(name);
        if (below == trees.end()) continue;
        if (below->second.has_markers) note(tree.has_markers);
        if (tree.is_of_merge) note(below->second.is_of_merge);
      }
    }
  }
}

// Looks at the objects of one agent's repository.
class StrayLook {
 public:
  StrayLook(const AgentOverlay& overlay, const std::vector<TreeChange>& in_git, const std::string& quarantine)
      : overlay_(overlay),
        in_git_(in_git),
        quarantine_path_(quarantine),
        base_(overlay.base_path),
        quarantine_(quarantine) {
    for (Git* git : {&base_, &quarantine_}) git->set_deadline(find_deadline(in_git));
  }

  Result<StrayObjects> look() {
    StrayObjects found;
    std::string ids = list_loose(in_git_);
    WARREN_TRY(list_alone(ids));
    if (alone_.empty() && !has_packs(in_git_)) return found;
    WARREN_TRY(make_quarantine(overlay_, in_git_, base_, quarantine_path_));
    std::string packed = WARREN_TRY(list_packed());
    WARREN_TRY(list_alone(packed));
    if (alone_.empty()) return found;
    ids += packed;
    WARREN_TRY(exclude_references(overlay_.merged, references_));
    std::string known = WARREN_TRY(base_.ask({"for-each-ref", "--format=%(objectname)"}));
    for_each_line(known, [&](std::string_view id) { exclude(id, references_); });
    replaced_ = list_replaced(overlay_.merged);
    WARREN_TRY(list_strays(ids));
    WARREN_TRY(leave_out_stashes());
    WARREN_TRY(add_dropped());
    found.commits = strays_.size();
    if (!strays_.empty()) found.subject = WARREN_TRY(read_newest_subject());
    WARREN_TRY(leave_out_replaced());
    WARREN_TRY(leave_out_of_start(known));
    WARREN_TRY(leave_out_stopped_merges());
    found.are_alone = !alone_.empty();
    return found;
  }

 private:
  // The objects in the packs of the quarantine.
  Result<std::string> list_packed() {
    std::string ids;
    Fd dir = WARREN_TRY(open_host_dir(quarantine_path_ + "/objects/pack"));
    std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(dir.get()));
    for (const HostEntry& entry : entries) {
      if (!entry.name.ends_with(".idx")) continue;
      Fd index = WARREN_TRY(open_host_file_below(dir.get(), entry.name));
      std::string listed = WARREN_TRY(quarantine_.ask({"show-index"}, index.get()));
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

  Status list_alone(const std::string& ids) {
    if (ids.empty()) return Ok{};
    constexpr std::string_view kMissing = " missing";
    std::string found = WARREN_TRY(base_.ask_with({"cat-file", "--batch-check=%(objectname)"}, ids));
    for_each_line(found, [&](std::string_view line) {
      if (line.ends_with(kMissing)) alone_.emplace(line.substr(0, line.size() - kMissing.size()));
    });
    return Ok{};
  }

  // All commits that no reference leads to, without those that were replaced.
  Status list_strays(const std::string& ids) {
    constexpr std::string_view kCommit = "commit ";
    std::string types =
        WARREN_TRY(quarantine_.ask_with({"cat-file", "--batch-check=%(objecttype) %(objectname)"}, ids));
    std::string asked;
    for_each_line(types, [&](std::string_view line) {
      if (line.starts_with(kCommit)) asked.append(line.substr(kCommit.size())).push_back('\n');
    });
    if (asked.empty()) return Ok{};
    asked += references_;
    for (const std::string& id : replaced_) exclude(id, asked);
    std::string listed = WARREN_TRY(quarantine_.ask_with({"rev-list", "--ignore-missing", "--stdin"}, asked));
    for_each_line(listed, [&](std::string_view id) { strays_.emplace(id); });
    return Ok{};
  }

  Result<std::string> read_newest_subject() {
    std::string asked;
    for (const std::string& id : strays_) asked += id + "\n";
    std::string subject = WARREN_TRY(quarantine_.ask_with({"log", "--no-walk", "-1", "--format=%s", "--stdin"}, asked));
    return cut_subject(std::move(subject));
  }

  // A stash is a commit whose second parent has the index; a third one has untracked files.
  Status leave_out_stashes() {
    std::string asked;
    for (const std::string& id : strays_) asked += id + "\n";
    if (asked.empty()) return Ok{};
    std::string listed = WARREN_TRY(quarantine_.ask_with({"rev-list", "--no-walk", "--parents", "--stdin"}, asked));
    std::vector<std::vector<std::string>> families;  // each commit with its parents
    std::string second_parents;
    for_each_line(listed, [&](std::string_view line) {
      std::vector<std::string> family = split_words(line);
      if (family.size() <= kIndexAt) return;
      second_parents += family[kIndexAt] + "\n";
      families.push_back(std::move(family));
    });
    if (families.empty()) return Ok{};
    std::string named =
        WARREN_TRY(quarantine_.ask_with({"log", "--no-walk", "--stdin", "--format=%H %s"}, second_parents));
    std::set<std::string> indexes;
    for_each_line(named, [&](std::string_view line) {
      std::size_t space = std::min(line.find(' '), line.size());
      if (line.substr(space).starts_with(" index on ")) indexes.emplace(line.substr(0, space));
    });
    for (const std::vector<std::string>& family : families) {
      if (!indexes.contains(family[kIndexAt])) continue;
      replaced_.insert(family[0]);
      strays_.erase(family[0]);
      for (std::size_t i = kIndexAt; i < family.size(); ++i) strays_.erase(family[i]);
    }
    return Ok{};
  }

  // A rebase replaced what came before it, but not those that it left out.
  Status add_dropped() {
    std::set<std::string> dropped = WARREN_TRY(list_dropped(overlay_.merged, quarantine_, references_, alone_));
    strays_.merge(std::move(dropped));
    return Ok{};
  }

  // Of what is in no repository but the agent's, what belongs only to replaced commits.
  Status leave_out_replaced() {
    if (replaced_.empty()) return Ok{};
    std::string asked = references_;
    for (const std::string& id : strays_) exclude(id, asked);
    for (const std::string& id : replaced_) asked += id + "\n";
    std::string listed =
        WARREN_TRY(quarantine_.ask_with({"rev-list", "--objects", "--ignore-missing", "--stdin"}, asked));
    for_each_line(listed, [&](std::string_view line) { alone_.erase(std::string(line.substr(0, line.find(' ')))); });
    return Ok{};
  }

  // What the references of the start lead to, and the base has dropped since, the agent did not make.
  Status leave_out_of_start(std::string_view known) {
    std::optional<PinnedGit> pinned = WARREN_TRY(find_pinned_git(overlay_));
    if (!pinned || alone_.empty()) return Ok{};
    std::string asked;
    for (const auto& [name, id] : pinned->references) asked += id + "\n";
    for_each_line(known, [&](std::string_view id) { exclude(id, asked); });
    Result<std::string> listed = quarantine_.ask_with({"rev-list", "--objects", "--ignore-missing", "--stdin"}, asked);
    if (!listed.ok()) return Ok{};  // something of it is nowhere any more
    for_each_line(*listed, [&](std::string_view line) { alone_.erase(std::string(line.substr(0, line.find(' ')))); });
    return Ok{};
  }

  // When a merge stops at a conflict, git writes what it has put into the work tree to a tree: files with conflict
  // markers, and those that it could merge. A tree without content of its own is nothing.
  Status leave_out_stopped_merges() {
    constexpr std::size_t kTreesMax = 100;
    std::string asked;
    for (const std::string& id : alone_) asked += id + "\n";
    if (asked.empty()) return Ok{};
    std::string types =
        WARREN_TRY(quarantine_.ask_with({"cat-file", "--batch-check=%(objecttype) %(objectname)"}, asked));
    std::vector<std::string> trees;
    bool has_others = false;  // commits and tags, whose trees count
    for_each_line(types, [&](std::string_view line) {
      std::size_t space = std::min(line.find(' '), line.size() - 1);
      std::string_view type = line.substr(0, space);
      if (type == "tree") trees.emplace_back(line.substr(space + 1));
      else has_others = has_others || type != "blob";
    });
    if (has_others || trees.size() > kTreesMax) return Ok{};
    std::map<std::string, OwnTree> own;
    for (const std::string& tree : trees) own.emplace(tree, WARREN_TRY(list_own(tree)));
    WARREN_TRY(note_marked(own));
    note_conflicts(own);
    for (const auto& [id, tree] : own) {
      alone_.erase(id);
      if (!tree.is_of_merge) continue;
      for (const std::string& blob : tree.blobs) alone_.erase(blob);
    }
    return Ok{};
  }

  // What the base does not have of the entries of a tree. Not what is below them: a few trees that name each other can
  // have more paths than anybody can list.
  Result<OwnTree> list_own(const std::string& tree) {
    OwnTree own;
    std::string listed = WARREN_TRY(quarantine_.ask({"ls-tree", "-z", "--full-tree", tree}));
    for (GitTreeEntry& one : parse_git_tree(listed)) {
      if (!alone_.contains(one.id)) continue;
      (one.is_file() ? own.blobs : own.trees).insert(std::move(one.id));
    }
    return own;
  }

  // Which have blobs with conflict markers. Without the rest if there is too much to read: what is not looked at
  // counts.
  Status note_marked(std::map<std::string, OwnTree>& trees) {
    constexpr std::uint64_t kBytesMax = std::uint64_t{256} << 20;
    std::set<std::string> marked;
    std::set<std::string> ids;
    for (const auto& [id, tree] : trees) ids.insert(tree.blobs.begin(), tree.blobs.end());
    std::vector<std::vector<std::string>> each;
    for (const std::string& id : ids) each.push_back({id});
    std::uint64_t bytes = 0;
    Status visited =
        visit_blobs(quarantine_, each, limits::kPatchFileBytes, [&](std::size_t i, const BlobTexts& texts) {
          std::string content = fmt::format("\n{}", texts[0].value_or(""));
          bytes += content.size();
          std::size_t begin = content.find("\n<<<<<<< ");
          if (begin != content.npos && content.find("\n>>>>>>> ", begin) != content.npos) marked.insert(each[i][0]);
          return bytes <= kBytesMax ? Status(Ok{}) : Status(Error(Code::kLimit, "too much to read"));
        });
    if (!visited.ok() && bytes <= kBytesMax) return visited;
    for (auto& [id, tree] : trees) {
      tree.has_markers = std::any_of(tree.blobs.begin(), tree.blobs.end(),
                                     [&](const std::string& blob) { return marked.contains(blob); });
    }
    return Ok{};
  }

  const AgentOverlay& overlay_;
  const std::vector<TreeChange>& in_git_;
  std::string quarantine_path_;
  Git base_;
  Git quarantine_;
  std::string references_;          // of agent and base, for rev-list: "^<id>\n"
  std::set<std::string> alone_;     // objects that the base does not have
  std::set<std::string> replaced_;  // commits
  std::set<std::string> strays_;    // commits
};

}  // namespace

Result<StrayObjects> find_stray_objects(const AgentOverlay& overlay, const std::vector<TreeChange>& in_git) {
  ScratchDir scratch = WARREN_TRY(ScratchDir::make("objects"));
  return StrayLook(overlay, in_git, scratch.path() + "/quarantine").look();
}

}  // namespace warren
