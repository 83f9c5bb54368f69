#include "clients/redis_connection.h"

#include <fmt/format.h>

#include <utility>

#include "base/ascii.h"
#include "base/path.h"
#include "clients/hiredis_library.h"

namespace warren::redis {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kKeptBytes = std::size_t{1} << 20;  // of the buffer for sending, after a large command
// A connection that was used so recently is not looked at again before it is used.
constexpr std::chrono::milliseconds kFresh{10};

}  // namespace

bool ReplyView::is_nil() const { return reply_ == nullptr || reply_->type == REDIS_REPLY_NIL; }

bool ReplyView::is_error() const { return reply_ != nullptr && reply_->type == REDIS_REPLY_ERROR; }

std::string_view ReplyView::text() const {
  if (reply_ == nullptr) return {};
  bool has_text =
      reply_->type == REDIS_REPLY_STRING || reply_->type == REDIS_REPLY_STATUS || reply_->type == REDIS_REPLY_ERROR;
  return has_text ? std::string_view(reply_->str, reply_->len) : std::string_view();
}

std::int64_t ReplyView::integer() const {
  if (reply_ == nullptr) return 0;
  if (reply_->type == REDIS_REPLY_INTEGER) return reply_->integer;
  return parse_number<std::int64_t>(text()).value_or(0);
}

std::size_t ReplyView::size() const {
  return reply_ != nullptr && reply_->type == REDIS_REPLY_ARRAY ? reply_->elements : 0;
}

ReplyView ReplyView::operator[](std::size_t index) const {
  return ReplyView(index < size() ? reply_->element[index] : nullptr);
}

Reply::Reply(Reply&& other) noexcept : library_(other.library_), reply_(std::exchange(other.reply_, nullptr)) {}

Reply& Reply::operator=(Reply&& other) noexcept {
  std::swap(library_, other.library_);
  std::swap(reply_, other.reply_);
  return *this;
}

Reply::~Reply() {
  if (reply_ != nullptr) library_->freeReplyObject(reply_);
}

Connection::Connection(const Hiredis& library, HostPort where, std::unique_ptr<Stream> stream)
    : library_(library), where_(std::move(where)), stream_(std::move(stream)), reader_(library.redisReaderCreate()) {
  buffer_.resize(kReadBytes);
}

Connection::~Connection() {
  if (reader_ != nullptr) library_.redisReaderFree(reader_);
}

Result<std::unique_ptr<Connection>> Connection::open(const HostPort& to, const std::optional<TlsOptions>& tls,
                                                     Instant until) {
  const Hiredis& library = *WARREN_TRY(load_hiredis());
  auto stream = WARREN_TRY(Stream::connect(to, tls, until));
  std::unique_ptr<Connection> connection(new Connection(library, to, std::move(stream)));
  if (connection->reader_ == nullptr) return Error(Code::kLimit, "Redis: out of memory");
  return connection;
}

bool Connection::is_idle() const { return std::chrono::steady_clock::now() - used_ < kFresh || stream_->is_idle(); }

Status Connection::append(Words words) {
  pointers_.clear();
  sizes_.clear();
  for (std::string_view word : words) {
    pointers_.push_back(word.data() == nullptr ? "" : word.data());
    sizes_.push_back(word.size());
  }
  char* command = nullptr;
  auto size =  // its type depends on the version
      library_.redisFormatCommandArgv(&command, static_cast<int>(words.size()), pointers_.data(), sizes_.data());
  if (size < 0) return Error(Code::kTooLarge, "the command is too large for Redis's client library");
  to_send_.append(command, static_cast<std::size_t>(size));
  library_.redisFreeCommand(command);
  return Ok{};
}

Status Connection::send(Instant until) {
  Status sent = stream_->write_all(as_bytes(to_send_), until);
  to_send_.clear();
  if (to_send_.capacity() > kKeptBytes) to_send_.shrink_to_fit();
  return sent;
}

Result<Reply> Connection::call(Words words, Instant until) {
  WARREN_TRY(append(words));
  WARREN_TRY(send(until));
  return receive(until);
}

Result<Reply> Connection::call_together(std::span<const Words> commands, Instant until) {
  constexpr std::string_view kBegin[] = {"MULTI"};
  constexpr std::string_view kEnd[] = {"EXEC"};
  WARREN_TRY(append(kBegin));
  for (Words words : commands) WARREN_TRY(append(words));
  WARREN_TRY(append(kEnd));
  WARREN_TRY(send(until));
  std::optional<Reply> refusal;
  for (std::size_t i = 0; i < commands.size() + 1; ++i) {
    Reply queued = WARREN_TRY(receive(until));
    if (queued.view().is_error() && !refusal) refusal = std::move(queued);
  }
  Reply done = WARREN_TRY(receive(until));
  return done.view().is_error() && refusal ? *std::move(refusal) : std::move(done);
}

Result<Reply> Connection::receive(Instant until) {
  for (;;) {
    void* reply = nullptr;
    if (library_.redisReaderGetReply(reader_, &reply) != REDIS_OK) {
      return Error(Code::kUnavailable, fmt::format("the answer is not Redis's protocol: {}", reader_->errstr));
    }
    if (reply != nullptr) {
      used_ = std::chrono::steady_clock::now();
      return Reply(library_, static_cast<redisReply*>(reply));
    }
    std::size_t got = WARREN_TRY(stream_->read_some(as_mutable_bytes(buffer_), until));
    if (library_.redisReaderFeed(reader_, buffer_.data(), got) != REDIS_OK) {
      return Error(Code::kUnavailable, fmt::format("the answer is too large: {}", reader_->errstr));
    }
  }
}

}  // namespace warren::redis
