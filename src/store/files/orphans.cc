#include "store/files/orphans.h"

#include <string_view>
#include <utility>

namespace warren {
namespace {

// In the column of the boot's id, which is never that.
constexpr std::string_view kSeat = "seat";

Orphan orphan_of(Rows& rows) {
  Orphan orphan{.node = Inode{static_cast<std::uint64_t>(rows.integer(0))}, .is_kept = false, .seat = 0, .process = {}};
  if (rows.text(1) == kSeat) {
    orphan.seat = static_cast<std::uint32_t>(rows.integer(3));
    return orphan;
  }
  orphan.process = {.boot = std::string(rows.text(1)),
                    .pid_namespace = rows.integer(2),
                    .pid = rows.integer(3),
                    .started = rows.integer(4)};
  orphan.is_kept = orphan.process.pid == 0;
  return orphan;
}

}  // namespace

Result<std::unique_ptr<Orphans>> Orphans::open(Database& db) {
  auto orphans = std::make_unique<Orphans>();
  orphans->database_ = &db;
  orphans->self_ = current_process();
  orphans->add_ = WARREN_TRY(
      db.prepare("INSERT OR REPLACE INTO wr_orphan (ino, boot, pid_namespace, pid, started) VALUES (?, ?, ?, ?, ?)"));
  orphans->erase_ = WARREN_TRY(db.prepare("DELETE FROM wr_orphan WHERE ino = ?"));
  orphans->find_ = WARREN_TRY(db.prepare("SELECT ino, boot, pid_namespace, pid, started FROM wr_orphan WHERE ino = ?"));
  orphans->list_ = WARREN_TRY(db.prepare("SELECT ino, boot, pid_namespace, pid, started FROM wr_orphan"));
  return orphans;
}

Status Orphans::give(Inode node, std::uint32_t seat) {
  if (seat != 0) return add_.bind(1, node.value).bind(2, kSeat).bind(3, 0).bind(4, seat).bind(5, 0).run();
  return add_.bind(1, node.value)
      .bind(2, self_.boot)
      .bind(3, self_.pid_namespace)
      .bind(4, self_.pid)
      .bind(5, self_.started)
      .run();
}

Status Orphans::keep(Inode node) { return add_.bind(1, node.value).bind(2, "").bind(3, 0).bind(4, 0).bind(5, 0).run(); }

Status Orphans::erase(Inode node) { return erase_.bind(1, node.value).run(); }

Result<std::optional<Orphan>> Orphans::find(Inode node) {
  Rows rows = find_.bind(1, node.value).rows();
  if (!WARREN_TRY(rows.next())) return std::optional<Orphan>();
  return std::optional(orphan_of(rows));
}

Result<std::vector<Orphan>> Orphans::list() {
  std::vector<Orphan> found;
  Rows rows = list_.rows();
  while (WARREN_TRY(rows.next())) found.push_back(orphan_of(rows));
  return found;
}

bool Orphans::is_kept_elsewhere(const Orphan& orphan) const {
  if (orphan.is_kept) return true;
  if (orphan.seat != 0) {
    return orphan.seat != database_->seat() && database_->find_seat_after(orphan.seat - 1) == orphan.seat;
  }
  return orphan.process != self_ && liveness_of(orphan.process) != Liveness::kDead;
}

}  // namespace warren
