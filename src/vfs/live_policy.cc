#include "vfs/live_policy.h"

#include <fmt/format.h>

#include "base/format_size.h"
#include "base/json.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

constexpr std::size_t kHistoryEntries = 1000;
constexpr std::uint64_t kHistoryBytes = std::uint64_t{64} << 20;
constexpr std::string_view kPolicyDirectory = "policy";

Error refuse_place(std::string_view path, std::string_view what) {
  return Error(Code::kCorrupt, fmt::format("{} is {}, so that others could write the policy", path, what),
               "the operator replaces it with `warren policy ID set FILE`");
}

// Without following links. kNotFound; kCorrupt unless it is a file with one name in a directory.
Result<Attributes> find_own_file(FileSystem& own, std::string_view path) {
  Attributes dir = WARREN_TRY(own.lookup(kRootInode, kPolicyDirectory));
  if (!dir.is_directory()) return refuse_place("/policy", "not a directory");
  Attributes file = WARREN_TRY(own.lookup(dir.inode, path.substr(kPolicyDirectory.size() + 2)));
  if (!file.is_file()) return refuse_place(path, file.is_symlink() ? "a symbolic link" : "not a file");
  if (file.nlink > 1) return refuse_place(path, "a file with several names");
  return file;
}

// Removes what is in the place of the directory or a file, but no directory with something in it.
Status clear_place(FileSystem& own, std::string_view path) {
  Result<Attributes> dir = own.lookup(kRootInode, kPolicyDirectory);
  if (dir.ok() && !dir->is_directory()) return own.unlink(kRootInode, kPolicyDirectory);
  Result<Attributes> file = find_own_file(own, path);
  if (file.ok() || file.error().code() != Code::kCorrupt) return Ok{};
  std::string_view name = path.substr(kPolicyDirectory.size() + 2);
  Attributes node = WARREN_TRY(own.lookup(dir->inode, name));
  return node.is_directory() ? own.remove_dir(dir->inode, name) : own.unlink(dir->inode, name);
}

// The history is ours, but another program may have written it: what is not a list is started anew.
Result<Json> read_history(FileSystem& own) {
  Result<std::string> text = LivePolicy::read(own, kPolicyHistory);
  if (!text.ok()) {
    if (text.error().code() == Code::kNotFound) return Json(Json::array());
    return std::move(text).take_error();
  }
  Result<Json> json = parse_json(*text);
  if (!json.ok() || !json->is_array()) return Json(Json::array());
  return json;
}

}  // namespace

Result<std::optional<LivePolicy::Stamp>> LivePolicy::look() {
  Result<Attributes> file = find_own_file(own_, kActivePolicy);
  if (file.ok()) {
    return std::optional(Stamp{.inode = file->inode, .size = file->size, .mtime = file->mtime, .ctime = file->ctime});
  }
  if (file.error().code() == Code::kNotFound) return std::optional<Stamp>();
  return std::move(file).take_error();
}

// The tree is never used under our lock: a unit that holds the tree's may be waiting for ours.
Result<LivePolicy::Current> LivePolicy::current() {
  std::optional<std::uint64_t> mark = own_.change_mark();
  if (mark) {
    std::lock_guard lock(mutex_);
    if (mark == mark_) return current_;
  }
  std::optional<Stamp> stamp = WARREN_TRY(look());
  bool is_new = !is_known(stamp);
  std::string text;
  if (is_new && stamp) text = WARREN_TRY(read(own_, kActivePolicy));
  bool is_unchanged = mark && own_.change_mark() == mark;
  std::uint64_t others = own_.others_mark();
  std::lock_guard lock(mutex_);
  if (others != others_) ++current_.decisions;
  others_ = others;
  if (is_new) take(stamp, stamp ? Policy::parse(text) : Policy());
  mark_.reset();
  if (problem_) return *problem_;
  if (is_unchanged) mark_ = mark;
  return current_;
}

bool LivePolicy::is_known(const std::optional<Stamp>& stamp) {
  std::lock_guard lock(mutex_);
  return is_loaded_ && stamp == stamp_;
}

void LivePolicy::take(const std::optional<Stamp>& stamp, Result<Policy> parsed) {
  stamp_ = stamp;
  if (!parsed.ok()) {
    if (!is_loaded_) {
      problem_ =
          Error(Code::kCorrupt, fmt::format("{} is not a valid policy: {}", kActivePolicy, parsed.error().message()),
                "the operator replaces it with `warren policy ID set FILE`");
    }
    return;
  }
  problem_.reset();
  is_loaded_ = true;
  current_ = {.policy = std::make_shared<const Policy>(std::move(parsed).take_value()),
              .generation = current_.generation + 1,
              .decisions = current_.decisions + 1};
}

void LivePolicy::names_changed() {
  std::lock_guard lock(mutex_);
  ++current_.decisions;
}

Status LivePolicy::replace(FileSystem& own, std::string_view text, std::string_view by, Clock& clock,
                           const std::optional<std::string>& expected) {
  WARREN_TRY(Policy::parse(text));
  std::unique_ptr<Unit> unit = WARREN_TRY(own.begin(UnitAccess::kWrite));
  for (std::string_view path : {kActivePolicy, kPolicyHistory}) WARREN_TRY(clear_place(own, path));
  if (expected) {
    Result<std::string> now = read(own, kActivePolicy);
    if (!now.ok() && now.error().code() != Code::kNotFound) return std::move(now).take_error();
    if ((now.ok() ? *now : "") != *expected) return Error(Code::kConflict, "the policy was changed meanwhile");
  }
  Json history = WARREN_TRY(read_history(own));
  Json policy = WARREN_TRY(parse_json(text));
  history.push_back({{"at", clock.now().seconds}, {"by", by}, {"policy", std::move(policy)}});
  while (history.size() > kHistoryEntries) history.erase(history.begin());
  WARREN_TRY(write_file(own, kActivePolicy, as_bytes(text)));
  WARREN_TRY(write_file(own, kPolicyHistory, as_bytes(dump_json_pretty(history) + "\n")));
  std::string in_force = WARREN_TRY(read(own, kActivePolicy));
  if (in_force != text) return Error(Code::kCorrupt, fmt::format("{} is not what was written", kActivePolicy));
  return unit->commit();
}

Result<std::string> LivePolicy::read(FileSystem& own, std::string_view path) {
  std::unique_ptr<Unit> unit = WARREN_TRY(own.begin(UnitAccess::kRead));
  Attributes file = WARREN_TRY(find_own_file(own, path));
  std::uint64_t most = path == kActivePolicy ? Policy::kBytesMax : kHistoryBytes;
  if (file.size > most) {
    return Error(Code::kTooLarge,
                 fmt::format("{} has {}, more than the limit of {}", path, format_size(file.size), format_size(most)));
  }
  std::string text(file.size, '\0');
  std::size_t length = WARREN_TRY(own.read(file.inode, 0, as_mutable_bytes(text)));
  text.resize(length);
  return text;
}

}  // namespace warren
