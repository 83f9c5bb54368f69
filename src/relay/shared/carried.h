// Attachments on their way from one home to another: their content, in pieces, in the ledger that the homes share.
//
// The home that has a file publishes it before it records a message for an agent elsewhere; whoever is to deliver that
// message takes it from here, and it is dropped once nobody is to take it any more. What is missing here is asked of a
// home that has the file, so nothing is lost if it was dropped too early. docs/design/relay.md, "Several relays".
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

// What one home has published whole.
struct CarriedSource {
  std::string home;
  std::uint64_t size = 0;
};

// Tables carried_attachments and attachment_pieces, in PostgreSQL. Several of them may work on the same tables, each
// with an engine of its own. One thread. Those that change something belong in a transaction of the caller.
class CarriedAttachments {
 public:
  static Status create_tables(LedgerEngine& engine);  // those of the ledger are there
  static Result<std::unique_ptr<CarriedAttachments>> open(LedgerEngine& engine, std::string home, Clock& clock);

  // Publishing, by the home that has the file. Whole is what finish() has recorded.
  Result<bool> renew(std::string_view hash);  // whether it is published already
  Status drop_parts();                        // of what this home never finished
  Status put_piece(std::string_view hash, std::int64_t number, Bytes content);
  Status finish(std::string_view hash, std::uint64_t size, std::int64_t pieces);  // kStale: pieces are missing

  // Keeps it from being dropped until the transaction is over. False: it is not published any more.
  Result<bool> hold(std::string_view hash);

  // Taking.
  Result<std::optional<CarriedSource>> find(std::string_view hash);
  Result<std::optional<std::string>> find_piece(const CarriedSource& source, std::string_view hash,
                                                std::int64_t number);

  Status forget(const CarriedSource& source, std::string_view hash);  // what is not what it should be
  // Unless a delivery to come needs it.
  Status drop(std::string_view hash);
  Result<std::vector<std::string>> list_before(std::int64_t used_before_us, std::size_t limit);

 private:
  CarriedAttachments(std::string home, Clock& clock) : home_(std::move(home)), clock_(clock) {}

  std::string home_;
  Clock& clock_;
  Statement renew_, drop_parts_, put_piece_, finish_, hold_, find_, find_piece_, lock_, drop_, forget_, list_before_;
};

}  // namespace warren::relay
