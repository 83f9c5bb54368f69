#include "cli/changes/merged_branches.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/changes/merge_advice.h"

namespace warren::cli {
namespace {

constexpr std::size_t kShortMerged = 10;

using Where = CommitImport::Where;

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  for (const std::string& one : more) {
    if (std::ranges::find(to, one) == to.end()) to.push_back(one);
  }
}

// It is compared with the session as the commits of HEAD are.
Result<std::unique_ptr<CommitImport>> import_as_head(AgentCommits found, const AgentBranch& branch,
                                                     const AgentOverlay& overlay, const std::vector<TreeChange>& all,
                                                     const CommitImport* other = nullptr) {
  found.head = branch.commit;
  found.branch = branch.name;
  found.is_head_squashed = false;
  return CommitImport::prepare(overlay, found, branch.commit, all, other);
}

Result<MergedBranch> prepare_merged(const CommitsPlan& plan, const AgentBranch& branch, OverlayAgent& opened,
                                    const std::vector<TreeChange>& all) {
  MergedBranch merged{.branch = branch, .import = {}, .description = {}, .outlook = {}};
  merged.import = WARREN_TRY(import_as_head(plan.found, branch, opened.overlay, all, plan.import.get()));
  WARREN_TRY(merged.import->set_writer(*opened.agent));
  return merged;
}

bool is_same(const AgentBranch& one, const AgentBranch& other) {
  return one.commit == other.commit && one.name == other.name;
}

// Git keeps branches as files: one cannot have the name of another one's directory.
bool collide(const std::string& a, const std::string& b) {
  return a == b || a.starts_with(b + "/") || b.starts_with(a + "/");
}

// Each branch is written by itself: a name that cannot be written must not be found after the first one.
Status check_free_beside(const CommitsPlan& plan, const std::string& name) {
  std::string taken;
  if (plan.taken && collide(name, plan.branch)) taken = plan.branch;
  for (const MergedBranch& other : plan.others) {
    if (other.is_brought && collide(name, other.branch.name)) taken = other.branch.name;
  }
  if (taken.empty()) return Ok{};
  return Error(
      Code::kExists,
      fmt::format("nothing was written: the session brings the branches {} and {}, which git cannot have beside "
                  "each other",
                  quote(taken), quote(name)),
      "--branch NAME takes another name for the session's own commits");
}

}  // namespace

Status plan_merged_branches(CommitsPlan& plan, OverlayAgent& opened, const std::vector<TreeChange>& all) {
  for (const AgentBranch& one : plan.found.merged) {
    if (WARREN_TRY(plan.import->contains_in_head(one.commit))) continue;
    MergedBranch merged = WARREN_TRY(prepare_merged(plan, one, opened, all));
    auto named = std::ranges::find_if(plan.found.brings, [&](const AgentBranch& each) { return is_same(each, one); });
    bool is_other = named != plan.found.brings.end() && !(plan.taken && plan.taken->commit == one.commit);
    // A branch that is there may be of another session: commits of this one have no place in it.
    if (is_other) {
      Result<CommitImport::BranchState> state = merged.import->look_at_branch(one.name);
      merged.is_brought = state.ok() && *state == CommitImport::BranchState::kNew;
    }
    if (merged.is_brought) {
      WARREN_TRY(check_free_beside(plan, one.name));
      plan.found.brings.erase(named);
      merged.description = WARREN_TRY(merged.import->describe());
      std::vector<SelfRunningFile> running = WARREN_TRY(merged.import->list_self_running());
      plan.self_running.insert(plan.self_running.end(), running.begin(), running.end());
    }
    plan.others.push_back(std::move(merged));
  }
  return Ok{};
}

Status compare_with_merged(CommitsPlan& plan, std::vector<TreeChange>& changes, std::vector<Where>& where) {
  for (MergedBranch& other : plan.others) {
    if (other.is_brought) {
      CommitImport::Beyond beyond = WARREN_TRY(other.import->look_beyond(changes));
      append(plan.beyond.foreign, beyond.foreign);
      append(plan.beyond.reverted, beyond.reverted);
      append(plan.beyond.uncommitted, beyond.uncommitted);
      append(plan.beyond.untracked, beyond.untracked);
      append(plan.beyond.stashed, beyond.stashed);
    }
    CommitImport::Sorted in_other = WARREN_TRY(other.import->sort(changes));
    for (std::size_t i = 0; i < where.size(); ++i) {
      if (where[i] == Where::kFiles) where[i] = in_other.where[i];
    }
  }
  return Ok{};
}

Status mark_by_merged(const AgentOverlay& overlay, const AgentCommits& found, CommitImport& import,
                      std::vector<TreeChange>& all) {
  for (const AgentBranch& one : found.merged) {
    if (WARREN_TRY(import.contains_in_head(one.commit))) continue;
    std::unique_ptr<CommitImport> other = WARREN_TRY(import_as_head(found, one, overlay, all, &import));
    WARREN_TRY(mark_sorted(*other, all));
  }
  return Ok{};
}

Status mark_sorted(CommitImport& import, std::vector<TreeChange>& all) {
  CommitImport::Sorted sorted = WARREN_TRY(import.sort(all));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i].is_in_commits = all[i].is_in_commits || sorted.where[i] != Where::kFiles;
  return Ok{};
}

Status bring_merged_branches(CommitsPlan& plan) {
  for (MergedBranch& other : plan.others) {
    if (!other.is_brought) continue;
    WARREN_TRY(other.import->bring(other.branch.name, ReplaceBranch::kNo));
    plan.written.push_back(other.branch.name);
    Result<MergeOutlook> outlook = other.import->foresee_merge();
    if (outlook.ok()) other.outlook = *std::move(outlook);
  }
  return Ok{};
}

void print_merged_branches(Output& out, const Arguments& args, const CommitsPlan& plan) {
  for (const MergedBranch& other : plan.others) {
    if (!other.is_brought) continue;
    std::uint64_t count = other.description.count;
    out.print("{} {}: {} commit{}, up to {} {}\n", args.has("dry-run") ? "would write the branch" : "branch",
              out.name(other.branch.name), count, count == 1 ? "" : "s", other.branch.commit.substr(0, kShortMerged),
              out.name(quote(other.description.subject)));
    if (!args.has("dry-run")) print_merge_advice(out, other.branch.name, other.branch.commit, other.outlook);
  }
}

}  // namespace warren::cli
