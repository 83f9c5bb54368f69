#include "changes/pinned/git_rest.h"

#include <optional>
#include <thread>

#include <fmt/format.h>

#include "base/path.h"
#include "changes/git/git_refs.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

class RestLook {
 public:
  RestLook(FileSystem& fs, const std::string& dir, Clock& clock) : fs_(fs), dir_(dir), clock_(clock) {}

  // Differs whenever git has moved HEAD or its branch, or written the index.
  Result<std::string> describe() {
    std::string text;
    std::string name = "HEAD";
    for (int i = 0; i < kSymbolicLinksMax && !name.empty(); ++i) {
      std::string content = WARREN_TRY(read_small(name));
      text += fmt::format("{}\n{}\n", name, content);
      std::string_view target = find_symbolic_target(content).value_or("");
      name = branch_in(target).empty() ? std::string_view() : target;
    }
    for (const char* file : {"packed-refs", "index", "reftable/tables.list"}) {
      std::optional<Attributes> node = WARREN_TRY(find(file));
      if (node) {
        text += fmt::format("{} {} {} {}.{}\n", file, node->inode.value, node->size, node->mtime.seconds,
                            node->mtime.nanoseconds);
      }
    }
    return text;
  }

  Result<bool> is_at_rest() {
    std::optional<Attributes> index = WARREN_TRY(find("index"));
    if (index && is_younger(*index, limits::kGitIndexAge)) return false;
    std::optional<Attributes> lock = WARREN_TRY(find("index.lock"));
    return !lock || !is_younger(*lock, limits::kGitLockAge);
  }

  Result<bool> has_old_lock() {
    std::optional<Attributes> lock = WARREN_TRY(find("index.lock"));
    return lock && !is_younger(*lock, limits::kGitLockAge);
  }

 private:
  Result<std::optional<Attributes>> find(std::string_view name) {
    Result<Attributes> found = lstat(fs_, join_path(dir_, name));
    if (found.ok()) return std::optional(*found);
    Code code = found.error().code();
    if (code == Code::kNotFound || code == Code::kNotDirectory || code == Code::kStale)
      return std::optional<Attributes>();
    return std::move(found).take_error();
  }

  // "" for whatever cannot be read as a reference: `read` judges that.
  Result<std::string> read_small(std::string_view name) {
    std::optional<Attributes> node = WARREN_TRY(find(name));
    if (!node || !node->is_file() || node->size > limits::kGitRefBytes) return std::string();
    Result<std::string> text = read_file(fs_, join_path(dir_, name), {.size_bytes_max = limits::kGitRefBytes});
    return text.ok() ? *std::move(text) : std::string();
  }

  // False for a time in the future: the clock of another machine, which says nothing.
  bool is_younger(const Attributes& node, std::chrono::milliseconds age) {
    std::int64_t written_us = node.mtime.seconds * 1'000'000 + node.mtime.nanoseconds / 1000;
    std::int64_t passed_us = clock_.now_us() - written_us;
    return passed_us >= 0 && passed_us < std::chrono::microseconds(age).count();
  }

  FileSystem& fs_;
  const std::string& dir_;
  Clock& clock_;
};

}  // namespace

GitRest rest_with_pauses(Clock& clock) {
  return {clock, [] { std::this_thread::sleep_for(limits::kGitRestPause); }};
}

Status read_git_at_rest(FileSystem& fs, const std::string& dir, const GitRest& rest,
                        const std::function<Status()>& read) {
  RestLook look(fs, dir, rest.clock);
  for (int i = 0; i < limits::kGitRestTries; ++i) {
    if (i > 0) rest.pause();
    if (!WARREN_TRY(look.is_at_rest())) continue;
    std::string before = WARREN_TRY(look.describe());
    Status done = read();
    std::string after = WARREN_TRY(look.describe());
    bool is_still = before == after && WARREN_TRY(look.is_at_rest());
    if (is_still) return done;
  }
  return Error(Code::kBusy, "git is running in the base: HEAD and the index keep changing",
               "start again when the commands that run there have ended");
}

bool has_old_git_lock(FileSystem& fs, const std::string& dir, Clock& clock) {
  Result<bool> has_old = RestLook(fs, dir, clock).has_old_lock();
  return has_old.ok() && *has_old;
}

}  // namespace warren
