// Encrypted databases: every page is encrypted and authenticated with AEGIS-256, by SQLite3 Multiple Ciphers.
//
// Such a file begins with a random salt instead of SQLite's name; the next eight bytes (page size, versions, reserved
// bytes) are readable. Everything else, and every page in the log, is ciphertext with a nonce and a tag of its own in
// the page's reserved bytes. A wrong key or a changed byte is an error, never other content. docs/design/db.md.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

struct sqlite3;

namespace warren {

// Overwritten when it is destroyed.
class DatabaseKey {
 public:
  static constexpr std::size_t kKeyBytes = 32;
  static constexpr std::size_t kSaltBytes = 16;

  // Both are binary and have those lengths.
  DatabaseKey(std::string_view key, std::string_view salt);
  ~DatabaseKey();
  DatabaseKey(const DatabaseKey&) = delete;
  DatabaseKey& operator=(const DatabaseKey&) = delete;

  std::string_view salt() const;
  // In SQLite3 Multiple Ciphers' syntax.
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Shared by the connections to one file, and by whoever opened it.
using SharedDatabaseKey = std::shared_ptr<const DatabaseKey>;

// Finds the key of the file that has this salt. Called while the file is being opened.
using KeyFinder = std::function<Result<SharedDatabaseKey>(std::string_view salt)>;

// The salt, if the open file is encrypted; nullopt if it is an ordinary database or empty. kCorrupt if it is something
// else: SQLite would find that out, too, but then delete a file with the name of its log. Before the key is set. Reads
// through SQLite's own descriptor: closing another one would release its locks.
Result<std::optional<std::string>> find_salt(sqlite3* handle);

// The VFS that encrypts, above the named one (null: the system's). kUnsupported if this SQLite has no ciphers.
Result<std::string> cipher_vfs(const char* real);

// After opening with that VFS, before the first statement.
Status set_key(sqlite3* handle, const DatabaseKey& key);

// For "VACUUM INTO": a statement that writes everything into this file, with the key or without one. It contains the
// key: for SQLite alone, and to be overwritten.
std::string vacuum_into(const std::string& path, const DatabaseKey* key);

// A file name in SQLite's URI syntax.
std::string uri_of(std::string_view path, std::string_view query);

// Around the preparation of SQL from a user: statements and functions about keys are refused. Without SQLite3 Multiple
// Ciphers there are none.
class CipherSqlBan {
 public:
  explicit CipherSqlBan(sqlite3* handle);
  ~CipherSqlBan();
  CipherSqlBan(const CipherSqlBan&) = delete;
  CipherSqlBan& operator=(const CipherSqlBan&) = delete;

 private:
  sqlite3* handle_;
};

}  // namespace warren
