#include "relay/shared/carrier.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "crypto/digest.h"
#include "os/files/host_files.h"

namespace warren::relay {
namespace {

constexpr std::chrono::milliseconds kRetryFirst{100};
constexpr std::chrono::milliseconds kRetryMax{1000};
constexpr int kRetryDoublings = 4;
constexpr std::int64_t kPiecesPerTransaction = 16;

// A failure of the ledger is always temporary: it says nothing about the attachment.
template <class T>
Result<T> of_ledger(Result<T> done) {
  if (done.ok()) return done;
  return Error(Code::kUnavailable, done.error().message());
}

bool is_about_attachment(const Error& error) {
  return error.code() == Code::kNotFound || error.code() == Code::kCorrupt || error.code() == Code::kDenied ||
         error.code() == Code::kTooLarge;
}

}  // namespace

Result<std::unique_ptr<Carrier>> Carrier::open(const AttachmentStore& store, Clock& clock, Log& log, Options options) {
  auto results = WARREN_TRY(Results::open());
  return std::unique_ptr<Carrier>(new Carrier(store, clock, log, std::move(options), std::move(results)));
}

Status Carrier::request(CarryKind kind, const std::string& hash) {
  if (requested_.contains({kind, hash})) return Ok{};
  Job job{.kind = kind, .hash = hash};
  WARREN_TRY(worker_.submit([this, job] { run(job); }).within("transfer an attachment"));
  requested_.insert({kind, hash});
  return Ok{};
}

std::vector<CarryResult> Carrier::take() {
  std::vector<CarryResult> done = results_->take();
  for (const CarryResult& one : done) requested_.erase({one.kind, one.hash});
  return done;
}

void Carrier::run(Job job) {
  Result<FileIdentity> done = carry(job);
  if (done.ok() || is_about_attachment(done.error())) results_->put({job.kind, job.hash, std::move(done)});
  else retry(std::move(job), done.error());
}

void Carrier::retry(Job job, const Error& why) {
  if (job.tries == 0) {
    log_.note(Severity::kWarning, "attachment_waits", {{"attachment", job.hash}, {"error", why.message()}});
  }
  auto delay = std::min(kRetryMax, kRetryFirst * (1 << std::min(job.tries, kRetryDoublings)));
  ++job.tries;
  worker_.submit([this, job] { run(job); }, delay).ignore("its thread is running");
}

// A failed transaction may leave the connection in any state: then a new one is made.
Status Carrier::connect() {
  if (ledger_ != nullptr && !ledger_->engine().is_lost()) return Ok{};
  carried_.reset();
  ledger_.reset();
  ledger_ = WARREN_TRY(options_.open_ledger());
  carried_ = WARREN_TRY(CarriedAttachments::open(ledger_->engine(), ledger_->homes()->id(), clock_));
  auto transaction = WARREN_TRY(ledger_->begin());
  WARREN_TRY(carried_->drop_parts());
  return transaction.commit();
}

Result<FileIdentity> Carrier::carry(Job& job) {
  WARREN_TRY(of_ledger(connect()));
  switch (job.kind) {
    case CarryKind::kPublish: return publish(job.hash);
    case CarryKind::kFetch: return fetch(job);
    case CarryKind::kDrop: return drop(job.hash);
  }
  return FileIdentity{};
}

Result<FileIdentity> Carrier::publish(const std::string& hash) {
  {
    auto transaction = WARREN_TRY(of_ledger(ledger_->begin()));
    bool is_there = WARREN_TRY(of_ledger(carried_->renew(hash)));
    WARREN_TRY(of_ledger(transaction.commit()));
    if (is_there) return FileIdentity{};
  }
  Status done = publish_pieces(hash);
  if (!done.ok() && is_about_attachment(done.error())) WARREN_TRY(of_ledger(withdraw(hash)));
  WARREN_TRY(std::move(done));
  return FileIdentity{};
}

// Hashes while it copies, so that an attachment recorded as complete always matches its hash.
Status Carrier::publish_pieces(const std::string& hash) {
  AttachmentStore::Opened opened = WARREN_TRY(store_.open(hash));
  std::string buffer(kPieceBytes, '\0');
  Sha256 digest;
  std::uint64_t size = 0;
  std::int64_t number = 0;
  for (bool is_over = false; !is_over;) {
    auto transaction = WARREN_TRY(of_ledger(ledger_->begin()));
    for (std::int64_t end = number + kPiecesPerTransaction; number < end && !is_over; ++number) {
      if (worker_.is_stopping()) return Error(Code::kTimeout, "stopped");
      std::size_t got = WARREN_TRY(read_full(opened.file.get(), as_mutable_bytes(buffer)));
      is_over = got == 0;
      if (is_over) break;
      Bytes piece = as_bytes(buffer).first(got);
      digest.update(piece);
      size += got;
      WARREN_TRY(of_ledger(carried_->put_piece(hash, number, piece)));
    }
    if (is_over && hex_of(digest.finish()) != hash) {
      return Error(Code::kCorrupt,
                   fmt::format("the content of attachment {} does not match its hash", reference_of(hash)));
    }
    if (is_over) WARREN_TRY(of_ledger(carried_->finish(hash, size, number)));
    WARREN_TRY(of_ledger(transaction.commit()));
  }
  log_.note(Severity::kInfo, "attachment_published", {{"attachment", hash}, {"bytes", size}});
  return Ok{};
}

// After this no home asks us for it again.
Status Carrier::withdraw(const std::string& hash) {
  auto transaction = WARREN_TRY(ledger_->begin());
  WARREN_TRY(ledger_->remove_attachment(hash));
  WARREN_TRY(carried_->drop_parts());
  return transaction.commit();
}

Result<FileIdentity> Carrier::fetch(Job& job) {
  std::optional<CarriedSource> source = WARREN_TRY(of_ledger(carried_->find(job.hash)));
  if (!source) {
    WARREN_TRY(request_from_homes(job));
    return Error(Code::kUnavailable, "not in the ledger yet");
  }
  if (source->size > options_.fetch_bytes_max) {
    return Error(Code::kTooLarge, fmt::format("attachment {}: {} bytes exceed the limit of {}", reference_of(job.hash),
                                              source->size, options_.fetch_bytes_max));
  }
  Status added = fetch_pieces(*source, job.hash);
  bool is_wrong = !added.ok() && added.error().code() == Code::kCorrupt;
  if (is_wrong) WARREN_TRY(of_ledger(forget(*source, job.hash)));
  if (is_wrong && !job.was_wrong_once) {  // request it once more
    job.was_wrong_once = true;
    return Error(Code::kUnavailable, added.error().message());
  }
  WARREN_TRY(std::move(added));
  AttachmentStore::Opened opened = WARREN_TRY(store_.open(job.hash));
  log_.note(Severity::kInfo, "attachment_fetched", {{"attachment", job.hash}, {"bytes", source->size}});
  return opened.identity;
}

// A missing piece means that the attachment was dropped from the ledger meanwhile, or else that it is corrupt.
Status Carrier::fetch_pieces(const CarriedSource& source, const std::string& hash) {
  std::int64_t number = 0;
  std::uint64_t left = source.size;
  return store_.add_pieces(hash, [&]() -> Result<std::string> {
    if (worker_.is_stopping()) return Error(Code::kTimeout, "stopped");
    if (left == 0) return std::string();
    std::optional<std::string> piece = WARREN_TRY(of_ledger(carried_->find_piece(source, hash, number++)));
    if (!piece && !WARREN_TRY(of_ledger(carried_->find(hash)))) return Error(Code::kUnavailable, "dropped meanwhile");
    if (!piece || piece->empty() || piece->size() > left) {
      return Error(Code::kCorrupt,
                   fmt::format("the pieces of attachment {} do not match its hash", reference_of(hash)));
    }
    left -= piece->size();
    return *std::move(piece);
  });
}

Status Carrier::forget(const CarriedSource& source, const std::string& hash) {
  auto transaction = WARREN_TRY(ledger_->begin());
  WARREN_TRY(carried_->forget(source, hash));
  return transaction.commit();
}

// Asks all homes that have it, once: one that is down answers when it is back.
Status Carrier::request_from_homes(Job& job) {
  std::vector<std::string> homes = WARREN_TRY(of_ledger(ledger_->list_homes_with(job.hash)));
  if (homes.empty()) {
    return Error(Code::kNotFound, fmt::format("no relay has attachment {} any more", reference_of(job.hash)));
  }
  if (job.is_requested) return Ok{};
  auto transaction = WARREN_TRY(of_ledger(ledger_->begin()));
  for (const std::string& home : homes) {
    WARREN_TRY(of_ledger(ledger_->request_at(home, "carry", dump_json({{"attachment", job.hash}}))));
  }
  WARREN_TRY(of_ledger(transaction.commit()));
  job.is_requested = true;
  return Ok{};
}

Result<FileIdentity> Carrier::drop(const std::string& hash) {
  auto transaction = WARREN_TRY(of_ledger(ledger_->begin()));
  WARREN_TRY(of_ledger(carried_->drop(hash)));
  WARREN_TRY(of_ledger(transaction.commit()));
  return FileIdentity{};
}

}  // namespace warren::relay
