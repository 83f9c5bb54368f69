#include "changes/commits/dropped_commits.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/binary.h"
#include "base/limits.h"
#include "changes/git/blobs.h"
#include "changes/git/git_log.h"
#include "changes/git/git_refs.h"
#include "changes/git/quarantine.h"
#include "changes/git/raw_diff.h"
#include "fs/path_ops.h"
#include "text/diff/merge3.h"

namespace warren {
namespace {

// An agent writes the logs itself: they must not decide how much there is to do. What is beyond a limit counts as
// dropped.
constexpr std::size_t kRebasesMax = 200;
constexpr std::size_t kCommitsWalked = 5000;  // of all rebases, before and after them
constexpr std::size_t kComparisons = 200;     // of a commit with another one, file by file
constexpr std::size_t kFilesCompared = 100;   // of one commit
constexpr std::uint64_t kFileBytesCompared = std::uint64_t{8} << 20;
constexpr std::uint64_t kBytesCompared = std::uint64_t{128} << 20;  // in total
constexpr std::chrono::seconds kTimeCompared{10};                   // in total: git compares whole files, too

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
    for (const std::string& path : list_branch_logs(fs)) add_branch(fs, path);
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
    bool is_good = is_object_id(from) && is_object_id(to) && from != to;
    if (is_good) all_[{from, to}] = rebase;
  }

  std::map<Ends, Rebase> all_;
  std::map<std::string, Squashed> squashed_;  // by the last commit after the rebase
  std::set<std::string> made_meanwhile_;
  std::set<std::string> amended_;
};

class DroppedLook {
 public:
  DroppedLook(Git git, std::string head, const Rebases& rebases)
      : git_(std::move(git)), head_(std::move(head)), rebases_(rebases) {}

  // Adds those of the candidates that a rebase has no other commit for. kInvalid if git does not have its commits any
  // more, kLimit, kTimeout, kTooLarge.
  Status add(const Ends& ends, const Rebase& rebase, const std::set<std::string>& candidates,
             std::set<std::string>& dropped) {
    WARREN_TRY(take_walk(ends));
    std::string left = WARREN_TRY(log("--left-only", both_of(ends)));
    if (left.empty()) return Ok{};
    std::string right = WARREN_TRY(log("--right-only", both_of(ends)));
    std::multiset<std::string> successors;
    for (const std::string& line : list_lines(right)) successors.insert(line.substr(line.find(' ')));
    std::vector<std::string> alone;
    for (const std::string& line : list_lines(left)) {
      std::string commit = line.substr(0, line.find(' '));
      auto successor = successors.find(line.substr(commit.size()));
      // An amended one has the author and subject of the old one, but work of its own.
      bool is_own = rebase.is_aborted && rebases_.made_meanwhile().contains(commit);
      if (is_own || successor == successors.end()) alone.push_back(std::move(commit));
      else successors.erase(successor);
    }
    std::size_t without = rebase.squashed.commits + std::min(rebase.squashed.runs, successors.size());
    if (alone.size() <= without) return Ok{};
    for (std::string& commit : alone) {
      bool was_amended = !rebase.is_aborted && rebases_.was_amended(commit);
      if (was_amended || !candidates.contains(commit) || dropped.contains(commit)) continue;
      bool is_there = WARREN_TRY(is_in_any(commit, ends.second));
      if (!is_there) dropped.insert(std::move(commit));
    }
    return Ok{};
  }

 private:
  static std::string both_of(const Ends& ends) { return ends.first + "..." + ends.second; }

  Result<std::string> ask(const std::vector<std::string>& words) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(until_ - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Error(Code::kTimeout, "rebases take too long to compare");
    git_.set_limit(left);
    return git_.ask(words);
  }

  // Git walks all commits of both sides before it prints the first one. So after one that is above the limit, the
  // others are not even counted.
  Status take_walk(const Ends& ends) {
    if (rebases_left_ == 0) return Error(Code::kLimit, "too many rebases");
    --rebases_left_;
    if (is_walk_over_) return too_long();
    std::string limit = fmt::format("--max-count={}", walk_left_ + 1);
    std::string counted = WARREN_TRY(ask({"rev-list", "--count", limit, both_of(ends), "--"}));
    std::optional<std::size_t> count = parse_number<std::size_t>(counted);
    is_walk_over_ = !count || *count > walk_left_;
    if (is_walk_over_) return too_long();
    walk_left_ -= *count;
    return Ok{};
  }

  static Error too_long() { return {Code::kLimit, "too many commits in rebases"}; }

  // Without those that have the same change on both sides.
  Result<std::string> log(const char* side, const std::string& both) {
    return ask({"log", "--cherry-pick", side, "--no-merges", "--format=%H %at %ae %s", both, "--"});
  }

  // Whether the content of a commit is in the result of a rebase, or in HEAD.
  Result<bool> is_in_any(const std::string& commit, const std::string& result) {
    auto known = in_head_.find(commit);
    if (known != in_head_.end() && (known->second || result == head_)) return known->second;
    std::string raw = WARREN_TRY(
        ask({"diff-tree", "--root", "-r", "-z", "--raw", "--no-abbrev", "--no-commit-id", "--no-renames", commit}));
    std::vector<RawDiff> files = parse_raw_diff(raw);
    if (files.size() > kFilesCompared) return false;
    if (known == in_head_.end()) {
      bool is_in_head = !head_.empty() && WARREN_TRY(is_contained(commit, files, head_));
      in_head_.emplace(commit, is_in_head);
      if (is_in_head || result == head_) return is_in_head;
    }
    return is_contained(commit, files, result);
  }

  // Whether merging what the commit changes into the other one would change nothing there.
  Result<bool> is_contained(const std::string& commit, const std::vector<RawDiff>& files, const std::string& other) {
    if (comparisons_left_ == 0) return false;
    --comparisons_left_;
    if (files.empty()) return true;
    std::vector<std::string> words{"--literal-pathspecs", "diff-tree",    "-r",   "-z",  "--raw",
                                   "--no-abbrev",         "--no-renames", commit, other, "--"};
    for (const RawDiff& one : files) words.push_back(one.path);
    std::string raw = WARREN_TRY(ask(words));
    std::set<std::string> changed;
    for (const RawDiff& one : files) changed.insert(one.path);
    std::map<std::string, RawDiff> otherwise;
    for (RawDiff& one : parse_raw_diff(raw)) {
      bool is_file = changed.contains(one.path);  // and not below a directory that was a file
      if (is_file && one.was_there() != one.is_there()) return false;
      if (is_file && one.old_id != one.new_id) otherwise.emplace(one.path, std::move(one));
    }
    std::vector<std::vector<std::string>> versions;  // before the commit, in the other one, in the commit
    for (const RawDiff& one : files) {
      auto found = otherwise.find(one.path);
      if (found != otherwise.end()) versions.push_back({one.old_id, found->second.new_id, one.new_id});
    }
    return have_merged(versions);
  }

  // Stops at the first file that is not merged, or at the limit.
  Result<bool> have_merged(const std::vector<std::vector<std::string>>& versions) {
    bool have = true;
    Status visited =
        visit_blobs(git_, versions, kFileBytesCompared, [&](std::size_t, const BlobTexts& texts) -> Status {
          have = is_merged(texts);
          return have ? Status(Ok{}) : Status(Error(Code::kLimit, "the others do not matter"));
        });
    if (have && !visited.ok()) return std::move(visited).take_error();
    return have;
  }

  bool is_merged(const BlobTexts& texts) {
    std::uint64_t bytes = 0;
    for (const auto& text : texts) bytes += text ? text->size() : 0;
    if (bytes > bytes_left_) return false;
    bytes_left_ -= bytes;
    const auto& before = texts[0];
    const auto& own = texts[1];
    const auto& theirs = texts[2];
    if (!own || !theirs || is_binary(*own) || is_binary(*theirs)) return false;
    Merged merged = merge3(before.value_or(""), *own, *theirs, {.ours = "result", .theirs = "commit"});
    return merged.is_clean() && merged.text == *own;
  }

  Git git_;
  std::chrono::steady_clock::time_point until_ = std::chrono::steady_clock::now() + kTimeCompared;
  std::string head_;
  const Rebases& rebases_;
  std::map<std::string, bool> in_head_;  // of commits that have been looked at
  std::size_t rebases_left_ = kRebasesMax;
  std::size_t walk_left_ = kCommitsWalked;
  bool is_walk_over_ = false;
  std::size_t comparisons_left_ = kComparisons;
  std::uint64_t bytes_left_ = kBytesCompared;
};

// The commits of `alone` that these lead to, and no reference does.
Result<std::set<std::string>> list_unreferenced(Git& git, const std::set<std::string>& from,
                                                const std::string& references, const std::set<std::string>& alone) {
  std::set<std::string> found;
  if (from.empty()) return found;
  std::string asked = references;
  for (const std::string& id : from) asked += id + "\n";
  std::string listed = WARREN_TRY(git.ask_with({"rev-list", "--ignore-missing", "--stdin"}, asked));
  for (std::string& id : list_lines(listed)) {
    if (alone.contains(id)) found.insert(std::move(id));
  }
  return found;
}

bool is_unknown(Code code) {
  return code == Code::kInvalid || code == Code::kLimit || code == Code::kTimeout || code == Code::kTooLarge;
}

}  // namespace

Result<std::set<std::string>> list_dropped(FileSystem& fs, Git& git, const std::string& references,
                                           const std::set<std::string>& alone) {
  Rebases rebases(fs);
  std::set<std::string> from;
  for (const auto& [ends, rebase] : rebases.all()) from.insert(ends.first);
  std::set<std::string> candidates = WARREN_TRY(list_unreferenced(git, from, references, alone));
  if (candidates.empty()) return candidates;
  std::optional<GitHeads> heads = WARREN_TRY(find_git_heads(fs, "/.git"));
  DroppedLook look(git, heads ? heads->commit : "", rebases);
  std::set<std::string> all;
  std::set<std::string> unlooked;
  for (const auto& [ends, rebase] : rebases.all()) {
    if (!candidates.contains(ends.first)) continue;
    Status looked = look.add(ends, rebase, candidates, all);
    if (!looked.ok() && is_unknown(looked.error().code())) unlooked.insert(ends.first);
    else WARREN_TRY(std::move(looked));
  }
  std::set<std::string> unjudged = WARREN_TRY(list_unreferenced(git, unlooked, references, alone));
  all.merge(std::move(unjudged));
  return all;
}

}  // namespace warren
