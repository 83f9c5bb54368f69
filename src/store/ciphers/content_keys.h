// The keys that encrypt the content of single files, and the patterns of paths that decide for which files:
// wr_cipher_key and wr_cipher_pattern (docs/format.md, WR-80).
//
// They are as they were when the store was opened: adding a key or a pattern needs an agent that nobody has open
// (store/ciphers/encrypt_files.h). The secrets themselves are never in the file; the salt of a key is its name. Of a
// key, everything else is derived by HMAC-SHA256. docs/design/store.md.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "crypto/aead.h"
#include "crypto/hmac.h"
#include "db/database.h"
#include "store/table_names.h"
#include "text/glob.h"

namespace warren {

// Finds the secret, 32 bytes, of the key that has this salt. Asked once for each key.
using ContentKeyFinder = std::function<Result<std::string>(std::string_view salt)>;

// One key, ready for use. For one thread at a time.
class ContentKey {
 public:
  static constexpr std::size_t kSecretBytes = 32;
  static constexpr std::size_t kSaltBytes = 16;
  // A prefix is random for each opening of a store; each has an AES key of its own, whose nonces are then counted.
  using Prefix = std::array<std::byte, 16>;

  ContentKey(std::int64_t id, Bytes secret);

  std::int64_t id() const { return id_; }
  // What wr_cipher_key has, to know a wrong secret.
  static Sha256::Value proof_of(Bytes secret);

  Aes256Gcm& cipher(const Prefix& prefix);
  Aes256Blocks& fingerprints() { return fingerprints_; }
  Sha256::Value sign(Bytes message) { return states_.sign(message); }

 private:
  std::int64_t id_;
  HmacSha256 prefixes_;
  HmacSha256 states_;
  Aes256Blocks fingerprints_;
  std::map<Prefix, Aes256Gcm> ciphers_;
};

struct ContentKeyRow {
  std::int64_t id = 0;
  std::string salt;
  std::string proof;
  std::optional<std::int64_t> replaced_by;  // the key that its files get instead
};

struct CipherPattern {
  std::string pattern;
  std::int64_t key = 0;
};

// How people see a key: the first digits of its salt, which is also the name of its note.
std::string name_of_content_key(std::string_view salt);

class ContentKeys {
 public:
  // Null if the file has no such tables; kCorrupt if it has only some of them. A key that cannot be found is an error
  // only for those who need it.
  static Result<std::unique_ptr<ContentKeys>> load(Database& database, const ContentKeyFinder& find);

  // kDenied if there is no secret, or the wrong one; kCorrupt if there is no such key.
  Result<ContentKey*> get(std::int64_t id);
  const std::vector<ContentKeyRow>& rows() const { return rows_; }
  // In the order in which they decide (store/ciphers/cipher_patterns.h).
  const std::vector<CipherPattern>& patterns() const { return patterns_; }
  // The key that a new file at this path is encrypted with.
  std::optional<std::int64_t> find_for(std::string_view path) const;
  const ContentKeyRow* find_row(std::int64_t id) const;

 private:
  struct Opened {
    std::unique_ptr<ContentKey> key;
    std::optional<Error> problem;
  };

  Opened open(const ContentKeyRow& row) const;

  ContentKeyFinder find_;
  std::vector<ContentKeyRow> rows_;
  std::vector<CipherPattern> patterns_;
  std::vector<Glob> globs_;  // of patterns_
  std::map<std::int64_t, Opened> opened_;
};

// Tables of encrypted files, or columns that they need ("wr_cipher_file.mac"), that are missing though one of the
// tables exists. Without them ciphertext would be taken for content, and new files would not be encrypted.
std::vector<std::string_view> list_missing_for_ciphers(const TableNames& names);

// Makes the four tables of encrypted files, if they are missing. In a write transaction.
Status make_cipher_tables(Database& database);

}  // namespace warren
