#include "db/cipher.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <mutex>

#include <string.h>
#include <unistd.h>

#include <fmt/format.h>
#include <sqlite3.h>

#include "base/check.h"

namespace warren {
namespace {

constexpr std::string_view kRawKey = "raw:";  // not a passphrase: binary key and salt follow
constexpr std::string_view kPlainStart{"SQLite format 3", 16};
constexpr std::size_t kReadableBytes = 24;   // of an encrypted file: the salt and a part of SQLite's header
constexpr std::uint8_t kReservedBytes = 64;  // of each page: tag and nonce of AEGIS-256

using Header = std::array<unsigned char, kReadableBytes>;

// What is readable is not authenticated, so each byte of it is compared with what it must be: the page size by
// decrypting, the salt by the key, which depends on it.
bool is_header_of_encrypted(const Header& header) {
  unsigned page_bytes = (header[16] << 8U) | header[17];
  if (page_bytes == 1) page_bytes = 65'536;
  bool has_size = page_bytes >= 512 && std::has_single_bit(page_bytes);
  bool has_versions = header[18] == header[19] && (header[18] == 1 || header[18] == 2);
  return has_size && has_versions && header[20] == kReservedBytes && header[21] == 64 && header[22] == 32 &&
         header[23] == 32;
}

#ifdef SQLITE3MC_VERSION_STRING
int refuse_cipher_sql(void*, int action, const char* first, const char* second, const char*, const char*) {
  static constexpr auto kPragmas =
      std::to_array<std::string_view>({"key", "rekey", "hexkey", "hexrekey", "textkey", "textrekey", "cipher",
                                       "hmac_check", "mc_legacy_wal", "cipher_salt"});
  auto is = [](const char* name, std::string_view wanted) {
    return name != nullptr && sqlite3_stricmp(name, std::string(wanted).c_str()) == 0;
  };
  if (action == SQLITE_PRAGMA) {
    bool is_banned = std::ranges::any_of(kPragmas, [&](std::string_view pragma) { return is(first, pragma); });
    return is_banned ? SQLITE_DENY : SQLITE_OK;
  }
  bool is_function = action == SQLITE_FUNCTION && second != nullptr;
  return is_function && sqlite3_strnicmp(second, "sqlite3mc_", 10) == 0 ? SQLITE_DENY : SQLITE_OK;
}
#endif

}  // namespace

DatabaseKey::DatabaseKey(std::string_view key, std::string_view salt) {
  WARREN_CHECK(key.size() == kKeyBytes && salt.size() == kSaltBytes);
  text_.reserve(kRawKey.size() + kKeyBytes + kSaltBytes);  // else the parts would be left in freed memory
  text_.append(kRawKey).append(key).append(salt);
}

DatabaseKey::~DatabaseKey() { ::explicit_bzero(text_.data(), text_.size()); }

std::string_view DatabaseKey::salt() const { return std::string_view(text_).substr(kRawKey.size() + kKeyBytes); }

Result<std::optional<std::string>> find_salt(sqlite3* handle) {
  sqlite3_file* file = nullptr;
  bool is_file = sqlite3_file_control(handle, "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK &&
                 file != nullptr && file->pMethods != nullptr;
  Header header{};
  if (!is_file) return std::optional<std::string>();
  int code = file->pMethods->xRead(file, header.data(), static_cast<int>(header.size()), 0);
  bool is_short = code == SQLITE_IOERR_SHORT_READ;  // the rest is zeros then
  if (is_short && header == Header{}) return std::optional<std::string>();
  if (code != SQLITE_OK && !is_short) return Error(Code::kIo, "the file's first bytes cannot be read");
  std::string start(reinterpret_cast<const char*>(header.data()), DatabaseKey::kSaltBytes);
  if (!is_short && start == kPlainStart) return std::optional<std::string>();
  if (!is_short && is_header_of_encrypted(header)) return std::optional(std::move(start));
  // Half a page that a power cut has left is put right by the journal beside it.
  bool has_journal = ::access(sqlite3_filename_journal(sqlite3_db_filename(handle, "main")), F_OK) == 0;
  if (has_journal) return std::optional<std::string>();
  return Error(Code::kCorrupt, "file is not a database");
}

std::string uri_of(std::string_view path, std::string_view query) {
  std::string uri = path.starts_with('/') ? "file://" : "file:";  // else "//tmp/a" would name a host
  for (char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02x}", static_cast<unsigned>(c));
    } else {
      uri += c;
    }
  }
  return uri + std::string(query);
}

std::string vacuum_into(const std::string& path, const DatabaseKey* key) {
  std::string sql = "VACUUM INTO '";
  sql.reserve(2 * path.size() + 512);  // else parts of the key would be left in freed memory
  for (char c : uri_of(path, key != nullptr ? "?hexkey=" : "?key=")) sql.append(c == '\'' ? 2 : 1, c);
  for (char c : key != nullptr ? std::string_view(key->text()) : std::string_view()) {
    fmt::format_to(std::back_inserter(sql), "{:02x}", static_cast<unsigned char>(c));
  }
  sql += '\'';
  return sql;
}

#ifdef SQLITE3MC_VERSION_STRING

Result<std::string> cipher_vfs(const char* real) {
  sqlite3_vfs* below = sqlite3_vfs_find(real);
  if (below == nullptr) return Error(Code::kInternal, "SQLite has no such VFS");
  std::string name = fmt::format("multipleciphers-{}", below->zName);
  static std::mutex mutex;  // two threads would each make one
  std::lock_guard guard(mutex);
  sqlite3_vfs* found = sqlite3_vfs_find(name.c_str());
  if (found != nullptr && found->pAppData == below) return name;
  if (found != nullptr) sqlite3mc_vfs_destroy(name.c_str());  // above a disk of an earlier test
  if (sqlite3mc_vfs_create(below->zName, 0) != SQLITE_OK) return Error(Code::kLimit, "out of memory");
  return name;
}

Status set_key(sqlite3* handle, const DatabaseKey& key) {
  int code = sqlite3_key_v2(handle, "main", key.text().data(), static_cast<int>(key.text().size()));
  if (code == SQLITE_OK) return Ok{};
  return Error(Code::kInternal, fmt::format("cannot set the key: {}", sqlite3_errmsg(handle)));
}

CipherSqlBan::CipherSqlBan(sqlite3* handle) : handle_(handle) {
  sqlite3_set_authorizer(handle_, refuse_cipher_sql, nullptr);
}
CipherSqlBan::~CipherSqlBan() { sqlite3_set_authorizer(handle_, nullptr, nullptr); }

#else

Result<std::string> cipher_vfs(const char* /*real*/) {
  return Error(Code::kUnsupported, "this Warren was built with a SQLite that has no ciphers",
               "build it with the SQLite that tools/setup fetches");
}

Status set_key(sqlite3* /*handle*/, const DatabaseKey& /*key*/) { return Ok{}; }

CipherSqlBan::CipherSqlBan(sqlite3* handle) : handle_(handle) {}
CipherSqlBan::~CipherSqlBan() = default;

#endif

}  // namespace warren
