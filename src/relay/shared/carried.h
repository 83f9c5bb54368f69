// Attachments in transit between homes: their content, in pieces, in the shared ledger.
//
// The sending home publishes a file before it records a message for an agent elsewhere; the receiving home fetches it,
// and it is dropped once no delivery needs it. A home that misses a file asks the homes that have it to publish it
// again, so nothing is lost if it was dropped too early. docs/design/relay.md, "Several relays".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "relay/ledger/ledger_engine.h"

namespace warren::relay {

inline constexpr std::size_t kPieceBytes = 256U << 10;

// A complete publication by one home.
struct CarriedSource {
  std::string home;
  std::uint64_t size = 0;
};

// Tables carried_attachments and attachment_pieces, in PostgreSQL. Several instances may share the tables, each with
// its own engine. For one thread. Changes must be made in a transaction of the caller.
class CarriedAttachments {
 public:
  static Status create_tables(LedgerEngine& engine);  // the ledger's tables must exist
  static Result<std::unique_ptr<CarriedAttachments>> open(LedgerEngine& engine, std::string home, Clock& clock);

  // Publishing, by a home that has the file. A publication is complete once finish() has recorded it.
  Result<bool> renew(std::string_view hash);  // false: not published yet
  Status drop_parts();                        // pieces of publications that this home never finished
  Status put_piece(std::string_view hash, std::int64_t number, Bytes content);
  Status finish(std::string_view hash, std::uint64_t size, std::int64_t pieces);  // kStale: pieces are missing

  // Prevents it from being dropped until the transaction ends. False: it is no longer published.
  Result<bool> hold(std::string_view hash);

  // Fetching.
  Result<std::optional<CarriedSource>> find(std::string_view hash);
  Result<std::optional<std::string>> find_piece(const CarriedSource& source, std::string_view hash,
                                                std::int64_t number);

  Status forget(const CarriedSource& source, std::string_view hash);  // a corrupt publication
  // Unless a future delivery needs it.
  Status drop(std::string_view hash);
  Result<std::vector<std::string>> list_before(std::int64_t used_before_us, std::size_t limit);

 private:
  CarriedAttachments(std::string home, Clock& clock) : home_(std::move(home)), clock_(clock) {}

  std::string home_;
  Clock& clock_;
  Statement renew_, drop_parts_, put_piece_, finish_, hold_, find_, find_piece_, lock_, drop_, forget_, list_before_;
};

}  // namespace warren::relay
