// Items that follow their source: what is gone there is deleted here.
#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "base/path.h"
#include "drives/ingest.h"
#include "drives/ingest_parts.h"
#include "os/error.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::size_t kRemovedAtOnce = 256;

}  // namespace

Status Ingest::follow(const IngestSource& source, std::string_view relative) {
  seen_ = std::make_unique<Seen>();
  Status done = source.is_folder ? follow_folder(source, relative) : follow_file(source);
  seen_.reset();
  return done;
}

// Notes what the source has, and adds nothing.
Status Ingest::see(const IngestSource& source, std::string_view relative) {
  Folder folder = WARREN_TRY(open_folder(source));
  IngestTotals totals;
  std::uint64_t ignored = report_.ignored;
  measured_ = &totals;
  Status done = visit_place(folder, relative);
  measured_ = nullptr;
  report_.ignored = ignored;
  return done;
}

Status Ingest::follow_folder(const IngestSource& source, std::string_view relative) {
  WARREN_TRY(see(source, relative));
  Result<Ref> at =
      make_ref(source.top.drive, relative.empty() ? source.top.path : below_path(source.top.path, relative));
  if (at.ok()) WARREN_TRY(remove_unseen(*at, source.top, source.host_path));  // otherwise it was never an item
  Folder folder = WARREN_TRY(open_folder(source));
  WARREN_TRY(visit_place(folder, relative));
  return finish();
}

Status Ingest::follow_file(const IngestSource& source) {
  Fd dir = WARREN_TRY(open_host_dir(folder_of(source)));
  WARREN_TRY(check_identity(dir.get(), source));
  std::string name(base_name(source.host_path));
  struct stat info {};
  bool is_there = ::fstatat(dir.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  if (!is_there && errno != ENOENT) return system_error(errno, fmt::format("look at {}", quote(source.host_path)));
  if (!is_there || !S_ISREG(info.st_mode)) return remove_unseen(source.top, source.top, source.host_path);
  seen_->files.insert(to_string(source.top));
  WARREN_TRY(add_file(dir.get(), name, source.host_path, source.top));
  return finish();
}

Result<bool> Ingest::has_items(const IngestSource& source) {
  Items items(agent_, view_, clock_);
  auto unit = WARREN_TRY(view_.begin(UnitAccess::kRead));
  std::optional<Attributes> top = WARREN_TRY(items.find(source.top));
  if (!top || !top->is_directory()) return top.has_value();
  std::vector<Items::Entry> entries = WARREN_TRY(items.list(source.top));
  return !entries.empty();
}

// Only items that came from `source` and the rest of their path. Those that were changed here stay, unless they may be
// overwritten.
Result<bool> Ingest::is_removable(Items& items, const Ref& ref, const Attributes& node, const std::string& source) {
  bool is_unknown = std::ranges::any_of(seen_->unread, [&](const Ref& dir) { return is_at_or_below(ref, dir); });
  if (is_unknown || seen_->files.contains(to_string(ref))) return false;
  auto unit = WARREN_TRY(view_.begin(UnitAccess::kRead));
  std::optional<ItemRow> row = WARREN_TRY(items.find_row(ref, node));
  if (!row || row->source != source) return false;
  if (is_as_fetched(*row, node) || options_.on_conflict == OnConflict::kOverwrite) return true;
  if (options_.on_conflict == OnConflict::kSkip) ++report_.skipped;
  else fail(to_string(ref), Error(Code::kExists, "its source is gone, and it was changed here: it stays"));
  return false;
}

Status Ingest::remove_unseen(const Ref& at, const Ref& top, std::string_view source) {
  Items items(agent_, view_, clock_);
  {
    auto unit = WARREN_TRY(view_.begin(UnitAccess::kRead));
    if (!WARREN_TRY(items.find(at))) return Ok{};
  }
  std::vector<Ref> gone;
  WARREN_TRY(items.walk_items(at, [&](const Ref& ref, const Attributes& node) -> Result<bool> {
    WARREN_TRY(check_not_cancelled());
    std::string from = fmt::format("{}{}", source, std::string_view(ref.path).substr(top.path.size()));
    if (WARREN_TRY(is_removable(items, ref, node, from))) gone.push_back(ref);
    return true;
  }));
  for (std::size_t i = 0; i < gone.size(); i += kRemovedAtOnce) {
    auto end = gone.begin() + static_cast<std::ptrdiff_t>(std::min(i + kRemovedAtOnce, gone.size()));
    WARREN_TRY(remove_items({gone.begin() + static_cast<std::ptrdiff_t>(i), end}, top));
  }
  return Ok{};
}

// In one unit, with the directories that become empty.
Status Ingest::remove_items(const std::vector<Ref>& gone, const Ref& top) {
  Items items(agent_, view_, clock_);
  auto unit = WARREN_TRY(view_.begin(UnitAccess::kWrite));
  for (const Ref& ref : gone) {
    if (!WARREN_TRY(items.find(ref))) continue;  // somebody else was faster
    WARREN_TRY(items.remove(ref));
    note_change(ItemChange::kDeleted, ref);
    ++report_.deleted;
    for (Ref dir = parent_of(ref); dir != top && is_at_or_below(dir, top); dir = parent_of(dir)) {
      std::vector<Items::Entry> left = WARREN_TRY(items.list(dir));
      if (!left.empty()) break;
      WARREN_TRY(items.remove(dir));
    }
  }
  WARREN_TRY(unit->commit());
  report_changes();
  return Ok{};
}

}  // namespace warren
