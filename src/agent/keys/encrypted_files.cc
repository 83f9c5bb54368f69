#include "agent/keys/encrypted_files.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "agent/agent.h"
#include "agent/copies/create.h"
#include "agent/keys/pattern_places.h"
#include "agent/locate.h"
#include "base/limits.h"
#include "base/path.h"
#include "store/ciphers/cipher_patterns.h"
#include "store/files/sqlite_fs.h"
#include "store/history/history.h"
#include "store/overlay/overlay_schema.h"
#include "store/table_names.h"

namespace warren {
namespace {

Result<std::string> locate_for_patterns(const FileEncryption& options) {
  std::string path = WARREN_TRY(locate_agent(options.id_or_path));
  if (path == kMemoryAgent) return Error(Code::kInvalid, "an agent in memory has no file to encrypt");
  return path;
}

Result<std::unique_ptr<Store>> open_with_keys(const std::string& path, Clock& clock) {
  auto store = WARREN_TRY(
      Store::open(path, {.find_key = agent_keys(path), .find_content_key = agent_content_keys(path)}, clock));
  if (store->schema().is_current()) return store;
  return Error(Code::kReadOnly, fmt::format("{} has an older schema and can only be read", quote(path)),
               fmt::format("`warren migrate {}` upgrades it", path));
}

// What the agent has, before anything is changed.
struct KnownKeys {
  std::vector<ContentKeyRow> keys;
  std::vector<CipherPattern> patterns;

  const CipherPattern* find(const std::string& pattern) const {
    auto found = std::ranges::find(patterns, pattern, &CipherPattern::pattern);
    return found == patterns.end() ? nullptr : &*found;
  }
  // The newest that is in use.
  std::optional<std::int64_t> newest() const {
    std::optional<std::int64_t> id;
    for (const ContentKeyRow& key : keys) {
      if (!key.replaced_by) id = key.id;
    }
    return id;
  }
};

KnownKeys known_keys(Store& store) {
  if (store.content_keys() == nullptr) return {};
  return {.keys = store.content_keys()->rows(), .patterns = store.content_keys()->patterns()};
}

// Only new ones are refused. With a base, the first tree is the project's, which has any names; an agent that is
// encrypted as a whole leaves nothing out.
Status check_places(const FileEncryption& options, Store& store, const KnownKeys& known, FileEncryptionReport& report) {
  std::optional<std::string> base = WARREN_TRY(find_overlay_base(store));
  bool is_all_encrypted = store.database().key() != nullptr;
  for (const std::string& pattern : options.patterns) {
    bool is_checked = !base && known.find(pattern) == nullptr;
    Status checked = is_checked ? check_matches_files(pattern) : Status(Ok{});
    if (!checked.ok() && is_all_encrypted) {
      return std::move(checked).take_error().with_hint("the agent is encrypted as a whole, and this with it");
    }
    WARREN_TRY(std::move(checked));
    if (is_all_encrypted) continue;
    for (std::string& place : list_places_left_out(pattern, options.mounts)) {
      bool is_known = std::ranges::find(report.left_out, place) != report.left_out.end();
      if (!is_known) report.left_out.push_back(std::move(place));
    }
  }
  return Ok{};
}

// Runs `change` while nobody else has the agent open.
Status change_alone(const std::string& path, const std::function<Status(Database&)>& change) {
  auto database = WARREN_TRY(Database::open(path, {.mode = OpenMode::kReadWrite, .find_key = agent_keys(path)}));
  WARREN_TRY(database->hold_alone());
  return change(*database);
}

// With a new key, whose note is written first: a note without its key does no harm, a key without a note would.
Status change_with_new_key(const FileEncryption& options, FileEncryptionReport& report,
                           const std::function<Status(Database&, std::int64_t key)>& change) {
  NotedContentKey key = WARREN_TRY(make_content_key(options.source, report.path));
  bool is_stored = false;
  Status changed = change_alone(report.path, [&](Database& database) -> Status {
    Transaction scope = WARREN_TRY(Transaction::begin(database, Access::kWrite));
    std::int64_t id = WARREN_TRY(add_content_key(database, key.key));
    WARREN_TRY(change(database, id));
    is_stored = true;  // perhaps: an error of the commit may come after it took effect
    return scope.commit();
  });
  if (!changed.ok() && !is_stored) remove_key_note(key);
  return changed;
}

// The keys of these patterns, and where they are: also for somebody who runs an interrupted command again.
Status find_keys(const FileEncryption& options, FileEncryptionReport& report, Clock& clock) {
  std::vector<ContentKeyPlace> all = WARREN_TRY(list_content_key_places(report.path, clock));
  for (ContentKeyPlace& place : all) {
    bool is_used = std::ranges::any_of(place.patterns, [&](const std::string& one) {
      return std::ranges::find(options.patterns, one) != options.patterns.end();
    });
    if (is_used) report.keys.push_back(std::move(place));
  }
  return Ok{};
}

// Keys and patterns have changed, and files as far as it came.
Status say_what_was_done(Status ended, const RecodedFiles& done, std::string_view what) {
  if (ended.ok()) return ended;
  const Error& why = ended.error();
  std::string_view first = why.code() == Code::kNoSpace ? "free some space and " : "";
  return Error(why.code(),
               fmt::format("{}; before that, {} {} {}", why.message(), done.files,
                           done.files == 1 ? "file was" : "files were", what),
               fmt::format("{}run the same command again: it goes on", first));
}

Status count_checkpoints(Store& store, FileEncryptionReport& report) {
  std::vector<Checkpoint> all = WARREN_TRY(History(store).list());
  report.checkpoints = all.size();
  return Ok{};
}

// Only those that need a key which these patterns had before.
Status count_checkpoints_of_old_keys(Store& store, const FileEncryption& options, FileEncryptionReport& report) {
  KnownKeys known = known_keys(store);
  for (const ContentKeyRow& row : known.keys) {
    bool is_old = row.replaced_by && std::ranges::any_of(options.patterns, [&](const std::string& one) {
                    const CipherPattern* pattern = known.find(one);
                    return pattern != nullptr && pattern->key == *row.replaced_by;
                  });
    if (!is_old) continue;
    KeyUse use = WARREN_TRY(measure_key_use(store, row.id));
    report.checkpoints += use.checkpoints;
  }
  return Ok{};
}

Error unknown_pattern(const std::string& pattern, const KnownKeys& known) {
  std::vector<std::string> names;
  for (const CipherPattern& one : known.patterns) names.push_back(quote(one.pattern));
  return {Code::kNotFound, fmt::format("no files are encrypted by the pattern {}", quote(pattern)),
          names.empty() ? std::string("`warren encrypt ID PATTERN` encrypts files")
                        : fmt::format("the patterns are {}", fmt::join(names, ", "))};
}

// Not by a VACUUM, which holds all of it in memory and in a journal.
Result<std::optional<Error>> compact_if_possible(const std::string& path) {
  Status done = compact_agent(path);
  if (done.ok()) return std::optional<Error>();
  Code why = done.error().code();
  if (why != Code::kBusy && why != Code::kNoSpace) return std::move(done).take_error();
  return std::optional(std::move(done).take_error());
}

Result<bool> has_cipher_files(const std::string& path) {
  auto database = WARREN_TRY(Database::open(path, {.mode = OpenMode::kReadOnly, .find_key = agent_keys(path)}));
  TableNames names = WARREN_TRY(TableNames::read(*database));
  return names.has("wr_cipher_file");
}

}  // namespace

Result<std::optional<Error>> compact_after_removal(const std::string& path) {
  if (path == kMemoryAgent || !WARREN_TRY(has_cipher_files(path))) return std::optional<Error>();
  return compact_if_possible(path);
}

namespace {

Status encrypt_known_patterns(const FileEncryption& options, FileEncryptionReport& report, Clock& clock) {
  auto store = WARREN_TRY(open_with_keys(report.path, clock));
  WARREN_TRY(encrypt_matching(*store, options.patterns, report.done));
  WARREN_TRY(remove_traces(*store));
  return count_checkpoints(*store, report);
}

}  // namespace

Result<FileEncryptionReport> encrypt_files(const FileEncryption& options, Clock& clock) {
  FileEncryptionReport report;
  for (const std::string& pattern : options.patterns) WARREN_TRY(check_cipher_pattern(pattern));
  report.path = WARREN_TRY(locate_for_patterns(options));
  KnownKeys known;
  {
    auto store = WARREN_TRY(open_with_keys(report.path, clock));
    known = known_keys(*store);
    WARREN_TRY(check_places(options, *store, known, report));
    bool uses_newest = known.newest() && !options.source;
    if (uses_newest) WARREN_TRY(store->content_keys()->get(*known.newest()).within("encrypt files"));
  }
  bool is_all_known =
      std::ranges::all_of(options.patterns, [&](const auto& one) { return known.find(one) != nullptr; });
  if (is_all_known && options.source) {
    return Error(Code::kExists, "these patterns have a key already", "`warren rekey ID PATTERN` changes it");
  }
  std::optional<std::int64_t> key = known.newest();
  if (!is_all_known && key && !options.source) {
    WARREN_TRY(
        change_alone(report.path, [&](Database& database) { return add_patterns(database, options.patterns, *key); }));
  } else if (!is_all_known) {
    WARREN_TRY(change_with_new_key(options, report, [&](Database& database, std::int64_t id) {
      return add_patterns(database, options.patterns, id);
    }));
  }
  WARREN_TRY(say_what_was_done(encrypt_known_patterns(options, report, clock), report.done,
                               "encrypted, and new ones are encrypted from now on"));
  WARREN_TRY(remove_search_index(report.path));  // it may have the text of these files
  report.not_compact = WARREN_TRY(compact_if_possible(report.path));
  WARREN_TRY(find_keys(options, report, clock));
  return report;
}

Result<FileEncryptionReport> decrypt_files(const FileEncryption& options, Clock& clock) {
  FileEncryptionReport report;
  report.path = WARREN_TRY(locate_for_patterns(options));
  KnownKeys known;
  bool is_any_known = false;
  {
    auto before = WARREN_TRY(open_with_keys(report.path, clock));
    known = known_keys(*before);
    if (known.keys.empty()) return unknown_pattern(options.patterns.front(), known);
    // Without its key a pattern stays: files that are made later would be plain, and those that are there encrypted.
    for (const std::string& pattern : options.patterns) {
      const CipherPattern* found = known.find(pattern);
      is_any_known = is_any_known || found != nullptr;
      if (found != nullptr) WARREN_TRY(before->content_keys()->get(found->key));
    }
  }
  if (is_any_known) {
    WARREN_TRY(
        change_alone(report.path, [&](Database& database) { return remove_patterns(database, options.patterns); }));
  }
  auto store = WARREN_TRY(open_with_keys(report.path, clock));
  WARREN_TRY(say_what_was_done(decrypt_matching(*store, options.patterns, report.done), report.done,
                               "decrypted, and the patterns have ended"));
  bool did_nothing =
      !is_any_known && report.done.files == 0 && report.done.given_other_key == 0 && report.done.failed == 0;
  if (did_nothing) return unknown_pattern(options.patterns.front(), known);
  return report;
}

namespace {

// What is damaged, or has a key that nobody knows, keeps that key, whatever is called.
Result<bool> can_be_read(SqliteFs& fs, Inode node) {
  std::vector<std::byte> buffer(limits::kCopyBytes);
  for (std::uint64_t at = 0;;) {
    Result<std::size_t> got = fs.read(node, at, buffer);
    Code why = got.ok() ? Code::kInternal : got.error().code();
    bool is_lost = !got.ok() && (why == Code::kCorrupt || why == Code::kDenied || why == Code::kStale);
    if (is_lost) return false;
    std::size_t count = WARREN_TRY(std::move(got));
    if (count == 0) return true;
    at += count;
  }
}

// Whether an earlier call has given these patterns a key, and was interrupted before all files had it.
Result<bool> is_unfinished(Store& store, const std::vector<std::int64_t>& keys) {
  for (const ContentKeyRow& row : store.content_keys()->rows()) {
    if (!row.replaced_by || std::ranges::find(keys, *row.replaced_by) == keys.end()) continue;
    std::vector<Inode> left;
    {
      Transaction view = WARREN_TRY(Transaction::begin(store.database(), Access::kRead));
      left = WARREN_TRY(store.fs().ciphers()->list_of_key(row.id));
    }
    for (Inode node : left) {
      if (WARREN_TRY(can_be_read(store.fs(), node))) return true;
    }
  }
  return false;
}

}  // namespace

Result<FileEncryptionReport> rekey_files(const FileEncryption& options, Clock& clock) {
  FileEncryptionReport report;
  report.path = WARREN_TRY(locate_for_patterns(options));
  std::vector<std::int64_t> old;
  bool goes_on = false;
  {
    auto store = WARREN_TRY(open_with_keys(report.path, clock));
    KnownKeys known = known_keys(*store);
    for (const std::string& pattern : options.patterns) {
      const CipherPattern* found = known.find(pattern);
      if (found == nullptr) return unknown_pattern(pattern, known);
      old.push_back(found->key);
      WARREN_TRY(store->content_keys()->get(found->key));  // without it, nothing can be encrypted anew
    }
    goes_on = WARREN_TRY(is_unfinished(*store, old));
  }
  if (goes_on && options.source) {
    return Error(Code::kExists, "an earlier change of this key is not finished, and has its own new one",
                 "run it without a key option first, to finish that");
  }
  if (!goes_on) {
    WARREN_TRY(change_with_new_key(
        options, report, [&](Database& database, std::int64_t id) { return replace_keys(database, old, id); }));
  }
  auto store = WARREN_TRY(open_with_keys(report.path, clock));
  WARREN_TRY(say_what_was_done(finish_replacing_keys(*store, report.done), report.done, "given the new key"));
  WARREN_TRY(count_checkpoints_of_old_keys(*store, options, report));
  store.reset();
  WARREN_TRY(find_keys(options, report, clock));
  return report;
}

Result<CipherCheck> check_encrypted_content(const std::string& path, Clock& clock) {
  if (!WARREN_TRY(has_cipher_files(path))) return CipherCheck();
  auto store = WARREN_TRY(Store::open(
      path, {.mode = OpenMode::kReadOnly, .find_key = agent_keys(path), .find_content_key = agent_content_keys(path)},
      clock));
  return check_encrypted_files(*store);
}

}  // namespace warren
