#include "changes/pinned/frozen_tree.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include <sys/statvfs.h>

#include <fmt/format.h>

#include "base/binary.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/side_change.h"
#include "changes/compare.h"
#include "changes/git/git.h"
#include "changes/pinned/head_versions.h"
#include "changes/pinned/pinned_git.h"
#include "changes/upper/upper_edit.h"
#include "fs/host/host_fs.h"
#include "fs/list_dir.h"
#include "fs/path_ops.h"
#include "os/error.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::uint64_t kRoomForAgent = std::uint64_t{1} << 20;  // on a disk that is nearly full
constexpr std::uint32_t kDirMode = S_IFDIR | 0755U;

// Numbers of nodes that the base does not have: the same for the same version, and unlike the host's.
Inode number_for(std::string_view path, std::string_view id) {
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (std::string_view part : {path, id}) {
    for (char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  }
  return Inode{kBaseBit | kFrozenBit | (hash & (kFrozenBit - 1))};
}

// The versions as git writes them to a work tree, in a temporary directory.
class VersionSource {
 public:
  static Result<std::unique_ptr<VersionSource>> check_out(const std::string& base, const std::string& commit,
                                                          HeadVersions& versions) {
    ScratchDir scratch = WARREN_TRY(ScratchDir::make("frozen"));
    std::string work = scratch.path() + "/work";
    WARREN_TRY(make_host_dirs(work, 0700));
    Git git(base);
    git.set_limit(limits::kFreezeTime);
    std::string git_dir = WARREN_TRY(git.ask({"rev-parse", "--absolute-git-dir"}));
    WARREN_TRY(git.use(git_dir, work, scratch.path() + "/index"));
    // For its attributes. Only what the base itself has is written: what the agent has committed is in the upper layer.
    WARREN_TRY(git.ask({"read-tree", commit}));
    std::string entries;
    std::string names;
    for (const auto& [path, version] : versions) {
      if (!version.is_file()) continue;
      entries += fmt::format("{} {}\t{}", version.mode, version.id, path.substr(1)) + '\0';
      names += path.substr(1) + '\0';
    }
    WARREN_TRY(git.ask_with({"update-index", "-z", "--index-info"}, entries));
    Result<std::string> written = git.ask_with({"checkout-index", "-q", "-u", "-z", "--stdin"}, names);
    if (!written.ok()) WARREN_TRY(leave_out_unwritten(git, versions));
    std::unique_ptr<HostFs> files = WARREN_TRY(HostFs::open(work));
    return std::unique_ptr<VersionSource>(new VersionSource(std::move(scratch), std::move(files)));
  }

  FileSystem& files() { return *files_; }

 private:
  // What git could not write, or not as a whole, because a filter failed or the disk is full, shows as the base has it.
  static Status leave_out_unwritten(Git& git, HeadVersions& versions) {
    std::string listed = WARREN_TRY(git.ask({"diff-files", "-z", "--name-only", "--no-renames"}));
    for (const std::string& name : split_at_nul(listed)) versions.erase("/" + name);
    return Ok{};
  }

  VersionSource(ScratchDir scratch, std::unique_ptr<HostFs> files)
      : scratch_(std::move(scratch)), files_(std::move(files)) {}

  ScratchDir scratch_;
  std::unique_ptr<HostFs> files_;
};

// Writes the copies, in one write unit.
class Freezer {
 public:
  Freezer(Agent& agent, const AgentOverlay& overlay, const PinnedGit& pinned, const HeadVersions& versions,
          FileSystem* source)
      : file_(agent.path()),
        overlay_(overlay),
        pinned_(pinned),
        versions_(versions),
        source_(source),
        in_use_(find_use(agent)),
        base_(overlay.base) {}

  Result<bool> run() {
    UpperTree tree = WARREN_TRY(UpperTree::read(overlay_, base_));
    UpperEdit edit(overlay_, tree, base_);
    tree_ = &tree;
    edit_ = &edit;
    WARREN_TRY(check_room());
    owner_ = tree.find("/")->there->owner;
    WARREN_TRY(thaw());
    WARREN_TRY(list_hidden_dirs());
    for (const auto& [place, version] : versions_) {
      bool is_shown = is_free(place) && !is_at_or_below_one(place, hidden_dirs_);
      if (is_shown) WARREN_TRY(version.is_file() ? show(place, version) : hide(place));
      else WARREN_TRY(note_lost(place));
    }
    for (const std::string& dir : hidden_dirs_) WARREN_TRY(hide(dir));
    if (has_changed_) WARREN_TRY(edit.tidy(in_use_));
    return has_changed_;
  }

 private:
  // Before the first is written: what a full disk interrupts leaves a long log behind, and no room for the agent.
  Status check_room() const {
    std::uint64_t bytes = kRoomForAgent;
    for (const auto& [place, version] : versions_) {
      // To the log and to the file, and of smaller ones also the merge base.
      std::uint64_t times = version.bytes > limits::kAncestorBytes ? 2 : 4;
      if (version.is_file() && is_free(place)) bytes += times * version.bytes;
    }
    struct statvfs disk {};
    if (::statvfs(file_.c_str(), &disk) != 0) return system_error(errno, "measure the free disk space");
    if (bytes <= std::uint64_t{disk.f_bavail} * disk.f_frsize) return Ok{};
    return Error(Code::kNoSpace, fmt::format("that needs {} MiB on the disk of the session", (bytes >> 20) + 1));
  }

  // Whether the session shows what the base has there.
  bool is_free(const std::string& place) const {
    return !tree_->is_gone(place) && !is_moved(place) && !edit_->has(tree_->path_of(place));
  }

  // The base has that version again: it shows.
  Status thaw() {
    for (const UpperNode& node : tree_->nodes()) {
      bool is_over = node.is_untouched() && tree_->is_frozen(node) && !versions_.contains(node.place);
      if (!is_over || WARREN_TRY(may_stay(node))) continue;
      WARREN_TRY(edit_->remove(node.path));
      has_changed_ = true;
    }
    for (const UpperGap& gap : tree_->gaps()) {
      bool is_needed = !tree_->is_only_hidden(gap) || (gap.there && gap.there->is_directory());
      if (is_needed || versions_.contains(gap.place)) continue;
      WARREN_TRY(edit_->remove_whiteout(gap.path));
      has_changed_ = true;
    }
    return Ok{};
  }

  // A program may have it open, and the base has the same.
  Result<bool> may_stay(const UpperNode& node) {
    if (in_use_ == InUse::kNo || !node.node.is_file()) return false;
    std::optional<Attributes> there = WARREN_TRY(base_.find(node.place));
    if (!there || !there->is_file() || there->size != node.node.size) return false;
    return has_same_content(overlay_.upper.fs(), node.node, overlay_.base, *there);
  }

  // Whether the agent has renamed it, or removed it, whatever the base has done since.
  bool is_moved(std::string_view place) const {
    for (const auto& [from, to] : tree_->moves().all()) {
      if (is_at_or_below(place, from) || is_at_or_below(place, to)) return true;
    }
    for (std::string path = tree_->path_of(place); path != "/"; path = split_parent(path).parent) {
      if (tree_->find_whiteout(path) != nullptr) return true;
    }
    return false;
  }

  // The agent has changed a file that the base has no longer. If the agent removes it, too, it must not show again.
  Status note_lost(const std::string& place) {
    const UpperNode* node = tree_->find(tree_->path_of(place));
    bool is_own = node != nullptr && !node->there && node->origin != nullptr && node->origin->seen &&
                  node->origin->base_path == place && !tree_->covers().contains(place);
    if (!is_own) return Ok{};
    WARREN_TRY(overlay_.upper.put_cover({.base_path = place, .seen = node->origin->seen, .at = {}}));
    has_changed_ = true;
    return Ok{};
  }

  // Directories of the base in which everything is to be hidden.
  Status list_hidden_dirs() {
    std::unordered_set<std::string> looked_at;
    for (const auto& [place, version] : versions_) {  // the session has files there, which the base has moved away
      std::string_view at = split_parent(place).parent;
      for (; version.is_file() && at != "/"; at = split_parent(at).parent) looked_at.emplace(at);
    }
    for (const auto& [place, version] : versions_) {
      if (version.is_file() || is_at_or_below_one(place, hidden_dirs_)) continue;
      std::vector<std::string> above;
      for (std::string_view at = split_parent(place).parent; at != "/"; at = split_parent(at).parent)
        above.emplace_back(at);
      for (auto dir = above.rbegin(); dir != above.rend(); ++dir) {
        if (!looked_at.insert(*dir).second || tree_->find(tree_->path_of(*dir)) != nullptr) continue;
        if (!WARREN_TRY(has_only_new(*dir))) continue;
        hidden_dirs_.insert(*dir);
        break;
      }
    }
    return Ok{};
  }

  Result<bool> has_only_new(const std::string& dir) {
    std::vector<std::string> pending{dir};
    while (!pending.empty()) {
      std::string place = std::move(pending.back());
      pending.pop_back();
      std::optional<Attributes> node = WARREN_TRY(base_.find(place));
      if (!node || !node->is_directory()) return false;
      Result<std::vector<DirEntry>> entries = list_dir(overlay_.base, node->inode, DirDetail::kTypes);
      if (!entries.ok() || entries->empty()) return false;
      for (const DirEntry& entry : *entries) {
        std::string path = join_path(place, entry.name);
        auto version = versions_.find(path);
        bool is_new = version != versions_.end() && !version->second.is_file();
        if (!S_ISDIR(entry.type) && !is_new) return false;
        if (S_ISDIR(entry.type)) pending.push_back(std::move(path));
      }
    }
    return true;
  }

  Status hide(const std::string& place) {
    std::optional<Attributes> there = WARREN_TRY(base_.find(place));
    std::string path = tree_->path_of(place);
    if (!there || tree_->is_gone(place) || is_moved(place) || edit_->has(path)) return Ok{};
    WARREN_TRY(edit_->add_whiteout(path, place, *there));
    WARREN_TRY(overlay_.upper.put_cover({.base_path = place, .seen = {}, .at = {}}));
    has_changed_ = true;
    return Ok{};
  }

  Status show(const std::string& place, const HeadVersion& version) {
    Result<Attributes> written = lstat(*source_, place);
    if (!written.ok()) return Ok{};
    std::string target;
    if (written->is_symlink()) target = WARREN_TRY(read_link(*source_, place));
    else if (!written->is_file()) return Ok{};
    std::string path = tree_->path_of(place);
    if (!WARREN_TRY(make_dir(split_parent(path).parent, split_parent(place).parent))) return Ok{};
    std::optional<Attributes> there = WARREN_TRY(base_.find(place));
    Attributes as = attributes_of(place, version, *written, there);
    if (written->is_symlink()) as.size = target.size();
    Inode made = WARREN_TRY(edit_->adopt(path, place, as, target));
    if (as.is_file()) WARREN_TRY(copy_content(place, made, as.size));
    WARREN_TRY(overlay_.upper.restore(made, as));
    WARREN_TRY(overlay_.upper.put_cover({.base_path = place, .seen = as, .at = {}}));
    has_changed_ = true;
    return Ok{};
  }

  Attributes attributes_of(const std::string& place, const HeadVersion& version, const Attributes& written,
                           const std::optional<Attributes>& there) const {
    Attributes as;
    as.inode = number_for(place, version.id);
    as.mode = written.mode;
    as.owner = there ? there->owner : owner_;
    if (there && there->is_file() && written.is_file()) {  // git records only whether it is a program
      std::uint32_t programs = written.mode & 0111U;
      as.mode = programs == 0 ? there->mode & ~0111U : there->mode | ((there->mode & 0444U) >> 2);
    }
    as.nlink = 1;
    as.size = written.size;
    as.atime = as.mtime = as.ctime = pinned_.made;
    return as;
  }

  Status copy_content(const std::string& place, Inode made, std::uint64_t size) {
    std::string ancestor;
    bool is_kept = size <= limits::kAncestorBytes;
    std::string part;
    for (std::uint64_t at = 0; at < size; at += part.size()) {
      part.resize(static_cast<std::size_t>(std::min<std::uint64_t>(limits::kCopyBytes, size - at)));
      part.resize(WARREN_TRY(read_at(*source_, place, at, as_mutable_bytes(part))));
      if (part.empty()) return Error(Code::kIo, quote(place) + " could not be read");
      WARREN_TRY(overlay_.upper.fs().write(made, at, as_bytes(part)));
      if (is_kept) ancestor += part;
    }
    is_kept = is_kept && !is_binary(ancestor);
    return is_kept ? overlay_.upper.keep_ancestor(made, as_bytes(ancestor)) : Status(Ok{});
  }

  // The upper layer's directory that shows the base's `place`, also if the base does not have it any more. False if it
  // shows something else.
  Result<bool> make_dir(std::string_view path, std::string_view place) {
    if (const UpperNode* node = tree_->find(path)) {
      if (!node->node.is_directory() || node->base_path != place) return false;
      return keep_dir(*node, std::string(place));
    }
    if (edit_->has(path)) return true;
    if (tree_->is_gone(place)) return false;
    if (!WARREN_TRY(make_dir(split_parent(path).parent, split_parent(place).parent))) return false;
    std::optional<Attributes> there = WARREN_TRY(base_.find(place));
    if (there && !there->is_directory()) return false;
    if (there) {
      WARREN_TRY(edit_->make_dir(path, place));
      return true;
    }
    Attributes as;
    as.inode = number_for(place, "");
    as.mode = kDirMode;
    as.owner = owner_;
    as.nlink = 2;
    as.atime = as.mtime = as.ctime = pinned_.made;
    Inode made = WARREN_TRY(edit_->adopt(path, place, as, ""));
    WARREN_TRY(overlay_.upper.restore(made, as));
    WARREN_TRY(overlay_.upper.put_cover({.base_path = std::string(place), .seen = as, .at = {}}));
    return true;
  }

  // A directory of the upper layer that the base no longer has: if the agent removes it, it stays removed.
  Result<bool> keep_dir(const UpperNode& node, const std::string& place) {
    bool has_record = node.origin != nullptr && node.origin->seen;
    if (!has_record || tree_->covers().contains(place) || WARREN_TRY(base_.find(place))) return true;
    WARREN_TRY(overlay_.upper.put_cover({.base_path = place, .seen = node.origin->seen, .at = {}}));
    has_changed_ = true;
    return true;
  }

  std::string file_;  // of the agent
  const AgentOverlay& overlay_;
  const PinnedGit& pinned_;
  const HeadVersions& versions_;
  FileSystem* source_;  // null if no version is a file
  InUse in_use_;
  TreeFinder base_;
  Owner owner_;
  const UpperTree* tree_ = nullptr;
  UpperEdit* edit_ = nullptr;
  std::set<std::string, std::less<>> hidden_dirs_;
  bool has_changed_ = false;
};

Result<Frozen> freeze_files(Agent& agent, const AgentOverlay& overlay, const PinnedGit& pinned) {
  std::optional<HeadVersions> versions = WARREN_TRY(find_head_versions(overlay, pinned));
  if (!versions) return Frozen::kTooMuch;
  bool has_files =
      std::any_of(versions->begin(), versions->end(), [](const auto& one) { return one.second.is_file(); });
  std::unique_ptr<VersionSource> source;
  if (has_files) {
    source = WARREN_TRY(VersionSource::check_out(overlay.base_path, pinned.head, *versions));
  }
  auto unit = WARREN_TRY(overlay.upper.begin(UnitAccess::kWrite));
  Freezer freezer(agent, overlay, pinned, *versions, source ? &source->files() : nullptr);
  bool has_changed = WARREN_TRY(freezer.run());
  if (!has_changed) return Frozen::kAsBefore;
  WARREN_TRY(unit->commit());
  return Frozen::kChanged;
}

}  // namespace

Result<Frozen> freeze_work_tree(Agent& agent) {
  SideChange not_by_the_agent;
  std::optional<AgentOverlay> overlay = agent.overlay();
  if (!overlay || agent.is_read_only()) return Frozen::kAsBefore;
  std::optional<PinnedGit> pinned = WARREN_TRY(find_pinned_git(*overlay));
  if (!pinned) return Frozen::kAsBefore;
  bool has_shown = WARREN_TRY(show_base_objects(*overlay));
  Frozen frozen = WARREN_TRY(freeze_files(agent, *overlay, *pinned));
  return has_shown && frozen == Frozen::kAsBefore ? Frozen::kChanged : frozen;
}

std::string describe_unfrozen(const Result<Frozen>& frozen) {
  constexpr std::string_view kShows = "the session shows what was committed in the project since its start";
  if (!frozen.ok()) return fmt::format("{}: {}", kShows, frozen.error().message());
  if (*frozen != Frozen::kTooMuch) return "";
  return fmt::format(
      "{}: that is more than {} files or {} MiB; `warren discard` restarts the session from the current state of the "
      "project",
      kShows, limits::kFrozenPaths, limits::kFrozenBytes >> 20);
}

Status freeze_served(const std::string& agent_path, Clock& clock) {
  auto agent = WARREN_TRY(Agent::open({.id_or_path = agent_path}, clock));
  if (find_use(*agent) == InUse::kYes) WARREN_TRY(freeze_work_tree(*agent));
  return agent->close();
}

}  // namespace warren
