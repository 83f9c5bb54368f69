#include "vfs/guard_fs.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/no_wait.h"
#include "base/path.h"
#include "fs/expiry.h"
#include "fs/path_ops.h"
#include "vfs/grants.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

std::string_view describe_space(Space space) { return space == Space::kUser ? "the agent" : "kernel space"; }

// The two files that only the policy commands write: each change is checked as a whole.
bool is_checked_file(std::string_view path) { return path == kActivePolicy || path == kPolicyHistory; }

// To another agent, what is refused and what is missing are the same.
Error not_there(std::string_view path) { return Error(Code::kNotFound, fmt::format("{} does not exist", quote(path))); }

Error outside_root(const Caller& caller, std::string_view what) {
  return Error(Code::kDenied,
               fmt::format("{} is not allowed: only what is below {} may be used here", what, quote(caller.root)),
               fmt::format("Use a path below {}.", quote(caller.root)));
}

// Whether the path is a directory above the caller's root.
bool leads_to_root(const Caller& caller, std::string_view path) {
  return path == "/" || (caller.root.starts_with(path) && caller.root[path.size()] == '/');
}

// A refusal is an answer, and other errors are not.
Result<bool> is_allowed(Status checked) {
  if (checked.ok()) return true;
  Code code = checked.error().code();
  if (code == Code::kDenied || code == Code::kNotFound) return false;
  return std::move(checked).take_error();
}

// A place where Warren expects a directory or file of its own: what is meant for it must not go where a link says.
bool is_never_a_link(std::string_view path) { return is_standard_directory(path) || is_checked_file(path); }

}  // namespace

GuardFs::GuardFs(FileSystem& tree, LivePolicy& policy, Caller caller, Clock& clock)
    : ForwardingFs(tree), policy_(policy), caller_(std::move(caller)), clock_(clock) {}

// Passes notices on.
class GuardFs::Listener final : public ChangeListener {
 public:
  Listener(LivePolicy& policy, ChangeListener& outer) : policy_(policy), outer_(outer) { has_new_policy(); }

  void entry_changed(Inode parent, std::string_view name) override {
    if (has_new_policy()) outer_.everything_changed();
    else outer_.entry_changed(parent, name);
  }
  void node_changed(Inode node) override {
    if (has_new_policy()) outer_.everything_changed();
    else outer_.node_changed(node);
  }
  void everything_changed() override {
    has_new_policy();
    outer_.everything_changed();
  }

 private:
  // A policy that cannot be read counts as new: what was allowed before may not be.
  bool has_new_policy() {
    Result<LivePolicy::Current> now = policy_.current();
    std::uint64_t before = std::exchange(generation_, now.ok() ? now->generation : 0);
    return generation_ == 0 || generation_ != before;
  }

  LivePolicy& policy_;
  ChangeListener& outer_;
  std::uint64_t generation_ = 0;
};

GuardFs::~GuardFs() = default;

Status GuardFs::listen(ChangeListener* listener) {
  if (listener == nullptr) {
    Status stopped = inner().listen(nullptr);
    listener_.reset();
    return stopped;
  }
  auto next = std::make_unique<Listener>(policy_, *listener);
  WARREN_TRY(inner().listen(next.get()));
  listener_ = std::move(next);
  return Ok{};
}

// Judging.

Result<GuardFs::Current> GuardFs::check(Inode node, Rights::Operation operation) {
  Current now = WARREN_TRY(policy_.current());
  WARREN_TRY(check_node(now, node, operation));
  return now;
}

Result<GuardFs::Current> GuardFs::check_in(Inode dir, std::string_view name, Rights::Operation operation) {
  WARREN_TRY(check_name(name));
  std::string path = WARREN_TRY(table_.path_in(dir, name));
  Current now = WARREN_TRY(policy_.current());
  WARREN_TRY(refuse(*now.policy, path, operation));
  return now;
}

Result<bool> GuardFs::may(Rights::Operation operation, std::string_view path) {
  Current now = WARREN_TRY(policy_.current());
  return is_allowed(refuse(*now.policy, path, operation));
}

Status GuardFs::check_path(Rights::Operation operation, std::string_view path) {
  Current now = WARREN_TRY(policy_.current());
  return refuse(*now.policy, path, operation);
}

Result<bool> GuardFs::may_read(std::string_view path, OtherNames names) {
  bool may_by_name = WARREN_TRY(may(Rights::kRead, path));
  if (!may_by_name || names == OtherNames::kNo) return may_by_name;
  Result<Attributes> node = lstat(*this, path);
  if (!node.ok()) return is_allowed(std::move(node).take_error());
  Current now = WARREN_TRY(policy_.current());
  return is_allowed(check_node(now, node->inode, Rights::kRead));
}

Result<bool> GuardFs::has_rights(Inode node) {
  Current now = WARREN_TRY(policy_.current());
  Rights rights = WARREN_TRY(rights_of(now, node));
  return !rights.is_empty();
}

Status GuardFs::check_shown(std::string_view path) {
  if (!is_in_root(caller_, path) && !leads_to_root(caller_, path)) return outside_root(caller_, quote(path));
  if (!caller_.grants || path == "/" || caller_.grants->leads_through(path)) return Ok{};
  Current now = WARREN_TRY(policy_.current());
  if (!now.policy->rights(caller_, path).is_empty()) return Ok{};
  return not_there(path);
}

Status GuardFs::check_node(const Current& now, Inode node, Rights::Operation operation) {
  if (WARREN_TRY(rights_of(now, node)).has(operation)) return Ok{};
  std::vector<std::string> paths = WARREN_TRY(table_.paths_of(node));
  for (const std::string& path : paths) {
    Status judged = refuse(*now.policy, path, operation);
    // A hard link: what it is called elsewhere is none of the caller's business.
    bool is_other_name = paths.size() > 1 && !is_in_root(caller_, path);
    if (!judged.ok() && is_other_name) return outside_root(caller_, "a file with another name elsewhere");
    WARREN_TRY(std::move(judged));
  }
  if (caller_.grants) return not_there(paths.front());
  return Error(Code::kDenied, fmt::format("{} {} is not allowed", warren::name_of(operation), quote(paths.front())));
}

Result<Rights> GuardFs::rights_of(const Current& now, Inode node) {
  if (std::optional<Rights> known = table_.find_rights(node, now.decisions)) return *known;
  WARREN_TRY(learn_all_names(node));
  return table_.rights_of(node, now.decisions, [&](std::string_view path) {
    Rights rights = now.policy->rights(caller_, path);
    return is_checked_file(path) ? rights & Rights(Rights::kRead) : rights;
  });
}

// A file may have a name that nobody has used here, where another rule holds.
Status GuardFs::learn_all_names(Inode node) {
  Result<Attributes> now = inner().get_attributes(node);
  if (!now.ok() && now.error().code() == Code::kStale) return Ok{};
  if (!now.ok()) return std::move(now).take_error();
  if (now->is_directory() || (now->nlink <= 1 && table_.count_places(node) <= 1)) return Ok{};
  std::unique_ptr<Unit> unit = WARREN_TRY(inner().begin(UnitAccess::kRead));  // names and directories of one moment
  Result<std::vector<EntryName>> names = inner().list_names_of(node);
  if (!names.ok() && names.error().code() == Code::kUnsupported) return Ok{};
  if (!names.ok()) return std::move(names).take_error();
  for (const EntryName& name : *names) WARREN_TRY(learn_place(node, name));
  if (!names->empty()) table_.keep_only(node, *names);
  return Ok{};
}

Status GuardFs::learn_place(Inode node, EntryName place) {
  std::vector<std::pair<Inode, EntryName>> way{{node, std::move(place)}};  // from the node up
  while (way.back().second.parent != kRootInode) {
    Inode dir = way.back().second.parent;
    std::optional<EntryName> up = WARREN_TRY(find_place_of(dir));
    if (!up || way.size() > limits::kTreeDepth) {
      return Error(Code::kCorrupt, fmt::format("the directory of {} has no path", quote(way.front().second.name)),
                   "run `warren fsck`");
    }
    way.emplace_back(dir, std::move(*up));
  }
  for (auto found = way.rbegin(); found != way.rend(); ++found) {
    const auto& [learned_node, at] = *found;
    bool is_directory = learned_node != node;
    table_.learn(learned_node, at.parent, at.name, is_directory, !is_directory);
  }
  return Ok{};
}

// Where a directory is now: another door may have moved it.
Result<std::optional<EntryName>> GuardFs::find_place_of(Inode dir) {
  std::optional<EntryName> known = table_.find_place(dir);
  if (known) {
    Result<Attributes> there = inner().lookup(known->parent, known->name);
    if (there.ok() && there->inode == dir) return known;
  }
  std::vector<EntryName> names = WARREN_TRY(inner().list_names_of(dir));
  if (names.empty()) return std::optional<EntryName>();
  return std::optional(std::move(names.front()));
}

// Ok if it is allowed.
Status GuardFs::refuse(const Policy& policy, std::string_view path, Rights::Operation operation) const {
  return refuse(policy, caller_, path, operation);
}

Status GuardFs::refuse(const Policy& policy, const Caller& caller, std::string_view path, Rights::Operation operation) {
  bool is_protected = operation != Rights::kRead && is_checked_file(path);
  Verdict verdict = policy.judge(caller, operation, path);
  if (!is_protected && verdict.effect == Effect::kAllow) return Ok{};
  if (caller.grants) return not_there(path);
  std::string what = fmt::format("{} {}", warren::name_of(operation), quote(path));
  if (is_protected) {
    return Error(Code::kDenied, fmt::format("{} is not allowed: only `warren policy` changes it", what));
  }
  if (!is_in_root(caller, path)) return outside_root(caller, what);
  if (verdict.region) {
    return Error(Code::kDenied, fmt::format("{} is not allowed to {} in {}", what, describe_space(caller.space),
                                            warren::name_of(*verdict.region)));
  }
  if (!verdict.rule)
    return Error(Code::kDenied, fmt::format("{} is not allowed: no rule of the policy allows it", what));
  const Rule& rule = policy.rules()[*verdict.rule];
  return Error(Code::kDenied, fmt::format("{} is denied by rule {} of the policy (line {}){}{}", what,
                                          *verdict.rule + 1, rule.line, rule.reason.empty() ? "" : ": ", rule.reason));
}

Error GuardFs::refuse_link(std::string_view path) const {
  if (caller_.grants) return not_there(path);
  return Error(Code::kDenied,
               fmt::format("{} belongs to the namespace itself and cannot be a symbolic link", quote(path)));
}

// A change that is repeated, because this thread must not wait for a backend, counts once.
class GuardFs::Counted {
 public:
  explicit Counted(GuardFs* fs) : fs_(fs) {}
  Counted(Counted&& other) noexcept : fs_(std::exchange(other.fs_, nullptr)) {}
  Counted& operator=(Counted&&) = delete;
  ~Counted() {
    if (fs_ == nullptr || !NoWait::is_hit()) return;
    std::lock_guard lock(fs_->rate_mutex_);
    fs_->tokens_ += 1;
  }

 private:
  GuardFs* fs_;  // null: there is no limit
};

// A bucket that holds the changes of one second.
Result<GuardFs::Counted> GuardFs::count_change(const Policy& policy) {
  std::optional<std::uint64_t> limit = policy.limits().changes_per_second;
  if (!limit) return Counted(nullptr);
  std::lock_guard lock(rate_mutex_);
  auto rate = static_cast<double>(*limit);
  std::int64_t at = clock_.monotonic_ns();
  if (filled_at_ns_ == 0) tokens_ = rate;
  else tokens_ = std::min(rate, tokens_ + rate * static_cast<double>(at - filled_at_ns_) / 1e9);
  filled_at_ns_ = at;
  if (tokens_ < 1) {
    // EBUSY through a mount: EAGAIN would be better English, but some libraries take it as "nothing was written".
    return Error(Code::kBusy, fmt::format("the policy allows {} changes a second", *limit), "wait and try again");
  }
  tokens_ -= 1;
  return Counted(this);
}

Status GuardFs::check_size(const Policy& policy, std::uint64_t size) {
  std::optional<std::uint64_t> limit = policy.limits().file_bytes;
  if (!limit || size <= *limit) return Ok{};
  return Error(Code::kTooLarge, fmt::format("the policy allows files of at most {} bytes", *limit),
               "store less, or several smaller files");
}

Status GuardFs::check_value(Rights::Operation operation, std::string_view path, std::uint64_t size_bytes) {
  Current now = WARREN_TRY(policy_.current());
  Caller anywhere = caller_;
  anywhere.root.clear();
  WARREN_TRY(refuse(*now.policy, anywhere, path, operation));
  if (operation == Rights::kRead || operation == Rights::kList) return Ok{};
  WARREN_TRY(check_size(*now.policy, size_bytes));
  WARREN_TRY(count_change(*now.policy));
  return Ok{};
}

// Without them the operator's own commands fail. They stay where they are, whatever the policy says.
Status GuardFs::check_not_standard(std::string_view path) const {
  if (caller_.space == Space::kKernel || !is_standard_directory(path)) return Ok{};
  if (caller_.grants) return not_there(path);
  return Error(Code::kDenied, fmt::format("{} belongs to the namespace itself and stays", quote(path)),
               "Remove what is in it, one by one.");
}

Status GuardFs::check_moved_tree(const Policy& policy, std::string_view from, std::string_view to) {
  if (policy.below(from) == policy.below(to)) return Ok{};
  return Error(Code::kCrossDevice,
               fmt::format("{} and {} have different rules for what is below", quote(from), quote(to)));
}

// Renaming a file within one set of rules overwrites a name; anything else removes it here and creates it there.
// Copying and removing would do the same, but copying needs reading: a move must not make readable what was not.
Status GuardFs::check_file_moved(const Policy& policy, std::string_view from, std::string_view to) const {
  bool is_same = region_of(from) == region_of(to) && policy.rights(caller_, from) == policy.rights(caller_, to);
  WARREN_TRY(refuse(policy, from, is_same ? Rights::kOverwrite : Rights::kDelete));
  WARREN_TRY(refuse(policy, to, is_same ? Rights::kOverwrite : Rights::kCreate));
  constexpr Rights kLooking = Rights::kRead | Rights::kList;
  Rights gained = policy.rights(caller_, to).without(policy.rights(caller_, from)) & kLooking;
  if (gained.is_empty()) return Ok{};
  return Error(Code::kCrossDevice,
               fmt::format("{} cannot be read, but could be at {}; it is not moved there", quote(from), quote(to)));
}

// Of a node that moves to `to`. A file that expires is deleted later, so it belongs only where this caller may delete.
Status GuardFs::check_node_moved(const Policy& policy, const Attributes& node, std::string_view to) {
  if (node.is_symlink() && is_never_a_link(to)) return refuse_link(to);
  if (!node.is_file() || policy.rights(caller_, to).has(Rights::kDelete)) return Ok{};
  std::optional<std::int64_t> expiry = WARREN_TRY(find_expiry(inner(), node.inode));
  if (!expiry) return Ok{};
  return refuse(policy, to, Rights::kDelete).within("it has a time to live");
}

Result<Attributes> GuardFs::learned(Result<Attributes> made, Inode parent, std::string_view name) {
  if (made.ok()) table_.learn(*made, parent, name);
  return made;
}

// Names.

Result<Attributes> GuardFs::lookup(Inode parent, std::string_view name) {
  if (!sees_all()) {
    std::string path = WARREN_TRY(table_.path_in(parent, name));
    WARREN_TRY(check_shown(path));
  }
  return learned(inner().lookup(parent, name), parent, name);
}

Result<Attributes> GuardFs::make_node(Inode parent, std::string_view name, const NewNode& node) {
  Current now = WARREN_TRY(check_in(parent, name, Rights::kCreate));
  Counted counted = WARREN_TRY(count_change(*now.policy));
  return learned(inner().make_node(parent, name, node), parent, name);
}

Result<Attributes> GuardFs::make_dir(Inode parent, std::string_view name, const NewNode& node) {
  Current now = WARREN_TRY(check_in(parent, name, Rights::kCreate));
  Counted counted = WARREN_TRY(count_change(*now.policy));
  return learned(inner().make_dir(parent, name, node), parent, name);
}

Result<Attributes> GuardFs::make_symlink(Inode parent, std::string_view name, std::string_view target, Owner owner) {
  Current now = WARREN_TRY(check_in(parent, name, Rights::kCreate));
  std::string path = WARREN_TRY(table_.path_in(parent, name));
  if (is_never_a_link(path)) return refuse_link(path);
  Counted counted = WARREN_TRY(count_change(*now.policy));
  return learned(inner().make_symlink(parent, name, target, owner), parent, name);
}

Result<Attributes> GuardFs::create(Inode parent, std::string_view name, const NewNode& node) {
  Current now = WARREN_TRY(check_in(parent, name, Rights::kCreate));
  Counted counted = WARREN_TRY(count_change(*now.policy));
  Result<Attributes> made = learned(inner().create(parent, name, node), parent, name);
  if (made.ok()) table_.retain(made->inode);
  return made;
}

// The new name must have the same rights for everybody, or one name would open what the other one protects.
Result<Attributes> GuardFs::link(Inode node, Inode new_parent, std::string_view new_name) {
  Current now = WARREN_TRY(check_in(new_parent, new_name, Rights::kCreate));
  Counted counted = WARREN_TRY(count_change(*now.policy));
  std::string to = WARREN_TRY(table_.path_in(new_parent, new_name));
  WARREN_TRY(learn_all_names(node));
  std::vector<std::string> paths = WARREN_TRY(table_.paths_of(node));
  Caller other = caller_;
  other.space = caller_.space == Space::kUser ? Space::kKernel : Space::kUser;
  for (const std::string& from : paths) {
    if (region_of(from) == region_of(to) && now.policy->rights(caller_, from) == now.policy->rights(caller_, to) &&
        now.policy->rights(other, from) == now.policy->rights(other, to)) {
      continue;
    }
    return Error(Code::kCrossDevice, fmt::format("{} and {} have different rules", quote(from), quote(to)));
  }
  Result<Attributes> linked = learned(inner().link(node, new_parent, new_name), new_parent, new_name);
  if (linked.ok()) policy_.names_changed();
  return linked;
}

Status GuardFs::unlink(Inode parent, std::string_view name) {
  Current now = WARREN_TRY(check_in(parent, name, Rights::kDelete));
  Counted counted = WARREN_TRY(count_change(*now.policy));
  Result<Attributes> gone = inner().lookup(parent, name);
  WARREN_TRY(inner().unlink(parent, name));
  if (gone.ok()) table_.removed(gone->inode, parent, name);
  return Ok{};
}

Status GuardFs::remove_dir(Inode parent, std::string_view name) {
  Current now = WARREN_TRY(check_in(parent, name, Rights::kDelete));
  std::string path = WARREN_TRY(table_.path_in(parent, name));
  WARREN_TRY(check_not_standard(path));
  Counted counted = WARREN_TRY(count_change(*now.policy));
  return inner().remove_dir(parent, name);
}

Status GuardFs::rename(Inode parent, std::string_view name, Inode new_parent, std::string_view new_name,
                       RenameMode mode) {
  WARREN_TRY(check_name(name));
  WARREN_TRY(check_name(new_name));
  std::string from = WARREN_TRY(table_.path_in(parent, name));
  std::string to = WARREN_TRY(table_.path_in(new_parent, new_name));
  Current now = WARREN_TRY(policy_.current());
  const Policy& policy = *now.policy;
  WARREN_TRY(check_file_moved(policy, from, to));
  // What is judged must be what is moved.
  std::unique_ptr<Unit> unit = WARREN_TRY(inner().begin(UnitAccess::kWrite));
  Attributes moved = WARREN_TRY(inner().lookup(parent, name));
  Result<Attributes> replaced = inner().lookup(new_parent, new_name);
  if (!replaced.ok() && replaced.error().code() != Code::kNotFound) return std::move(replaced).take_error();
  WARREN_TRY(check_not_standard(from));
  if (moved.is_directory()) WARREN_TRY(check_moved_tree(policy, from, to));
  WARREN_TRY(check_node_moved(policy, moved, to));
  if (replaced.ok() && mode == RenameMode::kReplace) {
    // Whoever may append only must not lose a file under another one; a queue's writer may replace its own.
    bool is_queue = region_of(to) == Region::kOutbox || region_of(to) == Region::kInbox;
    WARREN_TRY(refuse(policy, to, is_queue ? Rights::kOverwrite : Rights::kDelete));
  }
  if (replaced.ok() && mode == RenameMode::kExchange) {
    WARREN_TRY(check_file_moved(policy, to, from));
    if (replaced->is_directory()) WARREN_TRY(check_moved_tree(policy, to, from));
    WARREN_TRY(check_node_moved(policy, *replaced, from));
  }
  Counted counted = WARREN_TRY(count_change(policy));
  WARREN_TRY(inner().rename(parent, name, new_parent, new_name, mode));
  WARREN_TRY(unit->commit());
  table_.moved(moved.inode, parent, name, new_parent, new_name);
  if (replaced.ok() && mode == RenameMode::kExchange) {
    table_.moved(replaced->inode, new_parent, new_name, parent, name);
  }
  policy_.names_changed();
  return Ok{};
}

// Every page is judged: a policy holds for directories that are open. Entries that come with a number can be used
// without a lookup.
class GuardFs::Stream final : public DirStream {
 public:
  Stream(GuardFs& guard, Inode dir, std::unique_ptr<DirStream> inner)
      : guard_(guard), table_(guard.table_), dir_(dir), inner_(std::move(inner)) {}

  Result<std::vector<DirEntry>> read(std::uint64_t cookie, std::size_t max, DirDetail detail) override {
    WARREN_TRY(guard_.check(dir_, Rights::kList));
    std::vector<DirEntry> page = WARREN_TRY(inner_->read(cookie, max, detail));
    while (guard_.caller_.grants && !page.empty()) {
      std::uint64_t next = page.back().cookie;
      WARREN_TRY(drop_hidden(page));
      if (!page.empty()) break;  // an empty page would mean the end
      page = WARREN_TRY(inner_->read(next, max, detail));
    }
    for (const DirEntry& entry : page) {
      if (entry.attributes) table_.learn(*entry.attributes, dir_, entry.name);
      else if (entry.inode.value != 0) table_.learn(entry.inode, dir_, entry.name, S_ISDIR(entry.type), true);
    }
    return page;
  }

 private:
  Status drop_hidden(std::vector<DirEntry>& page) {
    std::vector<DirEntry> shown;
    for (DirEntry& entry : page) {
      std::string path = WARREN_TRY(table_.path_in(dir_, entry.name));
      if (guard_.check_shown(path).ok()) shown.push_back(std::move(entry));
    }
    page = std::move(shown);
    return Ok{};
  }

  GuardFs& guard_;
  PathTable& table_;
  Inode dir_;
  std::unique_ptr<DirStream> inner_;
};

Result<std::unique_ptr<DirStream>> GuardFs::open_dir(Inode dir) {
  WARREN_TRY(check(dir, Rights::kList));
  std::unique_ptr<DirStream> stream = WARREN_TRY(inner().open_dir(dir));
  return std::unique_ptr<DirStream>(new Stream(*this, dir, std::move(stream)));
}

// Nodes.

Result<Attributes> GuardFs::get_attributes(Inode node) {
  if (!sees_all()) {
    std::vector<std::string> paths = WARREN_TRY(table_.paths_of(node));
    for (const std::string& path : paths) WARREN_TRY(check_shown(path));
  }
  return inner().get_attributes(node);
}

Result<Attributes> GuardFs::set_attributes(Inode node, const AttributeChanges& changes) {
  Current now = WARREN_TRY(check(node, Rights::kOverwrite));
  Counted counted = WARREN_TRY(count_change(*now.policy));
  if (changes.size) WARREN_TRY(check_size(*now.policy, *changes.size));
  return inner().set_attributes(node, changes);
}

Result<std::string> GuardFs::read_link(Inode node) {
  WARREN_TRY(check(node, Rights::kRead));
  std::vector<std::string> paths = WARREN_TRY(table_.paths_of(node));
  for (const std::string& path : paths) {
    if (is_never_a_link(path)) return refuse_link(path);
  }
  return inner().read_link(node);
}

Status GuardFs::retain(Inode node) {
  WARREN_TRY(inner().retain(node));
  table_.retain(node);
  return Ok{};
}

void GuardFs::forget(Inode node, std::uint64_t count) {
  table_.forget(node, count);
  inner().forget(node, count);
}

Result<Attributes> GuardFs::open(Inode node) {
  Result<Attributes> opened = inner().open(node);
  if (opened.ok()) table_.retain(node);
  return opened;
}

void GuardFs::release(Inode node) {
  table_.forget(node, 1);
  inner().release(node);
}

// Content.

Result<std::size_t> GuardFs::read(Inode node, std::uint64_t offset, MutableBytes out) {
  WARREN_TRY(check(node, Rights::kRead));
  return inner().read(node, offset, out);
}

Status GuardFs::write(Inode node, std::uint64_t offset, Bytes data) {
  Current now = WARREN_TRY(policy_.current());
  Rights rights = WARREN_TRY(rights_of(now, node));
  if (!rights.has(Rights::kOverwrite) && !rights.has(Rights::kAppend)) {
    return check_node(now, node, Rights::kOverwrite);
  }
  Counted counted = WARREN_TRY(count_change(*now.policy));
  WARREN_TRY(check_size(*now.policy, offset + data.size()));
  if (rights.has(Rights::kOverwrite)) return inner().write(node, offset, data);
  std::unique_ptr<Unit> unit = WARREN_TRY(inner().begin(UnitAccess::kWrite));
  if (WARREN_TRY(inner().get_attributes(node)).size != offset) return check_node(now, node, Rights::kOverwrite);
  WARREN_TRY(inner().write(node, offset, data));
  return unit->commit();
}

Result<std::uint64_t> GuardFs::append(Inode node, Bytes data) {
  Current now = WARREN_TRY(check(node, Rights::kAppend));
  Counted counted = WARREN_TRY(count_change(*now.policy));
  if (!now.policy->limits().file_bytes) return inner().append(node, data);
  std::unique_ptr<Unit> unit = WARREN_TRY(inner().begin(UnitAccess::kWrite));
  std::uint64_t size = WARREN_TRY(inner().get_attributes(node))
  .size;
  WARREN_TRY(check_size(*now.policy, size + data.size()));
  std::uint64_t offset = WARREN_TRY(inner().append(node, data));
  WARREN_TRY(unit->commit());
  return offset;
}

Status GuardFs::allocate(Inode node, AllocateMode mode, std::uint64_t offset, std::uint64_t length) {
  Current now = WARREN_TRY(check(node, Rights::kOverwrite));
  Counted counted = WARREN_TRY(count_change(*now.policy));
  if (mode == AllocateMode::kAllocate || mode == AllocateMode::kZeroRange)
    WARREN_TRY(check_size(*now.policy, offset + length));
  return inner().allocate(node, mode, offset, length);
}

Result<std::uint64_t> GuardFs::seek_data(Inode node, std::uint64_t offset) {
  WARREN_TRY(check(node, Rights::kRead));
  return inner().seek_data(node, offset);
}

Result<std::uint64_t> GuardFs::seek_hole(Inode node, std::uint64_t offset) {
  WARREN_TRY(check(node, Rights::kRead));
  return inner().seek_hole(node, offset);
}

Result<std::uint64_t> GuardFs::copy_range(Inode from, std::uint64_t from_offset, Inode to, std::uint64_t to_offset,
                                          std::uint64_t length) {
  WARREN_TRY(check(from, Rights::kRead));
  Current now = WARREN_TRY(policy_.current());
  Rights rights = WARREN_TRY(rights_of(now, to));
  if (!rights.has(Rights::kAppend)) WARREN_TRY(check_node(now, to, Rights::kOverwrite));
  Counted counted = WARREN_TRY(count_change(*now.policy));
  WARREN_TRY(check_size(*now.policy, to_offset + length));
  if (rights.has(Rights::kOverwrite)) return inner().copy_range(from, from_offset, to, to_offset, length);
  std::unique_ptr<Unit> unit = WARREN_TRY(inner().begin(UnitAccess::kWrite));
  bool is_at_end = WARREN_TRY(inner().get_attributes(to))
  .size == to_offset;
  if (!is_at_end) WARREN_TRY(check_node(now, to, Rights::kOverwrite));
  std::uint64_t copied = WARREN_TRY(inner().copy_range(from, from_offset, to, to_offset, length));
  WARREN_TRY(unit->commit());
  return copied;
}

Result<std::string> GuardFs::get_xattr(Inode node, std::string_view name) {
  WARREN_TRY(check(node, Rights::kRead));
  return inner().get_xattr(node, name);
}

Result<std::vector<std::string>> GuardFs::list_xattrs(Inode node) {
  WARREN_TRY(check(node, Rights::kRead));
  return inner().list_xattrs(node);
}

Status GuardFs::set_xattr(Inode node, std::string_view name, Bytes value, XattrMode mode) {
  Current now = WARREN_TRY(check(node, Rights::kOverwrite));
  if (name == kExpiryXattr) WARREN_TRY(check_node(now, node, Rights::kDelete).within("set a time to live"));
  Counted counted = WARREN_TRY(count_change(*now.policy));
  return inner().set_xattr(node, name, value, mode);
}

Status GuardFs::remove_xattr(Inode node, std::string_view name) {
  Current now = WARREN_TRY(check(node, Rights::kOverwrite));
  Counted counted = WARREN_TRY(count_change(*now.policy));
  return inner().remove_xattr(node, name);
}

}  // namespace warren
