#include "relay/upkeep/sweeper.h"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/files/dir_reader.h"
#include "os/files/host_tree.h"
#include "relay/protocol/names.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kDaySeconds = 86'400;
constexpr std::int64_t kLeftoverSeconds = 3600;
constexpr std::int64_t kRemovedSeconds = 7 * kDaySeconds;  // of agents: somebody may want to put one back
constexpr std::string_view kSwept = "swept-";              // prefix in tmp/ of a day that is being removed
constexpr int kDirectory = O_RDONLY | O_DIRECTORY;

// Calls visit(name) for each name while reading the directory, since there may be a million. False from visit stops.
template <class Visit>
Status each_name(int dir, Visit visit) {
  DirReader reader = WARREN_TRY(DirReader::open(dir));
  while (const DirReader::Entry* entry = WARREN_TRY(reader.next())) {
    if (!WARREN_TRY(visit(std::string(entry->name)))) break;
  }
  return Ok{};
}

bool is_date(std::string_view name) {
  constexpr std::string_view kShape = "dddd-dd-dd";
  auto fits = [](char shape, char c) { return shape == 'd' ? c >= '0' && c <= '9' : c == shape; };
  return name.size() == kShape.size() && std::equal(kShape.begin(), kShape.end(), name.begin(), fits);
}

Result<std::vector<std::string>> list_names(int dir) {
  std::vector<std::string> names;
  WARREN_TRY(each_name(dir, [&](std::string name) -> Result<bool> {
    names.push_back(std::move(name));
    return true;
  }));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string date_before(Clock& clock, int days) {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(clock.now().seconds - days * kDaySeconds));
}

Result<std::uint64_t> Sweeper::remove_leftovers() {
  std::uint64_t removed = 0;
  Fd tmp = WARREN_TRY(open_below(root_.dir(), "tmp", kDirectory));
  std::vector<std::string> names = WARREN_TRY(list_names(tmp.get()));
  auto tree = WARREN_TRY(HostTree::open(root_.path() + "/tmp"));
  for (const std::string& name : names) {
    if (name == "deliveries") continue;
    struct stat info {};
    if (::fstatat(tmp.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    bool is_swept = name.starts_with(kSwept) && S_ISDIR(info.st_mode);
    std::int64_t keep_seconds = name.starts_with(kRemovedPrefix) ? kRemovedSeconds : kLeftoverSeconds;
    if (!is_swept && info.st_mtim.tv_sec > clock_.now().seconds - keep_seconds) continue;
    if (is_swept) WARREN_TRY(remove_swept(name));
    else WARREN_TRY(tree->remove_tree("/" + name));
    ++removed;
    if (!may_go_on_()) break;
  }
  return removed;
}

Result<std::uint64_t> Sweeper::sweep_archive(const std::string& date, const std::function<bool()>& is_enough) {
  std::uint64_t removed = 0;
  std::vector<std::string> days = WARREN_TRY(list_names(root_.archive()));
  for (const std::string& day : days) {
    if (!is_date(day) || day >= date) continue;
    if (is_enough() || !may_go_on_()) break;
    removed += WARREN_TRY(sweep_day(day));
  }
  return removed;
}

// A finished message stays finished, so a file that was not needed when checked is not needed when removed.
Result<std::uint64_t> Sweeper::sweep_day(const std::string& date) {
  Result<Fd> day = open_below(root_.archive(), date, kDirectory);
  if (!day.ok()) return 0;  // a file or a link: not ours
  if (WARREN_TRY(ledger_.has_needed_below("archive/" + date))) {
    std::uint64_t removed = WARREN_TRY(sweep_unneeded(day->get()));
    return removed;
  }
  Fd tmp = WARREN_TRY(open_below(root_.dir(), "tmp", kDirectory));
  std::string aside = fmt::format("{}{}-{}", kSwept, date, clock_.monotonic_ns());
  if (::renameat(root_.archive(), date.c_str(), tmp.get(), aside.c_str()) != 0) {
    return system_error(errno, fmt::format("move {} out of the archive", quote(date)));
  }
  return remove_swept(aside);
}

// Some of the day's files are needed: removes only the others.
Result<std::uint64_t> Sweeper::sweep_unneeded(int day) {
  std::uint64_t removed = 0;
  std::vector<std::string> agents = WARREN_TRY(list_names(day));
  for (const std::string& agent : agents) {
    Result<Fd> dir = open_below(day, agent, kDirectory);
    if (!dir.ok()) continue;
    bool goes_on = true;
    WARREN_TRY(each_name(dir->get(), [&](std::string name) -> Result<bool> {
      if (is_message_file(name) && WARREN_TRY(ledger_.is_needed(make_message_id(agent, stem_of(name))))) return true;
      if (::unlinkat(dir->get(), name.c_str(), 0) == 0) ++removed;
      goes_on = may_go_on_();
      return goes_on;
    }));
    if (!goes_on) break;
    ::unlinkat(day, agent.c_str(), AT_REMOVEDIR);  // only if empty
  }
  return removed;
}

Result<std::uint64_t> Sweeper::remove_swept(const std::string& name) {
  std::uint64_t removed = 0;
  Fd day = WARREN_TRY(open_below(root_.dir(), "tmp/" + name, kDirectory));
  std::vector<std::string> agents = WARREN_TRY(list_names(day.get()));
  for (const std::string& agent : agents) {
    Result<Fd> dir = open_below(day.get(), agent, kDirectory);
    if (!dir.ok()) continue;
    bool goes_on = true;
    WARREN_TRY(each_name(dir->get(), [&](std::string file) -> Result<bool> {
      if (::unlinkat(dir->get(), file.c_str(), 0) == 0) ++removed;
      goes_on = may_go_on_();
      return goes_on;
    }));
    if (!goes_on) return removed;  // the next start continues
  }
  auto tree = WARREN_TRY(HostTree::open(root_.path() + "/tmp"));
  WARREN_TRY(tree->remove_tree("/" + name));  // directories, and anything else in them
  return removed;
}

Result<std::uint64_t> Sweeper::sweep_done(std::int64_t before_seconds) {
  std::uint64_t removed = 0;
  std::vector<std::string> agents = WARREN_TRY(root_.list_agents());
  for (const std::string& agent : agents) {
    Result<Fd> done = root_.open_agent_dir(agent, "inbox/.done");
    if (!done.ok()) continue;
    bool goes_on = true;
    WARREN_TRY(each_name(done->get(), [&](std::string name) -> Result<bool> {
      struct stat info {};
      bool is_old = is_message_file(name) && ::fstatat(done->get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                    S_ISREG(info.st_mode) && info.st_mtim.tv_sec < before_seconds;
      if (!is_old) return true;
      if (::unlinkat(done->get(), name.c_str(), 0) == 0) ++removed;
      goes_on = may_go_on_();
      return goes_on;
    }));
    if (!goes_on) break;
  }
  return removed;
}

}  // namespace warren::relay
