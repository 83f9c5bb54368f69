#include "changes/commits/dropped_commits.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ascii.h"
#include "base/binary.h"
#include "base/limits.h"
#include "changes/git/git_log.h"
#include "changes/git/git_refs.h"
#include "changes/git/quarantine.h"
#include "changes/git/raw_diff.h"
#include "fs/path_ops.h"
#include "fs/tree_ops.h"
#include "text/diff/merge3.h"

namespace warren {
namespace {

constexpr std::size_t kRebasesMax = 200;
constexpr std::size_t kFilesCompared = 100;  // of one commit

struct Squashed {
  std::size_t commits = 0;  // that went into the one before
  std::size_t runs = 0;     // of them, one after another: the first gets a commit of its own, with a message of its own
};

using Ends = std::pair<std::string, std::string>;  // the last commit before a rebase and after it

// An aborted one leads from the commit that it had come to back to the old one.
struct Rebase {
  Squashed squashed;
  bool is_aborted = false;
};

std::vector<std::string> list_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.empty()) lines.emplace_back(line);
  }
  return lines;
}

// "rebase (finish): …", "pull --rebase (start): …"
std::string action_of(const LogEntry& entry) {
  std::string action = entry.message.substr(0, entry.message.find(':'));
  return action.find("rebase") == action.npos ? "" : action;
}

class Rebases {
 public:
  explicit Rebases(FileSystem& fs) {
    add_head(fs);
    std::size_t count = 0;
    walk(fs, "/.git/logs/refs/heads", [&](const WalkEntry& entry) -> Result<WalkNext> {
      if (++count > limits::kGitRefs) return WalkNext::kStop;
      if (entry.attributes.is_file()) add_branch(fs, entry.path);
      return WalkNext::kContinue;
    }).ignore("without a log, nothing was rebased");
  }

  const std::map<Ends, Rebase>& all() const { return all_; }
  bool was_amended(const std::string& commit) const { return amended_.contains(commit); }
  // By the agent while a rebase was under way, not by the rebase.
  const std::set<std::string>& made_meanwhile() const { return made_meanwhile_; }

 private:
  // A rebase of a detached HEAD has no entry at its end.
  void add_head(FileSystem& fs) {
    Ends ends;
    Squashed squashed;
    bool is_in_run = false;
    for (const LogEntry& entry : read_git_log(fs, "/.git/logs/HEAD")) {
      if (entry.message.starts_with("commit (amend)")) amended_.insert(entry.from);
      bool is_made_meanwhile = !ends.first.empty() && entry.message.starts_with("commit");
      if (is_made_meanwhile) made_meanwhile_.insert(entry.to);
      std::string action = action_of(entry);
      if (action.empty()) continue;
      auto is = [&](std::string_view word) { return action.find(word) != action.npos; };
      if (is("(start)")) {
        add_from_head(ends, squashed);
        ends.first = entry.from;
        squashed = {};
      }
      bool is_squashed = is("(squash)") || is("(fixup)");
      squashed.commits += is_squashed ? 1 : 0;
      squashed.runs += is_squashed && !is_in_run ? 1 : 0;
      is_in_run = is_squashed;
      ends.second = entry.to;
      if (is("(finish)")) add_from_head(ends, squashed);
      if (is("(abort)")) add(entry.from, entry.to, {.squashed = {}, .is_aborted = true});
      if (is("(finish)") || is("(abort)")) ends = {};
    }
    add_from_head(ends, squashed);
  }

  void add_from_head(const Ends& ends, const Squashed& squashed) {
    squashed_[ends.second] = squashed;
    add(ends.first, ends.second, {.squashed = squashed, .is_aborted = false});
  }

  void add_branch(FileSystem& fs, const std::string& path) {
    for (const LogEntry& entry : read_git_log(fs, path)) {
      if (action_of(entry).find("finish") == std::string::npos) continue;
      add(entry.from, entry.to, {.squashed = squashed_[entry.to], .is_aborted = false});
    }
  }

  void add(const std::string& from, const std::string& to, const Rebase& rebase) {
    bool is_good = is_object_id(from) && is_object_id(to) && from != to && all_.size() < kRebasesMax;
    if (is_good) all_[{from, to}] = rebase;
  }

  std::map<Ends, Rebase> all_;
  std::map<std::string, Squashed> squashed_;  // by the last commit after the rebase
  std::set<std::string> made_meanwhile_;
  std::set<std::string> amended_;
};

class DroppedLook {
 public:
  DroppedLook(Git& git, std::string head, const std::set<std::string>& made_meanwhile)
      : git_(git), head_(std::move(head)), made_meanwhile_(made_meanwhile) {}

  // The commits of a rebase for which there is no other. kInvalid if git does not have them any more.
  Result<std::vector<std::string>> list(const Ends& ends, const Rebase& rebase) {
    const std::string both = ends.first + "..." + ends.second;
    std::string left = WARREN_TRY(log("--left-only", both));
    if (left.empty()) return std::vector<std::string>();
    std::string right = WARREN_TRY(log("--right-only", both));
    std::multiset<std::string> successors;
    for (const std::string& line : list_lines(right)) successors.insert(line.substr(line.find(' ')));
    std::vector<std::string> alone;
    for (const std::string& line : list_lines(left)) {
      std::string commit = line.substr(0, line.find(' '));
      auto successor = successors.find(line.substr(commit.size()));
      // An amended one has the author and subject of the old one, but work of its own.
      bool is_own = rebase.is_aborted && made_meanwhile_.contains(commit);
      if (is_own || successor == successors.end()) alone.push_back(std::move(commit));
      else successors.erase(successor);
    }
    std::size_t without = rebase.squashed.commits + std::min(rebase.squashed.runs, successors.size());
    if (alone.size() <= without) return std::vector<std::string>();
    std::vector<std::string> dropped;
    for (const std::string& commit : alone) {
      bool is_there = WARREN_TRY(is_contained(commit, ends.second))
      || WARREN_TRY(is_contained(commit, head_));
      if (!is_there) dropped.push_back(commit);
    }
    return dropped;
  }

 private:
  // Without those that have the same change on both sides.
  Result<std::string> log(const char* side, const std::string& both) {
    return git_.ask(
        {"log", "--no-show-signature", "--cherry-pick", side, "--no-merges", "--format=%H %at %ae %s", both, "--"});
  }

  Result<std::optional<std::string>> read(const std::string& name) {
    Captured content = WARREN_TRY(git_.run({"cat-file", "blob", name}));
    return content.status == 0 ? std::optional(std::move(content.output)) : std::nullopt;
  }

  // Whether merging what the commit changes into the other one would change nothing there.
  Result<bool> is_contained(const std::string& commit, const std::string& other) {
    std::string raw = WARREN_TRY(git_.ask(
        {"diff-tree", "--root", "-r", "-z", "--raw", "--no-abbrev", "--no-commit-id", "--no-renames", commit}));
    std::vector<RawDiff> files = parse_raw_diff(raw);
    if (files.size() > kFilesCompared) return false;
    for (const RawDiff& one : files) {
      std::optional<std::string> own = WARREN_TRY(read(other + ":" + one.path));
      if (own.has_value() != one.is_there()) return false;
      if (!own) continue;
      std::optional<std::string> theirs = WARREN_TRY(read(one.new_id));
      if (own == theirs) continue;
      std::optional<std::string> before = WARREN_TRY(read(one.old_id));
      bool is_text = theirs && own->size() <= limits::kPatchFileBytes && theirs->size() <= limits::kPatchFileBytes &&
                     !is_binary(*own) && !is_binary(*theirs);
      if (!is_text) return false;
      Merged merged = merge3(before.value_or(""), *own, *theirs, {.ours = "result", .theirs = "commit"});
      if (!merged.is_clean() || merged.text != *own) return false;
    }
    return true;
  }

  Git& git_;
  std::string head_;
  const std::set<std::string>& made_meanwhile_;
};

}  // namespace

Result<std::set<std::string>> list_dropped(FileSystem& fs, Git& git) {
  std::set<std::string> all;
  Rebases rebases(fs);
  if (rebases.all().empty()) return all;
  std::optional<GitHeads> heads = WARREN_TRY(find_git_heads(fs, "/.git"));
  DroppedLook look(git, heads ? heads->commit : "", rebases.made_meanwhile());
  for (const auto& [ends, rebase] : rebases.all()) {
    Result<std::vector<std::string>> dropped = look.list(ends, rebase);
    if (!dropped.ok() && dropped.error().code() == Code::kInvalid) continue;
    if (!dropped.ok()) return std::move(dropped).take_error();
    for (std::string& commit : *dropped) {
      if (rebase.is_aborted || !rebases.was_amended(commit)) all.insert(std::move(commit));
    }
  }
  return all;
}

}  // namespace warren
