#include "store/record/journal_position.h"

#include <algorithm>
#include <iterator>
#include <memory>

#include "db/transaction.h"

namespace warren {
namespace {

constexpr std::size_t kPositionRows = 20'000;  // for more, looking at everything is not slower
constexpr int kPositionAttempts = 3;

// Whether the rows are all commits between the position and `now`, the number of the newest commit.
bool are_complete(const std::vector<JournalRow>& rows, const JournalPosition& position, std::int64_t now) {
  std::int64_t seq = position.seq;
  std::int64_t number = position.commit_number;
  for (const JournalRow& row : rows) {
    bool is_next = row.commit_number == number + 1 || (row.commit_number == number && seq != position.seq);
    if (row.seq != ++seq || !is_next) return false;
    number = *row.commit_number;
  }
  return number == now;
}

std::optional<std::vector<Change>> changes_of(std::vector<JournalRow>& rows) {
  std::vector<Change> changes;
  for (JournalRow& row : rows) std::ranges::move(row.changes, std::back_inserter(changes));
  bool is_everything =
      std::ranges::any_of(changes, [](const Change& change) { return change.kind == ChangeKind::kEverything; });
  if (is_everything) return std::nullopt;
  return changes;
}

}  // namespace

Result<ChangesSince> read_changes_since(Store& store, const std::optional<JournalPosition>& position) {
  if (!store.schema().has_extensions) return ChangesSince{};
  Database& database = store.database();
  WARREN_TRY(database.end_batch());
  auto guard = database.lock();
  std::unique_ptr<Journal> own;  // a reader has none
  if (store.journal() == nullptr) {
    Result<std::unique_ptr<Journal>> opened = Journal::open(database, store.schema(), store.clock());
    if (!opened.ok()) return ChangesSince{};  // of an older Warren, without all columns
    own = std::move(opened).take_value();
  }
  Journal& journal = own ? *own : *store.journal();
  for (int attempt = 0; attempt < kPositionAttempts; ++attempt) {
    std::optional<std::int64_t> before = database.next_commit_number();
    Transaction view = WARREN_TRY(Transaction::begin(database, Access::kRead));
    WARREN_TRY(database.look());
    std::int64_t last = WARREN_TRY(journal.last_seq());
    std::optional<std::int64_t> next = database.next_commit_number();
    if (!next || next != before) continue;  // somebody commits: the number may not be that of this view
    ChangesSince found{.changes = {}, .position = JournalPosition{last, *next - 1}};
    if (!position) return found;
    auto rows = WARREN_TRY(journal.read_after(position->seq, kPositionRows));
    if (!rows || rows->size() == kPositionRows) return found;
    if (are_complete(*rows, *position, *next - 1)) found.changes = changes_of(*rows);
    return found;
  }
  return ChangesSince{};
}

}  // namespace warren
