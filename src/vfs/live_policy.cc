#include "vfs/live_policy.h"

#include <fmt/format.h>

#include "base/json.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

constexpr std::size_t kHistoryEntries = 1000;

// The history is ours, but another program may have written it: what is not a list is started anew.
Result<Json> read_history(FileSystem& own) {
  Result<std::string> text = read_file(own, kPolicyHistory, {.size_bytes_max = std::uint64_t{64} << 20});
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
  Result<Attributes> dir = own_.lookup(kRootInode, "policy");
  Result<Attributes> file = dir.ok() ? own_.lookup(dir->inode, "active.json") : std::move(dir);
  if (file.ok()) {
    return std::optional(Stamp{.inode = file->inode, .size = file->size, .mtime = file->mtime, .ctime = file->ctime});
  }
  Code code = file.error().code();
  if (code == Code::kNotFound || code == Code::kNotDirectory) return std::optional<Stamp>();
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
  if (is_new && stamp) text = WARREN_TRY(read_file(own_, kActivePolicy, {.size_bytes_max = Policy::kBytesMax}));
  bool is_unchanged = mark && own_.change_mark() == mark;
  std::lock_guard lock(mutex_);
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
              .generation = current_.generation + 1};
}

Status LivePolicy::replace(FileSystem& own, std::string_view text, std::string_view by, Clock& clock,
                           const std::optional<std::string>& expected) {
  WARREN_TRY(Policy::parse(text));
  std::unique_ptr<Unit> unit = WARREN_TRY(own.begin(UnitAccess::kWrite));
  if (expected) {
    Result<std::string> now = read_file(own, kActivePolicy);
    if (!now.ok() && now.error().code() != Code::kNotFound) return std::move(now).take_error();
    if ((now.ok() ? *now : "") != *expected) return Error(Code::kConflict, "the policy was changed meanwhile");
  }
  Json history = WARREN_TRY(read_history(own));
  Json policy = WARREN_TRY(parse_json(text));
  history.push_back({{"at", clock.now().seconds}, {"by", by}, {"policy", std::move(policy)}});
  while (history.size() > kHistoryEntries) history.erase(history.begin());
  WARREN_TRY(write_file(own, kActivePolicy, as_bytes(text)));
  WARREN_TRY(write_file(own, kPolicyHistory, as_bytes(dump_json_pretty(history) + "\n")));
  return unit->commit();
}

}  // namespace warren
