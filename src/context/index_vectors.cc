#include "context/index_vectors.h"

#include <cstring>
#include <unordered_set>

#include <fmt/format.h>

#include "backends/vector/vector_item.h"
#include "base/path.h"
#include "context/index_rows.h"
#include "crypto/hmac.h"

namespace warren {
namespace {

constexpr std::size_t kHashBytes = 32;

// Nothing about the stored bytes is trusted: a wrong length, or numbers that are not a direction, are no vector.
bool read_numbers(Bytes blob, std::vector<float>& numbers) {
  if (blob.size() != numbers.size() * sizeof(float)) return false;
  std::memcpy(numbers.data(), blob.data(), blob.size());
  return check_embedding(numbers).ok();
}

}  // namespace

std::string former_name_of(const std::string& model) { return model + " (former)"; }

Result<std::unique_ptr<IndexVectors>> IndexVectors::open(Database& database) {
  std::unique_ptr<IndexVectors> made(new IndexVectors(database));
  IndexVectors& v = *made;
  auto guard = database.lock();
  v.find_model_ = WARREN_TRY(database.prepare("SELECT id FROM model WHERE name = ?"));
  v.put_model_ = WARREN_TRY(
      database.prepare("INSERT INTO model (name, dimensions) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET "
                       "dimensions = ?2 RETURNING id"));
  v.drop_vectors_ = WARREN_TRY(database.prepare("DELETE FROM vector WHERE model = ? AND length(numbers) <> ?"));
  v.has_waiting_ = WARREN_TRY(database.prepare("SELECT 1 FROM waiting LIMIT 1"));
  v.get_meta_ = WARREN_TRY(database.prepare("SELECT value FROM meta WHERE key = ?"));
  v.put_meta_ = WARREN_TRY(database.prepare("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)"));
  v.wait_for_all_ = WARREN_TRY(
      database.prepare("INSERT OR IGNORE INTO waiting (hash) SELECT hash FROM chunk WHERE hash IS NOT NULL AND NOT "
                       "EXISTS (SELECT 1 FROM vector WHERE model = ? AND vector.hash = chunk.hash)"));
  v.count_waiting_ = WARREN_TRY(database.prepare("SELECT count(*) FROM waiting"));
  v.count_embedded_ = WARREN_TRY(database.prepare("SELECT count(*) FROM vector WHERE model = ?"));
  v.list_waiting_ = WARREN_TRY(database.prepare("SELECT hash FROM waiting WHERE hash >= ? ORDER BY hash LIMIT ?"));
  v.text_of_ = WARREN_TRY(database.prepare("SELECT heading, body FROM chunk WHERE hash = ? LIMIT 1"));
  v.stop_waiting_ = WARREN_TRY(database.prepare("DELETE FROM waiting WHERE hash = ?"));
  v.put_ = WARREN_TRY(database.prepare("INSERT OR IGNORE INTO vector (model, hash, numbers) VALUES (?, ?, ?)"));
  v.hash_of_vector_ = WARREN_TRY(database.prepare("SELECT hash FROM vector WHERE id = ?"));
  v.numbers_of_ = WARREN_TRY(database.prepare("SELECT numbers FROM vector WHERE id = ?"));
  v.load_ = WARREN_TRY(database.prepare("SELECT id, numbers FROM vector WHERE id > ? AND +model = ? ORDER BY id"));
  v.list_ids_ = WARREN_TRY(database.prepare("SELECT id FROM vector WHERE model = ?"));
  return made;
}

Result<std::optional<std::int64_t>> IndexVectors::find_model(std::string_view name) {
  return find_model_.bind(1, name).find_integer();
}

Result<bool> IndexVectors::is_model_in_use(const std::string& name, std::size_t dimensions) {
  std::string noted;
  {
    Rows rows = get_meta_.bind(1, "model").rows();
    if (WARREN_TRY(rows.next())) noted = rows.text(0);
  }
  Statement find = WARREN_TRY(database_.prepare("SELECT id FROM model WHERE name = ? AND dimensions = ?"));
  std::optional<std::int64_t> id =
      WARREN_TRY(find.bind(1, std::string_view(name)).bind(2, std::uint64_t{dimensions}).find_integer());
  if (!id || noted != name) return false;
  model_ = id;
  dimensions_ = dimensions;
  return true;
}

Status IndexVectors::use_model(const std::string& name, std::size_t dimensions) {
  if (WARREN_TRY(is_model_in_use(name, dimensions))) return Ok{};
  model_ = WARREN_TRY(put_model_.bind(1, std::string_view(name)).bind(2, std::uint64_t{dimensions}).find_integer());
  if (!model_) return Error(Code::kInternal, fmt::format("the model {} was not noted", quote(name)));
  dimensions_ = dimensions;
  // A model of this name with other dimensions is another model.
  WARREN_TRY(drop_vectors_.bind(1, *model_).bind(2, std::uint64_t{dimensions * sizeof(float)}).run());
  WARREN_TRY(put_meta_.bind(1, "model").bind(2, std::string_view(name)).run());
  return wait_for_all_.bind(1, *model_).run();
}

Status IndexVectors::start_again() {
  if (!model_) return Error(Code::kInternal, "no model is in use");
  Statement get = WARREN_TRY(database_.prepare("SELECT name FROM model WHERE id = ?"));
  std::string name;
  {
    Rows rows = get.bind(1, *model_).rows();
    if (WARREN_TRY(rows.next())) name = rows.text(0);
  }
  std::string former = former_name_of(name);
  // If it was interrupted before, the vectors from then are as new as those that come.
  if (std::optional<std::int64_t> older = WARREN_TRY(find_model(former))) {
    Statement drop = WARREN_TRY(database_.prepare("DELETE FROM vector WHERE model = ?"));
    WARREN_TRY(drop.bind(1, *older).run());
    Statement forget = WARREN_TRY(database_.prepare("DELETE FROM model WHERE id = ?"));
    WARREN_TRY(forget.bind(1, *older).run());
    std::int64_t count = WARREN_TRY(count_removals());
    WARREN_TRY(put_meta_.bind(1, "removals").bind(2, count + 1).run());
  }
  Statement rename = WARREN_TRY(database_.prepare("UPDATE model SET name = ?1 WHERE id = ?2"));
  WARREN_TRY(rename.bind(1, std::string_view(former)).bind(2, *model_).run());
  return use_model(name, dimensions_);
}

Result<std::vector<std::string>> IndexVectors::list_models() {
  std::vector<std::string> names;
  Statement list = WARREN_TRY(database_.prepare(
      "SELECT name FROM model WHERE EXISTS (SELECT 1 FROM vector WHERE vector.model = model.id) ORDER BY id DESC"));
  Rows rows = list.rows();
  while (WARREN_TRY(rows.next())) names.emplace_back(rows.text(0));
  return names;
}

Result<bool> IndexVectors::has_waiting() {
  std::optional<std::int64_t> any = WARREN_TRY(has_waiting_.find_integer());
  return any.has_value();
}

Result<std::size_t> IndexVectors::count_waiting() {
  std::optional<std::int64_t> count = WARREN_TRY(count_waiting_.find_integer());
  return static_cast<std::size_t>(count.value_or(0));
}

Result<std::size_t> IndexVectors::count_embedded(const std::string& model) {
  std::optional<std::int64_t> id = WARREN_TRY(find_model(model));
  if (!id) return std::size_t{0};
  std::optional<std::int64_t> count = WARREN_TRY(count_embedded_.bind(1, *id).find_integer());
  return static_cast<std::size_t>(count.value_or(0));
}

Result<std::vector<WaitingText>> IndexVectors::list_waiting(std::size_t max) {
  std::string start(kHashBytes, '\0');
  fill_with_random(as_mutable_bytes(start));
  std::vector<WaitingText> found;
  for (const std::string& from : {start, std::string()}) {
    if (!found.empty()) break;
    Rows rows = list_waiting_.bind(1, as_bytes(from)).bind(2, std::uint64_t{max}).rows();
    while (WARREN_TRY(rows.next())) found.push_back({.hash = std::string(as_text(rows.blob(0))), .text = {}});
  }
  for (WaitingText& one : found) {
    Rows rows = text_of_.bind(1, as_bytes(one.hash)).rows();
    if (WARREN_TRY(rows.next())) one.text = embedded_text(rows.text(0), rows.text(1));
  }
  return found;
}

Status IndexVectors::put(std::string_view hash, std::span<const float> vector) {
  if (!model_ || vector.size() != dimensions_) {
    return Error(Code::kInvalid,
                 fmt::format("the model returned {} numbers instead of {}", vector.size(), dimensions_));
  }
  // The text may have gone since it was taken from the list.
  bool is_there = false;
  {
    Rows rows = text_of_.bind(1, as_bytes(hash)).rows();
    is_there = WARREN_TRY(rows.next());
  }
  if (is_there && check_embedding(vector).ok()) {
    WARREN_TRY(put_.bind(1, *model_).bind(2, as_bytes(hash)).bind(3, std::as_bytes(vector)).run());
  }
  return stop_waiting_.bind(1, as_bytes(hash)).run();
}

Result<std::int64_t> IndexVectors::count_removals() {
  std::optional<std::int64_t> count = WARREN_TRY(get_meta_.bind(1, "removals").find_integer());
  return count.value_or(0);
}

Status IndexVectors::remove_unused() {
  WARREN_TRY(database_.execute(
      "DELETE FROM waiting WHERE hash IN (SELECT hash FROM loose) AND NOT EXISTS (SELECT 1 FROM chunk WHERE "
      "chunk.hash = waiting.hash)"));
  std::int64_t waited = database_.total_changes();
  WARREN_TRY(database_.execute(
      "DELETE FROM vector WHERE hash IN (SELECT hash FROM loose) AND NOT EXISTS (SELECT 1 FROM chunk WHERE "
      "chunk.hash = vector.hash)"));
  if (model_ && !WARREN_TRY(has_waiting())) {
    Statement others = WARREN_TRY(database_.prepare("DELETE FROM vector WHERE model <> ?"));
    WARREN_TRY(others.bind(1, *model_).run());
  }
  bool removed_vectors = database_.total_changes() != waited;
  if (removed_vectors) {
    std::int64_t count = WARREN_TRY(count_removals());
    WARREN_TRY(put_meta_.bind(1, "removals").bind(2, count + 1).run());
  }
  return database_.execute("DELETE FROM loose");
}

// In memory.

Status IndexVectors::load(std::int64_t model, Loaded& loaded) {
  std::int64_t removals = WARREN_TRY(count_removals());
  if (loaded.removals != removals) WARREN_TRY(drop_removed(model, loaded));
  loaded.removals = removals;
  std::vector<float> numbers(loaded.vectors->dimension());
  Rows rows = load_.bind(1, loaded.last_id).bind(2, model).rows();
  while (WARREN_TRY(rows.next())) {
    loaded.last_id = rows.integer(0);
    if (read_numbers(rows.blob(1), numbers)) loaded.vectors->put(static_cast<std::uint64_t>(rows.integer(0)), numbers);
  }
  return Ok{};
}

Status IndexVectors::drop_removed(std::int64_t model, Loaded& loaded) {
  std::unordered_set<std::uint64_t> kept;
  Rows rows = list_ids_.bind(1, model).rows();
  while (WARREN_TRY(rows.next())) kept.insert(static_cast<std::uint64_t>(rows.integer(0)));
  std::vector<std::uint64_t> gone;
  for (std::uint64_t key : loaded.vectors->keys()) {
    if (!kept.contains(key)) gone.push_back(key);
  }
  for (std::uint64_t key : gone) loaded.vectors->remove(key);
  return Ok{};
}

Result<std::vector<MeaningMatch>> IndexVectors::search(const std::string& model, std::span<const float> query,
                                                       std::size_t max, const AcceptHash& accept) {
  std::vector<MeaningMatch> found;
  std::optional<std::int64_t> id = WARREN_TRY(find_model(model));
  if (!id || !check_embedding(query).ok()) return found;
  Loaded& loaded = loaded_[*id];
  if (!loaded.vectors || loaded.vectors->dimension() != query.size()) {
    loaded = {};
    loaded.vectors.emplace(query.size());
  }
  WARREN_TRY(load(*id, loaded));
  std::vector<float> numbers(query.size());
  auto fetch = [&](std::uint64_t key) -> Result<std::span<const float>> {
    Rows rows = numbers_of_.bind(1, key).rows();
    bool is_valid = WARREN_TRY(rows.next())
    &&read_numbers(rows.blob(0), numbers);
    if (!is_valid) return Error(Code::kCorrupt, "a vector of the search index changed while it was read");
    return std::span<const float>(numbers);
  };
  auto hash_by_key = [&](std::uint64_t key) -> Result<std::string> {
    Rows rows = hash_of_vector_.bind(1, key).rows();
    if (!WARREN_TRY(rows.next())) return std::string();
    return std::string(as_text(rows.blob(0)));
  };
  auto accepts = [&](std::uint64_t key) -> Result<bool> {
    std::string hash = WARREN_TRY(hash_by_key(key));
    return accept(hash);
  };
  for (const FlatMatch& match : WARREN_TRY(loaded.vectors->search(query, max, fetch, accepts))) {
    std::string hash = WARREN_TRY(hash_by_key(match.key));
    found.push_back({.hash = std::move(hash), .score = match.score});
  }
  return found;
}

}  // namespace warren
