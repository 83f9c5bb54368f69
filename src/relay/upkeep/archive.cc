#include "relay/upkeep/archive.h"

#include <fcntl.h>
#include <unistd.h>

#include "os/files/host_files.h"
#include "relay/protocol/names.h"

namespace warren::relay {
namespace {

// Calls visit(directory, agent, file) for each file of a day: also for links, pipes and the like (NAME.strange).
template <class Visit>
Status each_file(int day, Visit visit) {
  std::vector<HostEntry> agents = WARREN_TRY(list_host_dir(day));
  for (const HostEntry& agent : agents) {
    if (!S_ISDIR(agent.attributes.st_mode)) continue;
    Fd dir = WARREN_TRY(open_below(day, agent.name, O_RDONLY | O_DIRECTORY));
    std::vector<HostEntry> files = WARREN_TRY(list_host_dir(dir.get()));
    for (const HostEntry& file : files) {
      if (!S_ISDIR(file.attributes.st_mode)) WARREN_TRY(visit(dir.get(), agent.name, file));
    }
  }
  return Ok{};
}

}  // namespace

Result<std::vector<ArchiveDay>> list_archive(Root& root) {
  std::vector<ArchiveDay> days;
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(root.archive()));
  for (const HostEntry& entry : entries) {
    if (!S_ISDIR(entry.attributes.st_mode)) continue;
    ArchiveDay day{entry.name};
    Fd dir = WARREN_TRY(open_below(root.archive(), entry.name, O_RDONLY | O_DIRECTORY));
    WARREN_TRY(each_file(dir.get(), [&](int, const std::string&, const HostEntry& file) -> Status {
      ++day.files;
      day.bytes += static_cast<std::uint64_t>(file.attributes.st_size);
      return Ok{};
    }));
    days.push_back(std::move(day));
  }
  return days;
}

Result<std::uint64_t> prune_archive(Root& root, Ledger& ledger, const std::string& date) {
  std::uint64_t removed = 0;
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(root.archive()));
  for (const HostEntry& entry : entries) {
    if (!S_ISDIR(entry.attributes.st_mode) || entry.name >= date) continue;
    Fd day = WARREN_TRY(open_below(root.archive(), entry.name, O_RDONLY | O_DIRECTORY));
    WARREN_TRY(each_file(day.get(), [&](int dir, const std::string& agent, const HostEntry& file) -> Status {
      bool is_message = is_message_file(file.name);
      if (is_message && WARREN_TRY(ledger.is_needed(make_message_id(agent, stem_of(file.name))))) return Ok{};
      if (::unlinkat(dir, file.name.c_str(), 0) == 0) ++removed;
      return Ok{};
    }));
    std::vector<HostEntry> agents = WARREN_TRY(list_host_dir(day.get()));
    for (const HostEntry& agent : agents) ::unlinkat(day.get(), agent.name.c_str(), AT_REMOVEDIR);  // only empty ones
    ::unlinkat(root.archive(), entry.name.c_str(), AT_REMOVEDIR);
  }
  return removed;
}

}  // namespace warren::relay
