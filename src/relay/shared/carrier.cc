#include "relay/shared/carrier.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include <sys/eventfd.h>

#include <fmt/format.h>

#include "crypto/digest.h"
#include "os/error.h"
#include "os/host_files.h"

namespace warren::relay {
namespace {

constexpr std::int64_t kRetryNs = 100'000'000;
constexpr std::int64_t kRetryMaxNs = 1'000'000'000;
constexpr int kRetrySteps = 4;
constexpr std::int64_t kPiecesAtOnce = 16;  // in one transaction

// Whatever the ledger says is no fault of the attachment.
Status of_ledger(Status done) {
  if (done.ok()) return done;
  return Error(Code::kUnavailable, done.error().message());
}
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
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.is_open()) return system_error(errno, "make an event");
  return std::unique_ptr<Carrier>(new Carrier(store, clock, log, std::move(options), std::move(event)));
}

Carrier::~Carrier() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Status Carrier::want(CarryKind kind, const std::string& hash) {
  if (wanted_.contains({kind, hash})) return Ok{};
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error&) {
      return Error(Code::kLimit, "no thread can be had to carry an attachment");
    }
  }
  wanted_.insert({kind, hash});
  {
    std::lock_guard lock(mutex_);
    queue_.push_back({kind, hash});
  }
  changed_.notify_one();
  return Ok{};
}

std::vector<CarryResult> Carrier::take() {
  std::vector<CarryResult> done;
  {
    std::lock_guard lock(mutex_);
    eventfd_t count = 0;
    ::eventfd_read(event_.get(), &count);
    done = std::exchange(done_, {});
  }
  for (const CarryResult& one : done) wanted_.erase({one.kind, one.hash});
  return done;
}

void Carrier::report(const Job& job, Result<FileIdentity> file) {
  std::lock_guard lock(mutex_);
  done_.push_back({job.kind, job.hash, std::move(file)});
  ::eventfd_write(event_.get(), 1);
}

// Those that wait to be tried again let others pass.
std::optional<Carrier::Job> Carrier::next() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    std::int64_t now = clock_.monotonic_ns();
    auto due = std::find_if(queue_.begin(), queue_.end(), [&](const Job& job) { return job.not_before_ns <= now; });
    if (due != queue_.end()) {
      Job job = std::move(*due);
      queue_.erase(due);
      return job;
    }
    std::int64_t first = INT64_MAX;
    for (const Job& job : queue_) first = std::min(first, job.not_before_ns);
    if (first == INT64_MAX) changed_.wait(lock);
    else changed_.wait_for(lock, std::chrono::nanoseconds(first - now));
  }
  return std::nullopt;
}

void Carrier::put_off(Job job, const Error& why) {
  if (job.tries == 0) {
    log_.note(Severity::kWarning, "attachment_waits", {{"attachment", job.hash}, {"error", why.message()}});
  }
  job.not_before_ns = clock_.monotonic_ns() + std::min(kRetryMaxNs, kRetryNs << std::min(job.tries, kRetrySteps));
  ++job.tries;
  std::lock_guard lock(mutex_);
  queue_.push_back(std::move(job));
}

void Carrier::work() {
  while (std::optional<Job> job = next()) {
    Result<FileIdentity> done = carry(*job);
    if (done.ok() || is_about_attachment(done.error())) report(*job, std::move(done));
    else put_off(*std::move(job), done.error());
  }
}

// A transaction that failed may have left the connection in any state: then it is made anew.
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
  if (!done.ok() && is_about_attachment(done.error())) WARREN_TRY(of_ledger(give_up(hash)));
  WARREN_TRY(std::move(done));
  return FileIdentity{};
}

// Read once, and hashed on the way: what is recorded as whole is what its name says.
Status Carrier::publish_pieces(const std::string& hash) {
  AttachmentStore::Opened opened = WARREN_TRY(store_.open(hash));
  std::string buffer(kPieceBytes, '\0');
  Sha256 digest;
  std::uint64_t size = 0;
  std::int64_t number = 0;
  for (bool is_over = false; !is_over;) {
    auto transaction = WARREN_TRY(of_ledger(ledger_->begin()));
    for (std::int64_t end = number + kPiecesAtOnce; number < end && !is_over; ++number) {
      if (stop_) return Error(Code::kTimeout, "stopped");
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
                   fmt::format("attachment {} has other content than its name says", reference_of(hash)));
    }
    if (is_over) WARREN_TRY(of_ledger(carried_->finish(hash, size, number)));
    WARREN_TRY(of_ledger(transaction.commit()));
  }
  log_.note(Severity::kInfo, "attachment_published", {{"attachment", hash}, {"bytes", size}});
  return Ok{};
}

// Whoever looks for a home that has it does not ask us again.
Status Carrier::give_up(const std::string& hash) {
  auto transaction = WARREN_TRY(ledger_->begin());
  WARREN_TRY(ledger_->remove_attachment(hash));
  WARREN_TRY(carried_->drop_parts());
  return transaction.commit();
}

Result<FileIdentity> Carrier::fetch(Job& job) {
  std::optional<CarriedSource> source = WARREN_TRY(of_ledger(carried_->find(job.hash)));
  if (!source) {
    WARREN_TRY(ask(job));
    return Error(Code::kUnavailable, "it is not in the ledger yet");
  }
  if (source->size > options_.fetch_bytes_max) {
    return Error(Code::kTooLarge, fmt::format("attachment {}: {} bytes are more than the {} allowed",
                                              reference_of(job.hash), source->size, options_.fetch_bytes_max));
  }
  Status added = fetch_pieces(*source, job.hash);
  bool is_wrong = !added.ok() && added.error().code() == Code::kCorrupt;
  if (is_wrong) WARREN_TRY(of_ledger(forget(*source, job.hash)));
  if (is_wrong && !job.has_failed) {  // a home that has it is asked for it once more
    job.has_failed = true;
    return Error(Code::kUnavailable, added.error().message());
  }
  WARREN_TRY(std::move(added));
  AttachmentStore::Opened opened = WARREN_TRY(store_.open(job.hash));
  log_.note(Severity::kInfo, "attachment_fetched", {{"attachment", job.hash}, {"bytes", source->size}});
  return opened.identity;
}

// Pieces that are missing went with the whole, or else it is not whole.
Status Carrier::fetch_pieces(const CarriedSource& source, const std::string& hash) {
  std::int64_t number = 0;
  std::uint64_t left = source.size;
  return store_.add_pieces(hash, [&]() -> Result<std::string> {
    if (stop_) return Error(Code::kTimeout, "stopped");
    if (left == 0) return std::string();
    std::optional<std::string> piece = WARREN_TRY(of_ledger(carried_->find_piece(source, hash, number++)));
    if (!piece && !WARREN_TRY(of_ledger(carried_->find(hash)))) return Error(Code::kUnavailable, "it was dropped");
    if (!piece || piece->empty() || piece->size() > left) {
      return Error(Code::kCorrupt, fmt::format("what came is not attachment {}", reference_of(hash)));
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

// Each home that has it, once; it may be one that is down, and comes back.
Status Carrier::ask(Job& job) {
  std::vector<std::string> homes = WARREN_TRY(of_ledger(ledger_->list_homes_with(job.hash)));
  if (homes.empty()) {
    return Error(Code::kNotFound, fmt::format("no relay has attachment {} any more", reference_of(job.hash)));
  }
  if (job.is_asked) return Ok{};
  auto transaction = WARREN_TRY(of_ledger(ledger_->begin()));
  for (const std::string& home : homes) {
    WARREN_TRY(of_ledger(ledger_->request_at(home, "carry", dump_json({{"attachment", job.hash}}))));
  }
  WARREN_TRY(of_ledger(transaction.commit()));
  job.is_asked = true;
  return Ok{};
}

Result<FileIdentity> Carrier::drop(const std::string& hash) {
  auto transaction = WARREN_TRY(of_ledger(ledger_->begin()));
  WARREN_TRY(of_ledger(carried_->drop(hash)));
  WARREN_TRY(of_ledger(transaction.commit()));
  return FileIdentity{};
}

}  // namespace warren::relay
