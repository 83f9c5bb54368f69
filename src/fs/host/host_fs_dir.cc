#include "fs/host/host_fs.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "os/error.h"
#include "os/files/dir_reader.h"

namespace warren {

// Reads everything at once: the host has no cookie that outlives its stream. Cookies are positions in the sorted list,
// which each stream has for itself.
class HostDirStream final : public DirStream {
 public:
  HostDirStream(HostFs& fs, Inode dir, std::vector<DirEntry> entries)
      : fs_(fs), dir_(dir), entries_(std::move(entries)) {}

  Result<std::vector<DirEntry>> read(std::uint64_t cookie, std::size_t max, DirDetail detail) override {
    std::vector<DirEntry> page;
    std::size_t at = cookie < 3 ? 0 : static_cast<std::size_t>(cookie - 2);
    for (; at < entries_.size() && page.size() < max; ++at) {
      DirEntry entry = entries_[at];
      if (detail == DirDetail::kAttributes) {
        Result<Attributes> attributes = fs_.lookup(dir_, entry.name);
        if (!attributes.ok() && attributes.error().code() == Code::kNotFound) continue;
        if (!attributes.ok()) return std::move(attributes).error();
        entry.inode = attributes->inode;
        entry.attributes = *attributes;
      }
      page.push_back(std::move(entry));
    }
    return page;
  }

 private:
  HostFs& fs_;
  Inode dir_;
  std::vector<DirEntry> entries_;
};

Result<std::unique_ptr<DirStream>> HostFs::open_dir(Inode dir) {
  std::lock_guard guard(mutex_);
  NodePtr node = WARREN_TRY(find_dir(dir));
  FdPtr path = WARREN_TRY(open_dir_fd(node));
  watch(node);
  freeze_if_filtered(*node, path->get());
  Fd fd(::openat(path->get(), ".", O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC));
  if (!fd.is_open() && errno == EPERM) fd = Fd(::openat(path->get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.is_open()) return system_error(errno, "open a directory of the base");
  DirReader reader = WARREN_TRY(DirReader::adopt(std::move(fd)).within("base"));
  std::vector<DirEntry> entries;
  while (const DirReader::Entry* found = WARREN_TRY(reader.next().within("base"))) {
    if (has_hidden_prefix(found->name) || is_hidden_name(*node, found->name) || is_out_of_view(*node, found->name))
      continue;
    DirEntry entry{.cookie = 0,
                   .name = std::string(found->name),
                   .inode = number_of(node->device, found->inode),
                   .type = found->type,
                   .attributes = {}};
    // Without a type, or if it may be hidden, the node itself must be checked.
    bool may_be_another = reserved_numbers_.contains(entry.inode) || shared_numbers_.contains(entry.inode);
    if (found->type == 0 || may_be_hidden(found->inode) || may_be_another) {
      Result<HostStat> info = stat_at(path->get(), entry.name.c_str());
      if (!info.ok() || is_hidden(*info)) continue;
      entry.type = info->st_mode & S_IFMT;
      entry.inode = number_of(*info);
    }
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const DirEntry& a, const DirEntry& b) { return a.name < b.name; });
  for (std::size_t i = 0; i < entries.size(); ++i) entries[i].cookie = i + 3;
  return std::unique_ptr<DirStream>(std::make_unique<HostDirStream>(*this, dir, std::move(entries)));
}

}  // namespace warren
