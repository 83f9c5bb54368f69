// Listing a merged directory.
#include <algorithm>

#include <fmt/format.h>

#include "fs/overlay/overlay_fs.h"

namespace warren {

// All names of a directory in the base are read when a listing starts, and each is looked up when it is returned. A
// cookie stands for a name, and the listing continues after it, whichever stream issued it.
class OverlayDirStream final : public DirStream {
 public:
  OverlayDirStream(OverlayFs& fs, Inode dir) : fs_(fs), dir_(dir) { ++fs_.cookies_[dir].streams; }

  ~OverlayDirStream() override {
    std::unique_lock lock(fs_.mutex_);
    auto open = fs_.cookies_.find(dir_);
    if (--open->second.streams == 0) fs_.cookies_.erase(open);
  }

  Result<std::vector<DirEntry>> read(std::uint64_t cookie, std::size_t max, DirDetail detail) override {
    OverlayFs::Scope scope = WARREN_TRY(fs_.read_scope());
    OverlayFs::Cookies& cookies = fs_.cookies_.at(dir_);
    std::string after;
    if (cookie >= kFirst) {
      if (cookie - kFirst >= cookies.names.size()) {
        return Error(Code::kInvalid, fmt::format("no directory entry with cookie {}", cookie));
      }
      after = cookies.names[static_cast<std::size_t>(cookie - kFirst)];
    }
    // On the first read, not on open: a kernel that has the listing cached opens a directory without reading it.
    if (cookie < kFirst || !has_begun_) {
      entries_.clear();
      if (!fs_.removed_.contains(dir_)) entries_ = WARREN_TRY(fs_.list_merged(dir_));
    }
    has_begun_ = true;
    auto at = std::upper_bound(entries_.begin(), entries_.end(), after,
                               [](const std::string& name, const DirEntry& entry) { return name < entry.name; });
    std::vector<DirEntry> page;
    for (; at != entries_.end() && page.size() < max; ++at) {
      if (std::optional<DirEntry> entry = WARREN_TRY(look_at(*at, detail))) page.push_back(*std::move(entry));
    }
    for (DirEntry& entry : page) entry.cookie = cookie_of(cookies, entry.name);
    return page;
  }

 private:
  static constexpr std::uint64_t kFirst = 3;

  static std::uint64_t cookie_of(OverlayFs::Cookies& cookies, const std::string& name) {
    auto [known, is_new] = cookies.by_name.emplace(name, cookies.names.size() + kFirst);
    if (is_new) cookies.names.push_back(name);
    return known->second;
  }

  // The caller may use the number, so it must be one that was looked up.
  Result<std::optional<DirEntry>> look_at(const DirEntry& listed, DirDetail detail) {
    DirEntry entry = listed;
    if (detail == DirDetail::kNames) return std::optional(std::move(entry));
    Result<std::optional<Attributes>> looked_up = fs_.find_in(dir_, entry.name);
    bool is_busy = !looked_up.ok() && looked_up.error().code() == Code::kBusy;  // a lookup says why
    if (is_busy) return std::optional(std::move(entry));
    std::optional<Attributes> found = WARREN_TRY(std::move(looked_up));
    if (!found) return std::optional<DirEntry>();
    entry.inode = found->inode;
    entry.type = found->mode & S_IFMT;
    // Without attributes a kernel looks it up, and that says why it cannot be used.
    bool is_usable = !fs_.dead_dirs_.contains(found->inode);
    if (detail == DirDetail::kAttributes && is_usable) entry.attributes = *found;
    return std::optional(std::move(entry));
  }

  OverlayFs& fs_;
  Inode dir_;
  std::vector<DirEntry> entries_;
  bool has_begun_ = false;
};

// A directory that exists only in the upper layer, however large, is listed by that layer.
class UpperDirStream final : public DirStream {
 public:
  UpperDirStream(OverlayFs& fs, Inode dir, std::unique_ptr<DirStream> stream)
      : fs_(fs), dir_(dir), stream_(std::move(stream)) {}

  Result<std::vector<DirEntry>> read(std::uint64_t cookie, std::size_t max, DirDetail detail) override {
    OverlayFs::Scope scope = WARREN_TRY(fs_.read_scope());
    bool is_names = detail == DirDetail::kNames;
    std::vector<DirEntry> page =
        WARREN_TRY(stream_->read(cookie, max, is_names ? DirDetail::kNames : DirDetail::kAttributes));
    for (DirEntry& entry : page) {
      if (!entry.attributes) continue;
      Attributes shown = WARREN_TRY(fs_.shown_upper(dir_, entry.name, *entry.attributes));
      entry.inode = shown.inode;
      entry.attributes = detail == DirDetail::kAttributes ? std::optional(shown) : std::nullopt;
    }
    return page;
  }

 private:
  OverlayFs& fs_;
  Inode dir_;
  std::unique_ptr<DirStream> stream_;
};

Result<std::unique_ptr<DirStream>> OverlayFs::open_dir(Inode number) {
  Scope scope = WARREN_TRY(read_scope());
  Dir* dir = WARREN_TRY(enter(number));
  View where = WARREN_TRY(view(number));
  if (!dir->base && where.upper) {
    std::unique_ptr<DirStream> stream = WARREN_TRY(upper().open_dir(*where.upper));
    return std::unique_ptr<DirStream>(std::make_unique<UpperDirStream>(*this, number, std::move(stream)));
  }
  return std::unique_ptr<DirStream>(std::make_unique<OverlayDirStream>(*this, number));
}

}  // namespace warren
