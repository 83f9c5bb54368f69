#include "mcp/http_session.h"

#include <fmt/format.h>

#include "base/ascii.h"

namespace warren::mcp {
namespace {

constexpr std::size_t kLogEvents = 1000;
constexpr std::size_t kLogBytes = std::size_t{4} << 20;

}  // namespace

net::WebHeaders event_stream_headers() {
  return {
      {"Content-Type", "text/event-stream"}, {"Cache-Control", "no-cache, no-transform"}, {"X-Accel-Buffering", "no"}};
}

int status_of_answer(const Json& message, bool is_stateless) {
  if (!message.is_object() || !message.contains("error")) return 200;
  int code = message["error"].value("code", 0);
  if (code == kParseError || code == kInvalidRequest || code == kUnsupportedVersion || code == kHeaderMismatch ||
      code == kMissingCapability)
    return 400;
  if (is_stateless && code == kMethodNotFound) return 404;
  if (code == kOverloaded) return 503;
  return 200;
}

std::uint64_t EventLog::begin_stream() {
  std::lock_guard lock(mutex_);
  return ++last_stream_;
}

std::string EventLog::add(std::uint64_t stream, const Json& message) {
  std::lock_guard lock(mutex_);
  ++last_number_;
  std::string text = fmt::format("id: {}-{}\nevent: message\ndata: {}\n\n", stream, last_number_, dump_json(message));
  bytes_ += text.size();
  events_.push_back({.stream = stream, .number = last_number_, .text = text});
  while (events_.size() > kLogEvents || (bytes_ > kLogBytes && events_.size() > 1)) {
    bytes_ -= events_.front().text.size();
    events_.pop_front();
  }
  return text;
}

std::optional<EventLog::Rest> EventLog::after(std::string_view event_id) const {
  std::size_t dash = event_id.find('-');
  if (dash == event_id.npos) return std::nullopt;
  std::optional<std::uint64_t> stream = parse_number<std::uint64_t>(event_id.substr(0, dash));
  std::optional<std::uint64_t> number = parse_number<std::uint64_t>(event_id.substr(dash + 1));
  std::lock_guard lock(mutex_);
  if (!stream || !number || *stream > last_stream_ || *number > last_number_) return std::nullopt;
  Rest rest{.stream = *stream, .events = {}};
  for (const Event& one : events_) {
    if (one.stream == *stream && one.number > *number) rest.events.push_back(one.text);
  }
  return rest;
}

StreamOutlet::StreamOutlet(std::shared_ptr<net::WebReply> reply, std::shared_ptr<EventLog> log, net::WebHeaders headers)
    : log_(std::move(log)), headers_(std::move(headers)), reply_(std::move(reply)) {
  if (log_) stream_ = log_->begin_stream();
}

void StreamOutlet::open_stream() {
  if (is_stream_ || !reply_) return;
  is_stream_ = true;
  net::WebHeaders all = event_stream_headers();
  all.insert(all.end(), headers_.begin(), headers_.end());
  reply_->begin_stream(std::move(all));
}

void StreamOutlet::send(const Json& message) {
  bool is_answer = message.is_array() || !message.contains("method");
  std::lock_guard lock(mutex_);
  if (is_done_) return;
  if (is_answer && !is_stream_ && reply_) {
    is_done_ = true;
    net::WebHeaders all{{"Content-Type", "application/json"}};
    all.insert(all.end(), headers_.begin(), headers_.end());
    reply_->answer(status_of_answer(message, log_ == nullptr), std::move(all), dump_json(message));
    reply_.reset();
    return;
  }
  std::string text =
      log_ ? log_->add(stream_, message) : fmt::format("event: message\ndata: {}\n\n", dump_json(message));
  open_stream();
  // In a session a lost connection is no cancellation: the client may come back for the rest.
  if (reply_ && !reply_->write(text)) reply_.reset();
  if (!is_answer) return;
  is_done_ = true;
  if (reply_) reply_->end_stream();
  reply_.reset();
}

bool StreamOutlet::is_crowded() {
  std::lock_guard lock(mutex_);
  return reply_ && reply_->is_crowded();
}

void StreamOutlet::resume(std::shared_ptr<net::WebReply> reply, const std::vector<std::string>& missed) {
  std::lock_guard lock(mutex_);
  if (reply_) reply_->end_stream();
  reply_ = std::move(reply);
  is_stream_ = false;
  open_stream();
  for (const std::string& event : missed) reply_->write(event);
  if (!is_done_) return;
  reply_->end_stream();
  reply_.reset();
}

void StreamOutlet::end() {
  std::lock_guard lock(mutex_);
  is_done_ = true;
  if (!reply_) return;
  if (is_stream_) reply_->end_stream();
  else reply_->answer(202, headers_, "");
  reply_.reset();
}

void StreamOutlet::keep_alive() {
  std::lock_guard lock(mutex_);
  if (reply_ && is_stream_ && !reply_->write(":\n\n")) reply_.reset();
}

}  // namespace warren::mcp
