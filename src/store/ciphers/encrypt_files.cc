#include "store/ciphers/encrypt_files.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "db/transaction.h"
#include "fs/tree_ops.h"
#include "store/ciphers/cipher_patterns.h"
#include "store/files/namespace_tree.h"
#include "store/files/sqlite_fs.h"
#include "store/record/journal.h"
#include "store/table_names.h"
#include "text/glob.h"

namespace warren {
namespace {

constexpr std::size_t kProblemsNamed = 20;
constexpr std::size_t kCheckBytes = std::size_t{1} << 20;

// By inode: the path of the first of its names that matches.
using FoundFiles = std::map<std::uint64_t, std::string>;

// Both trees: the namespace of an agent with a base has files, too.
Status for_each_file(Store& store, const std::function<void(Inode node, const std::string& path)>& visit) {
  auto see = [&](const WalkEntry& entry) -> Result<WalkNext> {
    if (entry.attributes.is_file()) visit(entry.attributes.inode, entry.path);
    return WalkNext::kContinue;
  };
  WARREN_TRY(walk(store.fs(), "/", see));
  if (!WARREN_TRY(store.fs().find_namespace_root())) return Ok{};
  auto names = WARREN_TRY(NamespaceTree::open_in(store));
  return walk(*names, "/", see);
}

Result<FoundFiles> find_matching(Store& store, const std::vector<std::string>& patterns) {
  std::vector<Glob> globs(patterns.begin(), patterns.end());
  FoundFiles found;
  WARREN_TRY(for_each_file(store, [&](Inode node, const std::string& path) {
    bool is_wanted = std::ranges::any_of(globs, [&](const Glob& glob) { return covers_path(glob, path); });
    if (is_wanted) found.try_emplace(node.value, path);
  }));
  return found;
}

void add_problem(std::vector<std::string>& problems, std::uint64_t& failed, const std::string& what, const Error& why) {
  ++failed;
  if (problems.size() < kProblemsNamed) problems.push_back(fmt::format("{}: {}", what, why.message()));
}

// In one state, so that a writer in between is not mistaken for damage.
Status check_content(Store& store, Inode node, std::string& buffer) {
  auto unit = WARREN_TRY(store.fs().begin(UnitAccess::kRead));
  for (std::uint64_t offset = 0;;) {
    std::size_t count = WARREN_TRY(store.fs().read(node, offset, as_mutable_bytes(buffer)));
    if (count == 0) return Ok{};
    offset += count;
  }
}

// A file that turns out to be damaged halfway takes the transaction around it with it: then its content is read first.
Status check_before_recoding(Store& store, Inode node) {
  auto guard = store.database().lock();
  if (!store.database().is_in_transaction()) return Ok{};
  std::string buffer(kCheckBytes, '\0');
  return check_content(store, node, buffer);
}

// One file, in a transaction of its own, or a part of the one around it. One that is gone meanwhile is none.
Status recode_one(Store& store, Inode node, const std::string& what, std::optional<std::int64_t> key,
                  RecodedFiles& done) {
  Result<Attributes> before = store.fs().get_attributes(node);
  Status recoded = before.ok() ? check_before_recoding(store, node) : Status(before.error());
  if (recoded.ok()) recoded = store.fs().recode(node, key);
  if (recoded.ok()) {
    ++done.files;
    done.bytes += before->size;
    done.nodes.push_back(node);
    return Ok{};
  }
  Code code = recoded.error().code();
  if (code == Code::kStale) return Ok{};
  // Of this file; anything else, a full disk for example, ends it all.
  bool is_its_own = code == Code::kCorrupt || code == Code::kDenied;
  if (!is_its_own) return std::move(recoded).within(what);
  add_problem(done.problems, done.failed, what, recoded.error());
  return Ok{};
}

}  // namespace

Result<std::int64_t> add_content_key(Database& database, const NewContentKey& key) {
  Transaction scope = WARREN_TRY(Transaction::begin(database, Access::kWrite));
  WARREN_TRY(make_cipher_tables(database));
  Statement count = WARREN_TRY(database.prepare("SELECT count(*) FROM wr_cipher_key"));
  auto keys = WARREN_TRY(count.find_integer());
  if (keys.value_or(0) >= static_cast<std::int64_t>(limits::kContentKeys)) {
    return Error(Code::kLimit, fmt::format("an agent has at most {} keys for files", limits::kContentKeys));
  }
  Statement insert = WARREN_TRY(database.prepare("INSERT INTO wr_cipher_key (salt, proof) VALUES (?, ?)"));
  Sha256::Value proof = ContentKey::proof_of(as_bytes(key.secret));
  WARREN_TRY(insert.bind(1, as_bytes(key.salt)).bind(2, Bytes(proof)).run());
  std::int64_t id = database.last_insert_id();
  WARREN_TRY(scope.commit());
  return id;
}

Status add_patterns(Database& database, const std::vector<std::string>& patterns, std::int64_t key) {
  Transaction scope = WARREN_TRY(Transaction::begin(database, Access::kWrite));
  Statement insert = WARREN_TRY(
      database.prepare("INSERT INTO wr_cipher_pattern (pattern, key_id) VALUES (?, ?) ON CONFLICT DO NOTHING"));
  for (const std::string& pattern : patterns) WARREN_TRY(insert.bind(1, std::string_view(pattern)).bind(2, key).run());
  Statement count = WARREN_TRY(database.prepare("SELECT count(*) FROM wr_cipher_pattern"));
  auto rows = WARREN_TRY(count.find_integer());
  if (rows.value_or(0) > static_cast<std::int64_t>(limits::kCipherPatterns)) {
    return Error(Code::kLimit, fmt::format("an agent has at most {} patterns", limits::kCipherPatterns));
  }
  return scope.commit();
}

Status remove_patterns(Database& database, const std::vector<std::string>& patterns) {
  Transaction scope = WARREN_TRY(Transaction::begin(database, Access::kWrite));
  Statement erase = WARREN_TRY(database.prepare("DELETE FROM wr_cipher_pattern WHERE pattern = ?"));
  for (const std::string& pattern : patterns) WARREN_TRY(erase.bind(1, std::string_view(pattern)).run());
  return scope.commit();
}

Status replace_keys(Database& database, const std::vector<std::int64_t>& old, std::int64_t key) {
  Transaction scope = WARREN_TRY(Transaction::begin(database, Access::kWrite));
  Statement patterns = WARREN_TRY(database.prepare("UPDATE wr_cipher_pattern SET key_id = ?1 WHERE key_id = ?2"));
  Statement keys =
      WARREN_TRY(database.prepare("UPDATE wr_cipher_key SET replaced_by = ?1 WHERE id = ?2 OR replaced_by = ?2"));
  for (std::int64_t one : old) {
    WARREN_TRY(patterns.bind(1, key).bind(2, one).run());
    WARREN_TRY(keys.bind(1, key).bind(2, one).run());
  }
  return scope.commit();
}

namespace {

// Nullopt if it is not encrypted, or gone.
Result<std::optional<std::int64_t>> key_of_file(Store& store, Inode node, bool& is_gone) {
  Result<std::optional<std::int64_t>> has = store.fs().find_content_key(node);
  is_gone = !has.ok() && has.error().code() == Code::kStale;
  if (is_gone) return std::optional<std::int64_t>();
  return has;
}

Status give_keys_of_patterns(Store& store, const FoundFiles& found, RecodedFiles& done) {
  for (const auto& [number, path] : found) {
    std::optional<std::int64_t> wanted = store.content_keys()->find_for(path);
    bool is_gone = false;
    std::optional<std::int64_t> has = WARREN_TRY(key_of_file(store, Inode{number}, is_gone));
    if (is_gone || !wanted || has == wanted) continue;
    WARREN_TRY(recode_one(store, Inode{number}, quote(path), wanted, done));
  }
  return Ok{};
}

// Those that have a key which was replaced, except these.
Status give_new_keys(Store& store, const FoundFiles& except, RecodedFiles& done) {
  for (const ContentKeyRow& row : store.content_keys()->rows()) {
    if (!row.replaced_by) continue;
    std::vector<Inode> nodes;
    {
      Transaction view = WARREN_TRY(Transaction::begin(store.database(), Access::kRead));
      nodes = WARREN_TRY(store.fs().ciphers()->list_of_key(row.id));
    }
    for (Inode node : nodes) {
      if (except.contains(node.value)) continue;
      WARREN_TRY(recode_one(store, node, fmt::format("inode {}", node.value), row.replaced_by, done));
    }
  }
  return Ok{};
}

}  // namespace

Status encrypt_matching(Store& store, const std::vector<std::string>& patterns, RecodedFiles& done) {
  FoundFiles found = WARREN_TRY(find_matching(store, patterns));
  return give_keys_of_patterns(store, found, done);
}

Status decrypt_matching(Store& store, const std::vector<std::string>& patterns, RecodedFiles& done) {
  FoundFiles found = WARREN_TRY(find_matching(store, patterns));
  for (const auto& [number, path] : found) {
    bool is_gone = false;
    std::optional<std::int64_t> has = WARREN_TRY(key_of_file(store, Inode{number}, is_gone));
    if (is_gone || !has) continue;
    std::optional<std::int64_t> other = store.content_keys()->find_for(path);
    if (other) ++done.kept;
    if (has == other) continue;
    RecodedFiles moved;  // to another key: not decrypted
    WARREN_TRY(recode_one(store, Inode{number}, quote(path), other, other ? moved : done));
    done.given_other_key += moved.files;
    done.failed += moved.failed;
    done.problems.insert(done.problems.end(), moved.problems.begin(), moved.problems.end());
  }
  return Ok{};
}

Status encrypt_by_patterns(Store& store, RecodedFiles& done) {
  if (store.content_keys() == nullptr) return Ok{};
  std::vector<std::string> patterns;
  for (const CipherPattern& one : store.content_keys()->patterns()) patterns.push_back(one.pattern);
  FoundFiles found;
  if (!patterns.empty()) found = WARREN_TRY(find_matching(store, patterns));
  WARREN_TRY(give_keys_of_patterns(store, found, done));
  WARREN_TRY(give_new_keys(store, found, done));
  return remove_traces(store);
}

Result<KeyUse> measure_key_use(Store& store, std::int64_t key) {
  TableNames names = WARREN_TRY(TableNames::read(store.database()));
  auto count = [&](Sql query) -> Result<std::uint64_t> {
    Statement statement = WARREN_TRY(store.database().prepare(query));
    auto found = WARREN_TRY(statement.bind(1, key).find_integer());
    return static_cast<std::uint64_t>(found.value_or(0));
  };
  KeyUse use;
  use.files =
      WARREN_TRY(count("SELECT count(*) FROM wr_cipher_file c JOIN fs_inode i ON i.ino = c.ino WHERE c.key_id = ?"));
  if (!names.has("wr_past_cipher_file") || !names.has("wr_checkpoint")) return use;
  use.checkpoints =
      WARREN_TRY(count("SELECT count(*) FROM wr_checkpoint c WHERE EXISTS (SELECT 1 FROM wr_past_cipher_file p"
                       " WHERE p.key_id = ? AND p.since <= c.id AND p.until > c.id)"));
  return use;
}

namespace {

// That no file has, and no checkpoint needs.
Status remove_unused_keys(Store& store) {
  TableNames names = WARREN_TRY(TableNames::read(store.database()));
  Transaction scope = WARREN_TRY(store.begin_write());
  JoinedSql erase =
      Sql("DELETE FROM wr_cipher_key WHERE replaced_by IS NOT NULL AND id NOT IN (SELECT key_id FROM wr_cipher_file)");
  if (names.has("wr_past_cipher_file")) erase += Sql(" AND id NOT IN (SELECT key_id FROM wr_past_cipher_file)");
  WARREN_TRY(store.database().execute(erase));
  return scope.commit();
}

}  // namespace

Status finish_replacing_keys(Store& store, RecodedFiles& done) {
  WARREN_TRY(give_new_keys(store, {}, done));
  return remove_unused_keys(store);
}

namespace {

// Checkpoints cover this table, so the journal has to list its nodes.
Status remove_ancestors(Store& store) {
  Statement query = WARREN_TRY(store.database().prepare(
      "SELECT delta_ino FROM wr_ancestor WHERE delta_ino IN (SELECT ino FROM wr_cipher_file)"));
  {
    Rows rows = query.rows();
    while (WARREN_TRY(rows.next())) {
      store.journal()->note_attributes(Inode{static_cast<std::uint64_t>(rows.integer(0))});
    }
  }
  return store.database().execute("DELETE FROM wr_ancestor WHERE delta_ino IN (SELECT ino FROM wr_cipher_file)");
}

}  // namespace

// These tables belong to OverlayRows and VectorRows, which keep nothing of an encrypted file by themselves.
Status remove_traces(Store& store) {
  TableNames names = WARREN_TRY(TableNames::read(store.database()));
  Transaction scope = WARREN_TRY(store.begin_write());
  if (names.has("wr_ancestor")) WARREN_TRY(remove_ancestors(store));
  if (names.has("wr_vector")) {
    WARREN_TRY(store.database().execute("DELETE FROM wr_vector WHERE ino IN (SELECT ino FROM wr_cipher_file)"));
  }
  return scope.commit();
}

Result<CipherCheck> check_encrypted_files(Store& store) {
  CipherCheck check;
  if (store.fs().ciphers() == nullptr) return check;
  std::vector<Inode> nodes;
  {
    Transaction view = WARREN_TRY(Transaction::begin(store.database(), Access::kRead));
    nodes = WARREN_TRY(store.fs().ciphers()->list());
  }
  std::unordered_map<std::uint64_t, std::string> paths;
  for (Inode node : nodes) paths.emplace(node.value, std::string());
  WARREN_TRY(for_each_file(store, [&](Inode node, const std::string& path) {
    auto wanted = paths.find(node.value);
    if (wanted != paths.end() && wanted->second.empty()) wanted->second = path;
  }));
  std::string buffer(kCheckBytes, '\0');
  for (Inode node : nodes) {
    Status read = check_content(store, node, buffer);
    if (!read.ok() && read.error().code() == Code::kStale) continue;
    ++check.files;
    if (read.ok()) continue;
    const std::string& path = paths[node.value];
    if (read.error().code() == Code::kDenied) ++check.unknown;
    else if (read.error().code() != Code::kCorrupt) return std::move(read).take_error();
    else
      add_problem(check.problems, check.failed, path.empty() ? fmt::format("inode {}", node.value) : quote(path),
                  read.error());
  }
  return check;
}

}  // namespace warren
