// Opening a database that another process may be writing anew (Database::hold_alone): its file is then replaced.
#include <algorithm>
#include <array>
#include <thread>

#include <sqlite3.h>

#include "db/database.h"
#include "db/named_file.h"
#include "db/sqlite_init.h"

namespace warren {
namespace {

constexpr int kOpenTries = 20;  // each one needs another file at the path

// Whether the path leads to another file than before, or will in a moment: the log goes just before.
bool becomes_another(const std::string& path, const FileId& before, const Error& why) {
  constexpr std::chrono::milliseconds kPause{5};
  constexpr int kLooks = 20;
  for (int looks = 0; looks < kLooks; ++looks) {
    if (find_file_id(path) != before) return true;
    if (why.code() != Code::kIo) return false;
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<Database>> Database::open(const std::string& path, const DatabaseOptions& options) {
  initialise_sqlite();
  bool is_there = options.mode == OpenMode::kReadOnly || options.mode == OpenMode::kReadWrite;
  bool may_be_replaced = is_there && path != ":memory:" && options.vfs == nullptr;
  for (int tries = 1;; ++tries) {
    std::optional<FileId> before = may_be_replaced ? find_file_id(path) : std::nullopt;
    Result<std::unique_ptr<Database>> opened = open_once(path, options);
    if (opened.ok() || !before || tries == kOpenTries) return opened;
    if (!becomes_another(path, *before, opened.error())) return opened;
  }
}

// Whoever has the file alone waits until nobody waits for it (outwait_others), so that nobody goes on with a file that
// has no name any more.
void Database::wait_unless_replaced() {
  auto wait = [](void* self, int times) {
    constexpr std::array<int, 8> kPauses{1, 2, 5, 10, 15, 20, 25, 50};  // milliseconds
    const auto& database = *static_cast<const Database*>(self);
    auto waited = std::chrono::milliseconds(0);
    for (int i = 0; i < times; ++i) waited += std::chrono::milliseconds(kPauses[std::min<std::size_t>(i, 7)]);
    if (waited >= database.busy_wait_ || database.is_replaced()) return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(kPauses[std::min<std::size_t>(times, 7)]));
    return 1;
  };
  sqlite3_busy_handler(handle_, wait, this);
}

bool Database::is_replaced() const { return found_file_ && find_file_id(path_) != found_file_; }

}  // namespace warren
