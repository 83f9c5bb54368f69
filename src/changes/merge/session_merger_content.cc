// Content and metadata of one file that both agents may have changed.
#include <fmt/format.h>

#include "base/binary.h"
#include "base/limits.h"
#include "base/path.h"
#include "changes/apply/copy_node.h"
#include "changes/compare.h"
#include "changes/conflicts.h"
#include "changes/merge/session_merger.h"
#include "fs/path_ops.h"
#include "text/diff/merge3.h"

namespace warren {
namespace {

// The second side's value if it differs from the ancestor's, unless the first side's does too.
template <class Value>
struct ThreeWay {
  Value value;
  bool is_conflict = false;
};

template <class Value>
ThreeWay<Value> three_way(const Value& ancestor, const Value& first, const Value& second) {
  if (second == ancestor || first == second) return {first, false};
  if (first == ancestor) return {second, false};
  return {first, true};
}

}  // namespace

// nullopt if what the second agent saw was not kept, or is too large to merge.
Result<std::optional<std::string>> SessionMerger::find_ancestor(const Job& job) {
  Result<std::string> seen = read_seen(second_, *job.file.change);
  if (seen.ok()) return std::optional(*std::move(seen));
  Code why = seen.error().code();
  if (why == Code::kConflict || why == Code::kTooLarge) return std::optional<std::string>();
  return std::move(seen).take_error();
}

Status SessionMerger::merge_contents(const Job& job, const std::optional<std::string>& ancestor, std::string_view why) {
  Attributes here = WARREN_TRY(lstat(first_.merged, job.goal));
  const ChangedFile::Side& there = *job.file.after;
  if (WARREN_TRY(has_same_content(first_.merged, job.goal, second_.merged, there.path))) return Ok{};
  bool is_large = here.size > limits::kPatchFileBytes || there.node.size > limits::kPatchFileBytes;
  if (is_large || !ancestor) return choose(job, fmt::format("{}, and it cannot be merged", why));
  std::string ours = WARREN_TRY(read_file(first_.merged, job.goal, {.size_bytes_max = limits::kPatchFileBytes}));
  std::string theirs = WARREN_TRY(read_file(second_.merged, there.path, {.size_bytes_max = limits::kPatchFileBytes}));
  bool was_seen = job.file.before || !ancestor->empty();
  if (theirs == *ancestor && was_seen) return Ok{};
  if (ours == *ancestor && was_seen) {
    ++report_.taken;
    return replace(job, job.goal);
  }
  if (is_binary(*ancestor) || is_binary(ours) || is_binary(theirs))
    return choose(job, fmt::format("{}, and it is not text", why));
  Merged merged = merge3(*ancestor, ours, theirs, {.ours = options_.first, .theirs = options_.second});
  if (!merged.is_clean()) {
    Keep keep =
        settle(job.goal, job.file.before ? "both changed the same lines" : "both added it, with different lines");
    if (keep == Keep::kFirst) return Ok{};
    if (keep == Keep::kSecond) return replace_theirs(job);
    last().outcome = "both versions are between conflict markers";
    last().has_second = true;
  } else {
    report_.merged.push_back(shown(job.goal));
  }
  forget();
  WARREN_TRY(write_file(first_.merged, job.goal, as_bytes(merged.text)));
  return check_stays_encrypted(second_.merged, there.path, first_.merged, job.goal);
}

// In place if both are regular files: it stays the same change of the base's file.
Status SessionMerger::replace(const Job& job, const std::string& path) {
  const ChangedFile::Side& theirs = *job.file.after;
  std::optional<Attributes> ours = WARREN_TRY(find(path));
  forget();
  if (ours && ours->is_file() && theirs.node.is_file()) {
    WARREN_TRY(copy_file_content(second_.merged, theirs.path, first_.merged, path));
    AttributeChanges times{.mtime = SetTime::to(theirs.node.mtime)};
    WARREN_TRY(set_attributes(first_.merged, path, times, Follow::kNo));
    return Ok{};
  }
  if (ours) WARREN_TRY(unlink(first_.merged, path));
  return copy_node(second_.merged, theirs.path, theirs.node, first_.merged, path);
}

Status SessionMerger::choose(const Job& job, std::string_view why) {
  Keep keep = settle(job.goal, std::string(why));
  if (keep == Keep::kFirst) return Ok{};
  if (!WARREN_TRY(make_parents(job.goal))) {  // neither has a place for it
    leave_out("it was left out");
    return Ok{};
  }
  return keep == Keep::kSecond ? replace_theirs(job) : put_beside(job, job.goal, last());
}

// The second agent's version wins, but not over all that is in a directory, or over another file, which the second has
// somewhere else.
Status SessionMerger::replace_theirs(const Job& job) {
  std::optional<Attributes> ours = WARREN_TRY(find(job.goal));
  bool is_directory = ours && ours->is_directory();
  bool is_other = !job.file.before && WARREN_TRY(is_another_file(job.goal));
  if (!is_directory && !is_other) return replace(job, job.goal);
  leave_out("it was left out");
  return Ok{};
}

Status SessionMerger::put_beside(const Job& job, const std::string& path, SessionConflict& conflict) {
  constexpr int kTries = 100;
  for (int number = 1; number <= kTries; ++number) {
    std::string beside = fmt::format("{}~{}{}", path, options_.second, number == 1 ? "" : fmt::format("-{}", number));
    if (split_parent(beside).name.size() > limits::kNameBytes) break;
    if (WARREN_TRY(find(beside))) continue;
    WARREN_TRY(copy_node(second_.merged, job.file.after->path, job.file.after->node, first_.merged, beside));
    forget();
    conflict.outcome = fmt::format("the version of {} is {}", quote(options_.second), quote(beside));
    conflict.has_second = true;
    return Ok{};
  }
  return Error(Code::kExists, fmt::format("there is no free name beside {} for the other version", quote(path)),
               "--conflict=first or --conflict=second takes one of both");
}

Status SessionMerger::take_metadata(const TreeChange& change, const std::string& path) {
  if (!change.is_metadata_changed || !change.after || !(change.seen || change.before)) return Ok{};
  std::optional<Attributes> ours = WARREN_TRY(find(path));
  if (!ours || (ours->mode & S_IFMT) != (change.after->mode & S_IFMT)) return Ok{};
  const Attributes& ancestor = change.seen ? *change.seen : *change.before;
  ThreeWay<std::uint32_t> mode = three_way(ancestor.mode & 07777, ours->mode & 07777, change.after->mode & 07777);
  ThreeWay<Owner> owner = three_way(ancestor.owner, ours->owner, change.after->owner);
  XattrPlan xattrs = WARREN_TRY(plan_xattrs(change, path));
  bool is_conflict = mode.is_conflict || owner.is_conflict || !xattrs.contested.empty();
  if (is_conflict && settle(path, "both changed its mode, owner or attributes") == Keep::kSecond) {
    mode.value = change.after->mode & 07777;
    owner.value = change.after->owner;
    xattrs.wanted.merge(xattrs.contested);
  }
  WARREN_TRY(write_xattrs(path, xattrs.wanted));
  AttributeChanges set;
  if (mode.value != (ours->mode & 07777) && !ours->is_symlink()) set.mode = mode.value;
  if (owner.value.uid != ours->owner.uid) set.uid = owner.value.uid;
  if (owner.value.gid != ours->owner.gid) set.gid = owner.value.gid;
  bool is_same = !set.mode && !set.uid && !set.gid;
  if (is_same) return Ok{};
  if (!change.is_content_changed) ++report_.taken;
  WARREN_TRY(set_attributes(first_.merged, path, set, Follow::kNo));
  forget();
  return Ok{};
}

Result<SessionMerger::XattrPlan> SessionMerger::plan_xattrs(const TreeChange& change, const std::string& path) {
  XattrMap before;
  if (change.before) before = WARREN_TRY(read_xattrs(second_.base, change.base_path));
  XattrMap after = WARREN_TRY(read_xattrs(second_.merged, change.path));
  XattrMap ours = WARREN_TRY(read_xattrs(first_.merged, path));
  std::set<std::string> names;
  for (const XattrMap* map : {&before, &after}) {
    for (const auto& [name, value] : *map) names.insert(name);
  }
  auto value_in = [](const XattrMap& map, const std::string& name) {
    auto found = map.find(name);
    return found == map.end() ? std::optional<std::string>() : std::optional(found->second);
  };
  XattrPlan plan;
  for (const std::string& name : names) {
    std::optional<std::string> here = value_in(ours, name);
    auto wanted = three_way(value_in(before, name), here, value_in(after, name));
    if (wanted.is_conflict) plan.contested.emplace(name, value_in(after, name));
    else if (wanted.value != here) plan.wanted.emplace(name, wanted.value);
  }
  return plan;
}

Status SessionMerger::write_xattrs(const std::string& path, const Xattrs& wanted) {
  for (const auto& [name, value] : wanted) {
    if (value) WARREN_TRY(set_xattr(first_.merged, path, name, as_bytes(*value), XattrMode::kAny, Follow::kNo));
    else WARREN_TRY(remove_xattr(first_.merged, path, name, Follow::kNo));
  }
  return Ok{};
}

}  // namespace warren
