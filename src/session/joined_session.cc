#include "session/joined_session.h"

#include <array>
#include <cerrno>

#include <poll.h>

#include "base/ascii.h"
#include "os/pipe.h"
#include "sandbox/message.h"
#include "session/session_socket.h"

namespace warren {
namespace {

constexpr int kEndMs = 10'000;  // for killed processes to end

std::string_view word_of(AtEnd at_end) {
  switch (at_end) {
    case AtEnd::kKeep: return kKeepWord;
    case AtEnd::kDiscard: return kDiscardWord;
    case AtEnd::kKeepIfChanged: break;
  }
  return "keep-if-changed";
}

}  // namespace

Result<std::optional<JoinedSession>> JoinedSession::join(const SessionDir& session) {
  std::optional<Fd> socket = WARREN_TRY(connect_to_server(session));
  if (!socket) return std::optional<JoinedSession>();
  Result<Message> answer = receive_message(socket->get());
  if (!answer.ok() && answer.error().code() == Code::kUnavailable) return std::optional<JoinedSession>();
  Message message = WARREN_TRY(std::move(answer));
  constexpr std::size_t kCount = 4 + LimitsInForce::kFields;  // where the number of allowed paths is
  bool is_valid = message.verb() == "joined" && message.fields.size() > kCount && message.fds.size() >= 4;
  std::size_t allowed = is_valid ? parse_number<std::size_t>(message.fields[kCount]).value_or(0) : 0;
  std::optional<NetworkAccess> network = is_valid ? find_network_access(message.fields[2]) : std::nullopt;
  if (!network || message.fields.size() - kCount - 1 < allowed)
    return Error(Code::kIo, "the session's server sent an unexpected answer");
  JoinedSession joined(std::move(*socket));
  joined.base_ = message.fields[1];
  auto first = message.fields.begin() + kCount + 1;
  joined.allowed_.assign(first, first + static_cast<std::ptrdiff_t>(allowed));
  joined.writable_.assign(first, message.fields.end());
  joined.writable_.push_back(joined.base_);
  joined.namespaces_ = std::move(message.fds);
  joined.network_ = *network;
  joined.namespace_path_ = message.fields[3];
  joined.limits_ = LimitsInForce::from_fields(&message.fields[4]);
  return std::optional(std::move(joined));
}

Status JoinedSession::announce(int mark) const {
  std::array<std::string, 1> word{"mark"};
  return send_message(server_.get(), word, std::array{mark});
}

Status JoinedSession::end_processes() const {
  Pipe done = WARREN_TRY(open_pipe());
  std::array<std::string, 1> word{"end"};
  WARREN_TRY(send_message(server_.get(), word, std::array{done.writer.get()}));
  done.writer = Fd();
  pollfd ended{done.reader.get(), POLLIN, 0};
  int ready = 0;
  while ((ready = ::poll(&ended, 1, kEndMs)) < 0 && errno == EINTR) continue;
  if (ready > 0) return Ok{};
  return Error(Code::kTimeout, "processes that this run started have not ended yet", "the session goes on ending them");
}

void JoinedSession::ask_for_checkpoint() {
  std::array<std::string, 1> word{"checkpoint"};
  send_message(server_.get(), word).ignore("the server has ended, and the run with it");
}

Result<JoinedSession::Left> JoinedSession::leave(AtEnd at_end) {
  std::array<std::string, 2> words{"leave", std::string(word_of(at_end))};
  WARREN_TRY(send_message(server_.get(), words));
  Message message = WARREN_TRY(receive_message(server_.get()));
  bool has_failed = message.fields.size() == 10;
  if (message.verb() != "left" || (message.fields.size() != 8 && !has_failed))
    return Error(Code::kIo, "the session's server sent an unexpected answer");
  Left left{.was_last = message.fields[1] == "last",
            .has_changed = message.fields[2] == "changed",
            .has_new_memory = message.fields[3] == "remembered",
            .has_refusals = message.fields[4] == "refused",
            .is_wanted = message.fields[5] == "wanted",
            .is_kept = message.fields[6] == "kept",
            .warning = message.fields[7],
            .failure = {}};
  if (has_failed) left.failure = Error(Code::kIo, message.fields[8], message.fields[9]);
  return left;
}

}  // namespace warren
