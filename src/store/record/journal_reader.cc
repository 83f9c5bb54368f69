#include "store/record/journal_reader.h"

#include <algorithm>
#include <iterator>

namespace warren {
namespace {

constexpr std::size_t kRowsRead = 4096;  // for more, looking at everything is not slower

}  // namespace

Result<std::optional<std::vector<Change>>> JournalReader::read() {
  Journal* journal = store_.journal();
  std::int64_t last = 0;
  std::optional<std::vector<JournalRow>> rows = std::vector<JournalRow>();
  if (journal != nullptr) {
    rows = WARREN_TRY(journal->read_after(seen_seq_, kRowsRead));
    last = WARREN_TRY(journal->last_seq());
  } else {
    WARREN_TRY(store_.database().look());
  }
  std::uint64_t epoch = store_.database().foreign_epoch();
  // The number of commits of other connections is unknown here, so their rows do not say whether they are all.
  bool has_pending = journal != nullptr && !journal->nodes().empty();  // of a transaction around this one
  bool is_listed =
      !has_pending && seen_epoch_ == epoch && seen_rollbacks_ == store_.rollbacks() && rows && rows->size() < kRowsRead;
  if (has_pending) seen_epoch_.reset();
  else seen_epoch_ = epoch;
  seen_rollbacks_ = store_.rollbacks();
  seen_seq_ = last;
  if (!is_listed) return std::optional<std::vector<Change>>();
  std::vector<Change> changes;
  for (JournalRow& row : *rows) std::move(row.changes.begin(), row.changes.end(), std::back_inserter(changes));
  bool is_everything = std::any_of(changes.begin(), changes.end(),
                                   [](const Change& change) { return change.kind == ChangeKind::kEverything; });
  if (is_everything) return std::optional<std::vector<Change>>();
  return std::optional(std::move(changes));
}

}  // namespace warren
