// The items of an agent's drives: files below /context with a row of metadata each (store/tables/item_rows.h).
//
// A file that was written through a mount, by another program or in any other way is an item, too: it gets its row when
// it is first touched here. Links are never followed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/result.h"
#include "drives/drive_ref.h"
#include "fs/file_system.h"
#include "store/tables/item_rows.h"

namespace warren {

class TreeCopy;
struct CopiedPath;

// What is known of the content when an item is written.
struct ItemOrigin {
  std::string source;                      // empty: not fetched; an item that exists keeps its source and time
  std::optional<std::int64_t> fetched_at;  // Unix seconds
  std::string sha256;
  std::string mime;
  std::string title;
};

inline constexpr std::string_view kPageOfFolder = "%index";

// One call of a caller. Every access to files goes through `view`, the caller's. What it is given outlives it.
// Calls belong into a Unit of the view, as each says.
class Items {
 public:
  // Copies and removals look at `is_cancelled` from time to time, and fail with kUnavailable once it is true.
  Items(Agent& agent, FileSystem& view, Clock& clock, const std::atomic<bool>* is_cancelled = nullptr);

  // In a unit. nullopt: it does not exist. kDenied: a link is on the way.
  Result<std::optional<Attributes>> find(const Ref& ref);

  // On the web a page can have others below it, /m and /m/n; an item cannot. The page of a folder is in it, as
  // kPageOfFolder, which is no path of the web. The item that a page's reference means:
  Result<Ref> page_at(const Ref& ref);
  // Where to write a page. A page above it becomes a folder with its page. In a write unit.
  Result<Ref> make_place_for_page(const Ref& ref);
  // In a unit. Where the item is that came from this address, though it was moved; `ref` is where it was put.
  Result<Ref> find_page(const Ref& ref, std::string_view source);
  // In a unit. Where the item of this id is now; nullopt: there is none, or it is in no drive.
  Result<std::optional<Ref>> find_by_id(std::string_view id);
  // In a unit. The row of an item, if it has one and is in the agent file.
  Result<std::optional<ItemRow>> find_row(const Ref& ref, const Attributes& node);

  // In a write unit. The row, which is made if there is none; nullopt for a file of a mounted backend, which has none.
  Result<std::optional<ItemRow>> touch(const Ref& ref, const Attributes& node);
  // In a write unit: replaces the content, or makes the item and the directories above it. kNotDirectory, kIsDirectory.
  Result<Attributes> write(const Ref& ref, std::string_view content, const ItemOrigin& origin);
  // In a write unit: makes a directory and those above it. kExists: the last name is a file.
  Result<Attributes> make_dir(const Ref& ref);
  // In a write unit: an item, or a directory with everything in it, and the rows.
  Status remove(const Ref& ref);
  // In a write unit. The target must not exist, unless both are files and it may be replaced; directories above it are
  // made. kInvalid: a directory into itself. kLimit: more than kCopiedItems. kCrossDevice: they are in different
  // mounts.
  enum class Replace { kNo, kYes };
  Status move(const Ref& from, const Ref& to, Replace replace);
  Status copy(const Ref& from, const Ref& to, Replace replace);
  // The same between mounts or where other rules hold, outside of any unit, since a unit cannot have changes in two
  // mounts. A copy that fails is removed, as far as this call has made it. What was moved is removed when its copy is
  // complete; if that fails, the error is original_stays (agent/files/file_verbs.h). kUnsupported: a link is to be
  // moved to another mount.
  Result<bool> are_apart(const Ref& from, const Ref& to);
  Status copy_apart(const Ref& from, const Ref& to, Replace replace);
  Status move_apart(const Ref& from, const Ref& to, Replace replace);

  // Directories first, then files, each by name; nothing else is in a drive. In a unit. kNotDirectory.
  struct Entry {
    std::string name;
    Attributes node;
  };
  Result<std::vector<Entry>> list(const Ref& dir);
  // The drives that have a folder, by name. In a unit.
  Result<std::vector<std::string>> list_drives();
  // Every file at and below a ref, without a unit: it may take long. Directories below it that the caller may not list
  // are left out. False from `visit` ends it.
  using Visitor = std::function<Result<bool>(const Ref&, const Attributes&)>;
  Status walk_items(const Ref& top, const Visitor& visit);

 private:
  Result<FileSystem*> own();
  Result<std::string> path_of(Inode node);
  Result<std::vector<Entry>> list_in_unit(const Ref& dir);
  Result<std::optional<Attributes>> find_path(const std::vector<std::string_view>& names);
  Status check_target(const Ref& from, const Attributes& what, const Ref& to, Replace replace);
  Status make_parent(const Ref& ref);
  Status check_not_cancelled() const;
  struct MovedRow {
    ItemRow row;
    Inode item;
    Ref to;
    bool is_stamped;  // its stamp is that of the item
  };
  enum class Apart { kRules, kMounts };
  Status copy_noting(const Ref& from, const Ref& to, Replace replace, std::vector<CopiedPath>& made);
  Result<std::vector<Ref>> missing_above(const Ref& ref);
  Status check_movable(const Ref& from, Apart apart);
  Status give_ids(const Ref& ref);
  Status move_rows(TreeCopy& copy, const std::vector<MovedRow>& rows, bool has_rows_there);
  Status copy_one(const Ref& from, const Ref& to, const Attributes& node, std::vector<CopiedPath>& copies);

  Agent& agent_;
  FileSystem& view_;
  Clock& clock_;
  ItemRows rows_;
  const std::atomic<bool>* is_cancelled_;
};

inline constexpr std::size_t kCopiedItems = 100'000;  // in one call

// Size and mtime: what a row says about the content holds only while they stay.
std::string stamp_of_item(const Attributes& node);
// Whether nobody has changed the content here, through whichever door.
bool is_as_fetched(const ItemRow& row, const Attributes& node);

}  // namespace warren
