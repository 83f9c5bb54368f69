#include "store/ciphers/content_keys.h"

#include <algorithm>

#include <string.h>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "crypto/digest.h"
#include "store/ciphers/cipher_patterns.h"

namespace warren {
namespace {

// Part of the format: never change them.
constexpr std::string_view kPrefixPurpose = "warren chunk keys 1";
constexpr std::string_view kStatePurpose = "warren file state 1";
constexpr std::string_view kFingerprintPurpose = "warren fingerprints 1";
constexpr std::string_view kProofPurpose = "warren key proof 1";

constexpr std::size_t kCiphersKept = 256;
constexpr std::size_t kNameDigits = 8;

constexpr Sql kCipherTables = R"sql(
CREATE TABLE IF NOT EXISTS wr_cipher_key (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  salt BLOB NOT NULL UNIQUE,
  proof BLOB NOT NULL,
  replaced_by INTEGER
);
CREATE TABLE IF NOT EXISTS wr_cipher_pattern (
  pattern TEXT PRIMARY KEY,
  key_id INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS wr_cipher_file (
  ino INTEGER PRIMARY KEY,
  key_id INTEGER NOT NULL,
  file_id BLOB NOT NULL,
  size INTEGER NOT NULL,
  mac BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS wr_cipher_chunk (
  ino INTEGER NOT NULL,
  chunk_index INTEGER NOT NULL,
  nonce BLOB NOT NULL,
  tag BLOB NOT NULL,
  PRIMARY KEY (ino, chunk_index)
) WITHOUT ROWID;
)sql";

struct CipherTable {
  std::string_view name;
  std::string_view column;  // the last one that is needed
};
constexpr CipherTable kCipherTableNames[] = {{"wr_cipher_key", "wr_cipher_key.replaced_by"},
                                             {"wr_cipher_pattern", "wr_cipher_pattern.key_id"},
                                             {"wr_cipher_file", "wr_cipher_file.mac"},
                                             {"wr_cipher_chunk", "wr_cipher_chunk.tag"}};

bool has_cipher_tables(const TableNames& names) {
  return std::ranges::any_of(kCipherTableNames, [&](const CipherTable& table) { return names.has(table.name); });
}

// A key of its own for each purpose.
class DerivedKey {
 public:
  DerivedKey(Bytes secret, std::string_view purpose) : value_(hmac_sha256(secret, as_bytes(purpose))) {}
  ~DerivedKey() { ::explicit_bzero(value_.data(), value_.size()); }
  DerivedKey(const DerivedKey&) = delete;
  DerivedKey& operator=(const DerivedKey&) = delete;
  Bytes bytes() const { return value_; }

 private:
  Sha256::Value value_;
};

Result<std::vector<ContentKeyRow>> read_keys(Database& database) {
  Statement query = WARREN_TRY(database.prepare("SELECT id, salt, proof, replaced_by FROM wr_cipher_key ORDER BY id"));
  std::vector<ContentKeyRow> all;
  Rows rows = query.rows();
  while (WARREN_TRY(rows.next())) {
    ContentKeyRow row{.id = rows.integer(0),
                      .salt = std::string(as_text(rows.blob(1))),
                      .proof = std::string(as_text(rows.blob(2))),
                      .replaced_by = {}};
    if (!rows.is_null(3)) row.replaced_by = rows.integer(3);
    if (row.salt.size() != ContentKey::kSaltBytes || row.proof.size() != sizeof(Sha256::Value)) {
      return Error(Code::kCorrupt, fmt::format("key {} in wr_cipher_key is not valid", row.id));
    }
    if (all.size() == limits::kContentKeys) {
      return Error(Code::kLimit, fmt::format("wr_cipher_key has more than {} keys", limits::kContentKeys));
    }
    all.push_back(std::move(row));
  }
  return all;
}

Result<std::vector<CipherPattern>> read_patterns(Database& database) {
  Statement query = WARREN_TRY(database.prepare("SELECT pattern, key_id FROM wr_cipher_pattern"));
  std::vector<CipherPattern> all;
  Rows rows = query.rows();
  while (WARREN_TRY(rows.next())) {
    if (all.size() == limits::kCipherPatterns || rows.text(0).size() > limits::kPathBytes) {
      return Error(Code::kLimit, fmt::format("wr_cipher_pattern has more than {} patterns, or one of over {} bytes",
                                             limits::kCipherPatterns, limits::kPathBytes));
    }
    all.push_back({.pattern = std::string(rows.text(0)), .key = rows.integer(1)});
  }
  return all;
}

}  // namespace

std::vector<std::string_view> list_missing_for_ciphers(const TableNames& names) {
  std::vector<std::string_view> missing;
  if (!has_cipher_tables(names)) return missing;
  for (const CipherTable& table : kCipherTableNames) {
    if (!names.has(table.name)) missing.push_back(table.name);
    else if (!names.has(table.column)) missing.push_back(table.column);
  }
  return missing;
}

Status make_cipher_tables(Database& database) { return database.execute(kCipherTables); }

std::string name_of_content_key(std::string_view salt) { return hex_of(as_bytes(salt)).substr(0, kNameDigits); }

ContentKey::ContentKey(std::int64_t id, Bytes secret)
    : id_(id),
      prefixes_(DerivedKey(secret, kPrefixPurpose).bytes()),
      states_(DerivedKey(secret, kStatePurpose).bytes()),
      fingerprints_(DerivedKey(secret, kFingerprintPurpose).bytes()) {}

Sha256::Value ContentKey::proof_of(Bytes secret) { return hmac_sha256(secret, as_bytes(kProofPurpose)); }

Aes256Gcm& ContentKey::cipher(const Prefix& prefix) {
  auto known = ciphers_.find(prefix);
  if (known != ciphers_.end()) return known->second;
  if (ciphers_.size() >= kCiphersKept) ciphers_.clear();
  Sha256::Value key = prefixes_.sign(prefix);
  auto made = ciphers_.emplace(prefix, Aes256Gcm(key)).first;
  ::explicit_bzero(key.data(), key.size());
  return made->second;
}

Result<std::unique_ptr<ContentKeys>> ContentKeys::load(Database& database, const ContentKeyFinder& find) {
  TableNames names = WARREN_TRY(TableNames::read(database));
  if (!has_cipher_tables(names)) return std::unique_ptr<ContentKeys>();
  if (auto missing = list_missing_for_ciphers(names); !missing.empty()) {
    return Error(
        Code::kCorrupt, fmt::format("it has encrypted files, and {} is missing", missing.front()),
        "restore it from a backup, or `warren fsck --repair` makes what is missing anew: then all but encrypted "
        "files can be read");
  }
  auto keys = std::make_unique<ContentKeys>();
  keys->find_ = find;
  keys->rows_ = WARREN_TRY(read_keys(database));
  keys->patterns_ = WARREN_TRY(read_patterns(database));
  std::ranges::sort(keys->patterns_, decides_before, &CipherPattern::pattern);
  for (const CipherPattern& one : keys->patterns_) keys->globs_.emplace_back(one.pattern);
  // Now, and not with the database's lock held. Keys that no new file gets are seldom needed.
  for (const CipherPattern& one : keys->patterns_) {
    const ContentKeyRow* row = keys->find_row(one.key);
    if (row != nullptr && !keys->opened_.contains(row->id)) keys->opened_.emplace(row->id, keys->open(*row));
  }
  return keys;
}

ContentKeys::Opened ContentKeys::open(const ContentKeyRow& row) const {
  Opened opened;
  std::string name = name_of_content_key(row.salt);
  if (!find_) {
    opened.problem = Error(Code::kDenied, fmt::format("it is encrypted with key {}, which is not known here", name));
    return opened;
  }
  Result<std::string> secret = find_(row.salt);
  if (!secret.ok()) {
    opened.problem =
        Error(Code::kDenied, fmt::format("it is encrypted with key {}: {}", name, secret.error().message()),
              secret.error().hint());
    return opened;
  }
  Sha256::Value proof = ContentKey::proof_of(as_bytes(*secret));
  if (as_text(Bytes(proof)) != row.proof) {
    opened.problem =
        Error(Code::kDenied, fmt::format("it is encrypted with key {}, and the key that was found is another", name),
              "`warren key ID --key-file FILE` notes the right one (also --key-env, --key-command)");
  } else {
    opened.key = std::make_unique<ContentKey>(row.id, as_bytes(*secret));
  }
  ::explicit_bzero(secret->data(), secret->size());
  return opened;
}

const ContentKeyRow* ContentKeys::find_row(std::int64_t id) const {
  auto found = std::ranges::find(rows_, id, &ContentKeyRow::id);
  return found == rows_.end() ? nullptr : &*found;
}

Result<ContentKey*> ContentKeys::get(std::int64_t id) {
  auto known = opened_.find(id);
  if (known == opened_.end()) {
    const ContentKeyRow* row = find_row(id);
    if (row == nullptr) {
      return Error(Code::kCorrupt, fmt::format("it is encrypted with key {}, which wr_cipher_key does not have", id));
    }
    known = opened_.emplace(id, open(*row)).first;
  }
  if (known->second.problem) return *known->second.problem;
  return known->second.key.get();
}

std::optional<std::int64_t> ContentKeys::find_for(std::string_view path) const {
  for (std::size_t i = 0; i < globs_.size(); ++i) {
    if (covers_path(globs_[i], path)) return patterns_[i].key;
  }
  return std::nullopt;
}

}  // namespace warren
