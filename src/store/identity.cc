#include "store/identity.h"

#include <array>

#include "base/bytes.h"
#include "crypto/digest.h"
#include "crypto/hmac.h"
#include "db/transaction.h"

namespace warren {
namespace {

constexpr std::size_t kIdentityBytes = 16;

std::string random_identity() {
  std::array<std::byte, kIdentityBytes> bytes{};
  fill_with_random(bytes);
  return hex_of(bytes);
}

}  // namespace

bool is_identity(std::string_view text) {
  return text.size() == 2 * kIdentityBytes && text.find_first_not_of("0123456789abcdef") == text.npos;
}

Result<std::optional<std::string>> find_identity(Store& store) {
  Database& database = store.database();
  Transaction view = WARREN_TRY(Transaction::begin(database, Access::kSharedRead));
  Statement has_meta =
      WARREN_TRY(database.prepare("SELECT 1 FROM sqlite_schema WHERE type='table' AND name='wr_meta'"));
  if (!WARREN_TRY(has_meta.find_integer())) return std::optional<std::string>();
  Statement find =
      WARREN_TRY(database.prepare("SELECT value FROM wr_meta WHERE key='identity' AND typeof(value)='text'"));
  Rows rows = find.rows();
  if (!WARREN_TRY(rows.next())) return std::optional<std::string>();
  std::string found(rows.text(0));
  return is_identity(found) ? std::optional(std::move(found)) : std::nullopt;
}

Result<std::string> ensure_identity(Store& store) {
  Transaction change = WARREN_TRY(Transaction::begin(store.database(), Access::kWrite));
  std::optional<std::string> found = WARREN_TRY(find_identity(store));
  if (found) return *std::move(found);
  std::string made = random_identity();
  Statement put =
      WARREN_TRY(store.database().prepare("INSERT OR REPLACE INTO wr_meta (key, value) VALUES ('identity', ?)"));
  WARREN_TRY(put.bind(1, made).run());
  WARREN_TRY(change.commit());
  return made;
}

}  // namespace warren
