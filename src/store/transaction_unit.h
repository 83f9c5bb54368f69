// A Unit that is a transaction of the agent's database.
#pragma once

#include <mutex>
#include <utility>

#include "db/transaction.h"
#include "fs/file_system.h"

namespace warren {

class TransactionUnit final : public Unit {
 public:
  static Result<std::unique_ptr<Unit>> begin(Database& database, Access access,
                                             std::unique_lock<std::recursive_mutex>* outer = nullptr) {
    Transaction transaction = WARREN_TRY(Transaction::begin(database, access, outer));
    return std::unique_ptr<Unit>(new TransactionUnit(std::move(transaction)));
  }

  Status commit() override { return transaction_.commit(); }

 private:
  explicit TransactionUnit(Transaction transaction) : transaction_(std::move(transaction)) {}

  Transaction transaction_;
};

}  // namespace warren
