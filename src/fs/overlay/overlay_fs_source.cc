// The part of OverlayFs for the base's files that large copies are read from where they were not written.
//
// Such a file must not change: half of an old file and half of a new one would be neither. Its content counts as
// unchanged if node, size and time of modification are; other attributes may change. It is held open, so its content is
// still there after the host has moved it, replaced it by another one, or removed it.
#include <algorithm>
#include <cerrno>

#include <unistd.h>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "base/side_change.h"
#include "fs/overlay/overlay_change.h"
#include "fs/overlay/recorded.h"
#include "os/error.h"
#include "os/files/host_stat.h"

namespace warren {
namespace {

constexpr std::uint64_t kRestStep = std::uint64_t{4} << 20;  // copied at once, while others wait
constexpr std::size_t kRangesNamed = 8;

bool has_same_stamp(const Attributes& now, const Attributes& seen) {
  bool is_same_node = now.inode == seen.inode && now.is_file() == seen.is_file();
  return is_same_node && now.size == seen.size && now.mtime == seen.mtime;
}

bool has_same_stamp(const struct stat& now, const Attributes& seen) {
  Timestamp changed_at{now.st_mtim.tv_sec, static_cast<std::int32_t>(now.st_mtim.tv_nsec)};
  return static_cast<std::uint64_t>(now.st_size) == seen.size && changed_at == seen.mtime;
}

std::string list_ranges(const std::vector<ByteRange>& ranges) {
  std::string list;
  for (std::size_t i = 0; i < std::min(ranges.size(), kRangesNamed); ++i) {
    list += fmt::format("{}{} to {}", i == 0 ? "" : ", ", ranges[i].begin, ranges[i].end - 1);
  }
  if (ranges.size() > kRangesNamed) list += fmt::format(" and {} more ranges", ranges.size() - kRangesNamed);
  return list;
}

std::uint64_t count_bytes(const std::vector<ByteRange>& ranges) {
  std::uint64_t bytes = 0;
  for (const ByteRange& range : ranges) bytes += range.end - range.begin;
  return bytes;
}

}  // namespace

Error OverlayFs::base_changed(const Copy& copy) {
  std::string missing;
  if (copy.ranges && !copy.ranges->empty()) missing = ": bytes " + list_ranges(*copy.ranges) + " are lost";
  return {Code::kIo,
          fmt::format("{} changed in the base before the agent had copied all of it{}", quote(copy.base_path), missing),
          "the other bytes are still readable, and the file can be rewritten completely; `warren discard` drops the "
          "agent's copy and shows the base's file again"};
}

bool OverlayFs::is_untouched(const Copy& copy) {
  Result<Attributes> own = upper().get_attributes(copy.upper);
  return own.ok() && copy.seen && is_as_recorded(*own, *copy.seen);
}

Result<OverlayFs::Source> OverlayFs::find_base_of(const Copy& copy) {
  if (!copy.seen) return base_changed(copy);
  const Attributes& seen = *copy.seen;
  Result<Attributes> known = base_.get_attributes(seen.inode);
  std::optional<Attributes> now = known.ok() ? std::optional(*known) : find_in_base_now(copy.base_path);
  if (now && has_same_stamp(*now, seen)) {
    hold(seen);
    return Source{now->inode, nullptr};
  }
  auto held = held_.find(seen.inode);
  bool is_to_follow = now && is_untouched(copy);
  if (held == held_.end() || is_to_follow) return base_changed(copy);
  HostStat info = WARREN_TRY(host_stat(held->second->get(), ""));
  if (!has_same_stamp(info, seen)) return base_changed(copy);
  return Source{seen.inode, held->second};
}

Result<std::size_t> OverlayFs::read_source(const Source& source, std::uint64_t offset, MutableBytes out) {
  if (!source.held) return base_.read(source.node, offset, out);
  std::size_t done = 0;
  while (done < out.size()) {
    ssize_t got = ::pread(source.held->get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, "read a file of the base");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

Status OverlayFs::check_source(Copy& copy, Inode number) {
  std::vector<ByteRange>* ranges = WARREN_TRY(ranges_of(copy));
  if (ranges->empty() || find_base_of(copy).ok()) return Ok{};
  if (copy.is_noted && copy.seen) WARREN_TRY(take_over(copy, number));
  if (!ranges->empty()) WARREN_TRY(find_base_of(copy));
  return Ok{};
}

void OverlayFs::set_ranges(Copy& copy, std::vector<ByteRange> ranges) {
  copy.ranges = std::move(ranges);
  if (copy.ranges->empty() && copy.seen) held_.erase(copy.seen->inode);
}

void OverlayFs::hold(const Attributes& seen) {
  bool is_needed = seen.size > copy_whole_bytes_ && !held_.contains(seen.inode);
  if (!is_needed || held_.size() >= limits::kHeldFiles) return;
  Result<Fd> file = base_.open_backing(seen.inode);
  if (file.ok() && file->is_open()) held_[seen.inode] = std::make_shared<const Fd>(std::move(*file));
}

void OverlayFs::keep_held() {
  {
    std::lock_guard guard(mutex_);
    if (held_.empty()) return;
  }
  SideChange not_by_the_agent;
  for (Inode base : list_lost()) {
    while (copy_more(base)) {
    }
  }
}

// Held files that the base no longer has where they were. None while an apply replaces them: the copies will be copies
// of the new files.
std::vector<Inode> OverlayFs::list_lost() {
  std::vector<Inode> lost;
  Result<Scope> scope = read_scope();
  if (!scope.ok()) return lost;
  Result<bool> is_applying = upper_.is_applying();
  if (is_applying.ok() && *is_applying) has_waiting_ = true;  // no event may come after its end
  if (!is_applying.ok() || *is_applying) return lost;
  std::vector<Inode> unused;
  for (const auto& [base, file] : held_) {
    Copy* copy = find_copy(number_of_base(base));
    Result<std::vector<ByteRange>*> ranges = copy ? ranges_of(*copy) : nullptr;
    bool has_parts = copy && copy->seen && copy->seen->inode == base && ranges.ok() && !(*ranges)->empty();
    if (!has_parts) {
      unused.push_back(base);
      continue;
    }
    Result<Source> source = find_base_of(*copy);
    if (source.ok() && source->held && count_bytes(**ranges) <= limits::kRestBytes) lost.push_back(base);
  }
  for (Inode base : unused) held_.erase(base);
  return lost;
}

bool OverlayFs::copy_more(Inode base) {
  Result<bool> is_left = change<bool>([&]() -> Result<bool> {
    Copy* copy = find_copy(number_of_base(base));
    if (!copy || !copy->seen || copy->seen->inode != base) return false;
    std::vector<ByteRange>* ranges = WARREN_TRY(ranges_of(*copy));
    if (ranges->empty()) return false;
    ByteRange first = ranges->front();
    WARREN_TRY(fetch(*copy, first.begin, std::min(first.end, first.begin + kRestStep)));
    return !copy->ranges->empty();
  });
  return is_left.ok() && *is_left;  // if it cannot be copied, it can be read as long as it is held
}

}  // namespace warren
