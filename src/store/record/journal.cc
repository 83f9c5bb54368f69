#include "store/record/journal.h"

#include <random>

#include "base/limits.h"
#include "db/transaction.h"

namespace warren {
namespace {

constexpr std::size_t kJournalRowBytesMax = std::size_t{64} << 10;  // a larger row becomes "everything"

constexpr Sql kSelect =
    "SELECT seq, at_us, origin, changes, commit_number, door, space FROM wr_journal WHERE seq > ? ORDER BY seq LIMIT ?";
constexpr Sql kSelectWithoutAuthors =
    "SELECT seq, at_us, origin, changes, commit_number, NULL, NULL FROM wr_journal WHERE seq > ? ORDER BY seq LIMIT ?";

void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>((value & 0x7f) | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

std::optional<std::uint64_t> take_varint(Bytes& in) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
    auto byte = static_cast<std::uint8_t>(in[0]);
    in = in.subspan(1);
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

bool has_name(ChangeKind kind) { return kind == ChangeKind::kEntry || kind == ChangeKind::kKey; }

bool is_kind(std::uint8_t byte) {
  switch (static_cast<ChangeKind>(byte)) {
    case ChangeKind::kEntry:
    case ChangeKind::kData:
    case ChangeKind::kAttributes:
    case ChangeKind::kKey:
    case ChangeKind::kToolCall:
    case ChangeKind::kAudit:
    case ChangeKind::kBase:
    case ChangeKind::kEverything: return true;
  }
  return false;
}

std::int64_t random_origin() {
  std::random_device device;
  return static_cast<std::int64_t>((std::uint64_t{device()} << 31) ^ device());
}

}  // namespace

Journal::Journal(Database& database, Clock& clock, JournalAuthor author)
    : database_(database), clock_(clock), author_(std::move(author)), origin_(random_origin()) {}

Result<std::unique_ptr<Journal>> Journal::open(Database& database, const Schema& schema, Clock& clock,
                                               JournalAuthor author) {
  std::unique_ptr<Journal> journal(new Journal(database, clock, std::move(author)));
  if (schema.journal_has_authors) {
    journal->insert_ = WARREN_TRY(database.prepare(
        "INSERT INTO wr_journal (at_us, origin, changes, commit_number, door, space) VALUES (?, ?, ?, ?, ?, ?)"));
  }
  journal->trim_ = WARREN_TRY(database.prepare("DELETE FROM wr_journal WHERE seq <= ?"));
  journal->select_ = WARREN_TRY(database.prepare(schema.journal_has_authors ? kSelect : kSelectWithoutAuthors));
  journal->first_ = WARREN_TRY(database.prepare("SELECT min(seq) FROM wr_journal"));
  journal->last_ = WARREN_TRY(database.prepare("SELECT max(seq) FROM wr_journal"));
  journal->last_change_ =
      WARREN_TRY(database.prepare("SELECT seq FROM wr_journal WHERE changes <> x'7500' ORDER BY seq DESC LIMIT 1"));
  return journal;
}

void Journal::note(ChangeKind kind, std::uint64_t id, std::string_view name) {
  if (overflowed_) return;
  std::size_t start = pending_.size();
  pending_ += static_cast<char>(kind);
  put_varint(pending_, id);
  if (has_name(kind)) {
    put_varint(pending_, name.size());
    pending_ += name;
  }
  std::string_view all = pending_;
  if (start > 0 && all.substr(last_noted_, start - last_noted_) == all.substr(start)) {
    pending_.resize(start);
    return;
  }
  last_noted_ = start;
  if (pending_.size() > kJournalRowBytesMax) overflowed_ = true;
}

void Journal::note_entry(Inode parent, std::string_view name) {
  nodes_.insert(parent.value);
  note(ChangeKind::kEntry, parent.value, name);
}

void Journal::note_data(Inode node) {
  nodes_.insert(node.value);
  note(ChangeKind::kData, node.value, {});
}

void Journal::note_attributes(Inode node) {
  nodes_.insert(node.value);
  note(ChangeKind::kAttributes, node.value, {});
}

void Journal::note_key(std::string_view key) { note(ChangeKind::kKey, 0, key); }
void Journal::note_tool_call(std::int64_t id) { note(ChangeKind::kToolCall, static_cast<std::uint64_t>(id), {}); }

void Journal::note_audit() { note(ChangeKind::kAudit, 0, {}); }

void Journal::note_base() { note(ChangeKind::kBase, 0, {}); }

void Journal::note_everything() { note(ChangeKind::kEverything, 0, {}); }

Status Journal::write() {
  if (pending_.empty() && !wants_row_) return Ok{};
  if (overflowed_) {
    pending_.clear();
    pending_ += static_cast<char>(ChangeKind::kEverything);
    put_varint(pending_, 0);
  }
  insert_.bind(1, clock_.now_us()).bind(2, origin_).bind(3, as_bytes(pending_));
  insert_.bind(4, database_.next_commit_number());
  WARREN_TRY(insert_.bind(5, author_.door).bind(6, author_.space).run());
  discard();
  has_row_ = true;
  std::int64_t seq = database_.last_insert_id();
  // Rarely and many at a time, so that trimming costs almost nothing per transaction.
  if (seq % 4096 == 0) return trim_.bind(1, seq - limits::kJournalRows).run();
  return Ok{};
}

Result<std::int64_t> Journal::last_seq() {
  auto guard = database_.lock();
  std::optional<std::int64_t> seq = WARREN_TRY(last_.find_integer());
  return seq.value_or(0);
}

Result<std::int64_t> Journal::last_change_seq() {
  auto guard = database_.lock();
  std::optional<std::int64_t> seq = WARREN_TRY(last_change_.find_integer());
  return seq.value_or(0);
}

Result<std::optional<std::vector<JournalRow>>> Journal::read_after(std::int64_t seq, std::size_t max) {
  // One view for both queries: otherwise rows could be trimmed between them, unnoticed.
  Transaction scope = WARREN_TRY(Transaction::begin(database_, Access::kRead));
  std::optional<std::int64_t> first = WARREN_TRY(first_.find_integer());
  if (first && *first - 1 > seq) return std::optional<std::vector<JournalRow>>();
  std::vector<JournalRow> found;
  Rows rows = select_.bind(1, seq).bind(2, std::uint64_t{max}).rows();
  while (WARREN_TRY(rows.next())) {
    Result<std::vector<Change>> changes = decode_changes(rows.blob(3));
    if (!changes.ok()) changes = std::vector<Change>{{.kind = ChangeKind::kEverything, .id = 0, .name = {}}};
    std::optional<std::int64_t> number;
    if (rows.type(4) == ColumnType::kInteger) number = rows.integer(4);
    JournalAuthor author{.door = std::string(rows.text(5)), .space = std::string(rows.text(6))};
    found.push_back(
        {rows.integer(0), rows.integer(1), rows.integer(2), number, *std::move(changes), std::move(author)});
  }
  return std::optional(std::move(found));
}

Result<std::vector<Change>> decode_changes(Bytes encoded) {
  std::vector<Change> changes;
  while (!encoded.empty()) {
    auto kind_byte = static_cast<std::uint8_t>(encoded[0]);
    encoded = encoded.subspan(1);
    std::optional<std::uint64_t> id = take_varint(encoded);
    if (!is_kind(kind_byte) || !id) return Error(Code::kCorrupt, "a row of wr_journal is not a list of changes");
    Change change{.kind = static_cast<ChangeKind>(kind_byte), .id = *id, .name = {}};
    if (has_name(change.kind)) {
      std::optional<std::uint64_t> length = take_varint(encoded);
      if (!length || *length > encoded.size()) {
        return Error(Code::kCorrupt, "a name in wr_journal is cut off");
      }
      change.name = as_text(encoded.first(*length));
      encoded = encoded.subspan(*length);
    }
    changes.push_back(std::move(change));
  }
  return changes;
}

}  // namespace warren
