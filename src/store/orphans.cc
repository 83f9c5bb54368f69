#include "store/orphans.h"

#include <utility>

namespace warren {

Result<std::unique_ptr<Orphans>> Orphans::open(Database& db) {
  auto orphans = std::make_unique<Orphans>();
  orphans->self_ = current_process();
  orphans->add_ = WARREN_TRY(
      db.prepare("INSERT OR REPLACE INTO wr_orphan (ino, boot, pid_namespace, pid, started) VALUES (?, ?, ?, ?, ?)"));
  orphans->erase_ = WARREN_TRY(db.prepare("DELETE FROM wr_orphan WHERE ino = ?"));
  orphans->list_ = WARREN_TRY(db.prepare("SELECT ino, boot, pid_namespace, pid, started FROM wr_orphan"));
  return orphans;
}

Status Orphans::add(Inode node) {
  return add_.bind(1, node.value)
      .bind(2, self_.boot)
      .bind(3, self_.pid_namespace)
      .bind(4, self_.pid)
      .bind(5, self_.started)
      .run();
}

Status Orphans::keep(Inode node) { return add_.bind(1, node.value).bind(2, "").bind(3, 0).bind(4, 0).bind(5, 0).run(); }

Status Orphans::erase(Inode node) { return erase_.bind(1, node.value).run(); }

Result<std::vector<Inode>> Orphans::list_abandoned() {
  std::vector<Inode> abandoned;
  Rows rows = list_.rows();
  while (WARREN_TRY(rows.next())) {
    ProcessIdentity keeper{.boot = std::string(rows.text(1)),
                           .pid_namespace = rows.integer(2),
                           .pid = rows.integer(3),
                           .started = rows.integer(4)};
    if (keeper.pid == 0) continue;  // kept
    if (liveness_of(keeper) == Liveness::kDead) abandoned.push_back(Inode{static_cast<std::uint64_t>(rows.integer(0))});
  }
  return abandoned;
}

}  // namespace warren
