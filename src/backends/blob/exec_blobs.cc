#include "backends/blob/exec_blobs.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "backends/blob/blob_key.h"
#include "backends/blob/exec_messages.h"
#include "base/base64.h"
#include "base/path.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "os/error.h"
#include "os/pipe.h"
#include "os/processes/exec_strings.h"

namespace warren {
namespace {

constexpr std::int64_t kProtocol = 1;
constexpr std::size_t kQuotedBytes = 100;  // of garbage, in messages
constexpr std::size_t kLineOverhead = 1U << 20;
constexpr std::chrono::milliseconds kEndPatience{2'000};
constexpr std::chrono::milliseconds kUnansweredPause{2'000};
constexpr int kPipeBytes = 1 << 20;  // as far as the system allows: fewer turns for large values
constexpr std::size_t kListKeys = 1'000;

// The codes that a program may answer with; anything else is kIo.
constexpr std::array<Code, 10> kProgramCodes{Code::kInvalid,     Code::kExists,      Code::kConflict, Code::kTooLarge,
                                             Code::kNoSpace,     Code::kUnsupported, Code::kDenied,   Code::kReadOnly,
                                             Code::kUnavailable, Code::kIo};

Status check_text_key(std::string_view key) {
  WARREN_TRY(check_blob_key(key));
  if (is_utf8(key)) return Ok{};
  return Error(Code::kInvalid, fmt::format("key {} is not UTF-8, which this backend needs", quote(key)));
}

Json key_request(std::string_view operation, std::string_view key) { return Json{{"op", operation}, {"key", key}}; }

Result<Timestamp> time_in(const Json& object, const char* key) {
  auto value = object.find(key);
  if (value == object.end() || !value->is_number()) return Timestamp{};
  double seconds = value->get<double>();
  if (!std::isfinite(seconds) || std::abs(seconds) > 1e15) {
    return Error(Code::kUnavailable, fmt::format("\"{}\" in the backend's answer is not a time", key));
  }
  double whole = std::floor(seconds);
  auto nanoseconds = static_cast<std::int32_t>(std::min((seconds - whole) * 1e9, 999'999'999.0));
  return Timestamp{.seconds = static_cast<std::int64_t>(whole), .nanoseconds = nanoseconds};
}

Result<BlobInfo> info_in(const Json& object, std::string_view key) {
  bool is_valid = object.is_object() && object.contains("size") && object["size"].is_number_unsigned() &&
                  object.contains("version") && object["version"].is_string();
  if (!is_valid) {
    return Error(Code::kUnavailable, "the backend described a value without \"size\" or \"version\"");
  }
  BlobInfo info {
    .key = std::string(key), .size = object["size"].get<std::uint64_t>(),
    .version = object["version"].get<std::string>(), .modified = WARREN_TRY(time_in(object, "modified"))
    , .expires = {}
  };
  if (object.contains("expires") && object["expires"].is_number()) {
    info.expires = WARREN_TRY(time_in(object, "expires"));
  }
  return info;
}

Result<std::optional<Blob>> blob_in(const Json& answer, std::string_view key) {
  if (!answer.contains("blob")) return Error(Code::kUnavailable, "the backend's answer lacks \"blob\"");
  const Json& value = answer["blob"];
  if (value.is_null()) return std::optional<Blob>();
  Blob blob {
    .info = WARREN_TRY(info_in(value, key))
    , .content = {}
  };
  if (!value.contains("content") || !value["content"].is_string()) {
    return Error(Code::kUnavailable, "the backend's answer lacks the content");
  }
  std::optional<std::string> content = decode_base64(value["content"].get_ref<const std::string&>());
  if (!content) return Error(Code::kUnavailable, "the backend's content is not base64");
  blob.content = *std::move(content);
  return std::optional(std::move(blob));
}

Error error_in(const Json& error) {
  std::string code = error.is_object() && error.contains("code") && error["code"].is_string()
                         ? error["code"].get<std::string>()
                         : "io";
  std::string message = error.is_object() && error.contains("message") && error["message"].is_string()
                            ? error["message"].get<std::string>()
                            : "the backend gave no reason";
  message = printable(message);
  for (Code known : kProgramCodes) {
    if (name_of(known) == code) return Error(known, "backend: " + message);
  }
  return Error(Code::kIo, fmt::format("backend: {} ({})", message, quote(code)));
}

// The bytes from which keys are wanted, including it: just after `after`, or after the whole folder if it is one.
std::string from_after(std::string after) {
  if (after.empty()) return after;
  std::size_t end = after.find_last_not_of('\xff');
  if (end != std::string::npos && end + 1 < after.size() && after[end] == '/') {
    after.resize(end);
    return after + '0';
  }
  return after + '\0';
}

BlobAbilities abilities_in(const Json& hello) {
  BlobAbilities found{.conditional_puts = false, .ttl = false, .largest = ExecBlobs::kLargest};
  if (hello.contains("abilities") && hello["abilities"].is_object()) {
    const Json& says = hello["abilities"];
    auto flag = [&](const char* name, bool usual) {
      return says.contains(name) && says[name].is_boolean() ? says[name].get<bool>() : usual;
    };
    found.conditional_puts = flag("conditional_puts", false);
    found.conditional_removals = flag("conditional_removals", false);
    found.ttl = flag("ttl", false);
    found.lasts = flag("lasts", true);
    if (says.contains("largest") && says["largest"].is_number_unsigned()) {
      found.largest = std::min(ExecBlobs::kLargest, says["largest"].get<std::uint64_t>());
    }
  }
  return found;
}

}  // namespace

Result<std::unique_ptr<ExecBlobs>> ExecBlobs::open(ExecOptions options, Clock& clock) {
  if (options.command.find_first_not_of(" \t") == std::string::npos) {
    return Error(Code::kInvalid, "\"exec:\" lacks its command", "write it as exec:./backend --flag");
  }
  if (options.command.find('\0') != std::string::npos) {
    return Error(Code::kInvalid, "a command must not contain a NUL byte");
  }
  std::unique_ptr<ExecBlobs> store(new ExecBlobs(std::move(options), clock));
  std::scoped_lock lock(store->mutex_);
  WARREN_TRY(store->start(clock.monotonic_ns() + std::chrono::nanoseconds(store->options_.timeout).count()));
  return store;
}

ExecBlobs::~ExecBlobs() { end(kEndPatience); }

// The process.

Status ExecBlobs::start(std::int64_t deadline_ns) {
  // A socket, because writing to one whose other end is gone can do without a signal.
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return system_error(errno, "make a socket");
  Fd ours(ends[0]);
  Fd theirs(ends[1]);
  Pipe output = WARREN_TRY(open_pipe());
  Pipe errors = WARREN_TRY(open_pipe());
  std::vector<std::string> words{"/bin/sh", "-c", "exec " + options_.command};
  std::vector<char*> argv = exec_strings(words);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (!options_.directory.empty()) ::posix_spawn_file_actions_addchdir_np(&actions, options_.directory.c_str());
  ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), 0);
  ::posix_spawn_file_actions_adddup2(&actions, output.writer.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, errors.writer.get(), 2);
  // A group of its own, so that the terminal's keys end us and not it, before the last writes. Signals as usual.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  int failed = ::posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return system_error(failed, fmt::format("start {}", quote(options_.command)));
  pid_ = pid;
  WARREN_TRY(start_watcher());
  theirs = Fd();  // so that its end is seen
  output.writer = Fd();
  errors.writer = Fd();
  ::fcntl(errors.reader.get(), F_SETPIPE_SZ, kPipeBytes);
  ::fcntl(output.reader.get(), F_SETPIPE_SZ, kPipeBytes);
  ::setsockopt(ours.get(), SOL_SOCKET, SO_SNDBUF, &kPipeBytes, sizeof kPipeBytes);
  input_ = std::move(ours);
  output_ = std::move(output.reader);
  errors_ = std::move(errors.reader);
  received_.clear();
  ::fcntl(errors_.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(input_.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);

  Json hello = WARREN_TRY(receive_object(deadline_ns));
  pass_messages(errors_);
  if (!hello.contains("warren") || hello["warren"] != kProtocol) {
    return broken(fmt::format("it does not begin with {{\"warren\": {}}}", kProtocol));
  }
  if (next_id_ == 1) abilities_ = abilities_in(hello);  // later programs are the same one again
  return Ok{};
}

// Not PR_SET_PDEATHSIG: that would follow the thread that made the call.
Status ExecBlobs::start_watcher() {
  Pipe alive = WARREN_TRY(open_pipe());
  std::vector<std::string> words{"/bin/sh", "-c", "read line; kill -KILL 0"};
  std::vector<char*> argv = exec_strings(words);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, alive.reader.get(), 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setpgroup(&attributes, pid_);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  int failed = ::posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  // A program that has ended already has no group any more; the first call will find out.
  if (failed == EPERM || failed == ESRCH) return Ok{};
  if (failed != 0) {
    end(std::chrono::milliseconds(0));
    return system_error(failed, "start a process that watches the backend");
  }
  watcher_ = pid;
  alive_ = std::move(alive.writer);
  return Ok{};
}

void ExecBlobs::end(std::chrono::milliseconds patience) {
  input_ = Fd();
  if (pid_ < 0) return;
  int status = 0;
  std::int64_t until = clock_.monotonic_ns() + std::chrono::nanoseconds(patience).count();
  bool is_gone = false;
  for (int waited = 0; !is_gone && waited < patience.count() && clock_.monotonic_ns() < until; ++waited) {
    is_gone = ::waitpid(pid_, &status, WNOHANG) != 0;
    if (!is_gone) ::poll(nullptr, 0, 1);
  }
  if (!is_gone) {
    ::kill(-pid_, SIGKILL);  // our unreaped child, so the group is still its own
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (watcher_ > 0) {
    ::kill(-pid_, SIGKILL);  // the watcher is still in the group, so it is the program's
    while (::waitpid(watcher_, &status, 0) < 0 && errno == EINTR) {
    }
    watcher_ = -1;
    alive_ = Fd();
  }
  pid_ = -1;
  output_ = Fd();
  pass_messages(errors_);
  errors_ = Fd();
  received_.clear();
}

// Whatever it would say next belongs to nothing we know.
Error ExecBlobs::broken(std::string message) {
  end(std::chrono::milliseconds(0));
  return Error(Code::kUnavailable, fmt::format("backend {}: {}", quote(options_.command), message));
}

Status ExecBlobs::wait_for(int fd, short events, std::int64_t deadline_ns) {
  while (true) {
    std::int64_t left_ms = (deadline_ns - clock_.monotonic_ns()) / 1'000'000;
    if (left_ms <= 0) {
      auto pause = std::min<std::chrono::nanoseconds>(options_.timeout / 5, kUnansweredPause);
      unanswered_until_ns_ = clock_.monotonic_ns() + pause.count();
      return broken(fmt::format("no answer within {} ms", options_.timeout.count()));
    }
    std::array<pollfd, 2> both{{{fd, events, 0}, {errors_.is_open() ? errors_.get() : -1, POLLIN, 0}}};
    int ready = ::poll(both.data(), both.size(), static_cast<int>(std::min<std::int64_t>(left_ms, 60'000)));
    if (ready < 0 && errno != EINTR) return system_error(errno, "wait for the backend");
    if (ready > 0 && both[1].revents != 0) pass_messages(errors_);
    if (ready > 0 && both[0].revents != 0) return Ok{};
  }
}

Status ExecBlobs::send_line(const std::string& line, std::int64_t deadline_ns) {
  std::string_view rest = line;
  while (!rest.empty()) {
    ssize_t sent = ::send(input_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      WARREN_TRY(wait_for(input_.get(), POLLOUT, deadline_ns));
    } else if (errno != EINTR) {
      return broken("it has ended");
    }
  }
  return Ok{};
}

Result<std::string> ExecBlobs::receive_line(std::int64_t deadline_ns) {
  std::size_t looked_at = 0;
  while (true) {
    std::size_t end_of_line = received_.find('\n', looked_at);
    if (end_of_line != std::string::npos) {
      std::string line = received_.substr(0, end_of_line);
      received_.erase(0, end_of_line + 1);
      return line;
    }
    looked_at = received_.size();
    if (received_.size() > kLargest / 3 * 4 + kLineOverhead) return broken("its answer is too long");
    std::array<char, 65536> buffer;
    ssize_t got = ::read(output_.get(), buffer.data(), buffer.size());
    if (got > 0) {
      received_.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0) {
      return broken(received_.empty() ? "it has ended" : "it ended in the middle of an answer");
    } else if (errno == EAGAIN) {
      WARREN_TRY(wait_for(output_.get(), POLLIN, deadline_ns));
    } else if (errno != EINTR) {
      return broken("its output cannot be read");
    }
  }
}

Result<Json> ExecBlobs::receive_object(std::int64_t deadline_ns) {
  std::string line = WARREN_TRY(receive_line(deadline_ns));
  Result<Json> object = parse_json(line);
  if (object.ok() && object->is_object()) return object;
  return broken(fmt::format("it wrote {} instead of a JSON object; messages for people belong on standard error",
                            quote(std::string_view(line).substr(0, kQuotedBytes))));
}

Result<Json> ExecBlobs::call_once(const Json& request, std::int64_t deadline_ns) {
  if (pid_ < 0) WARREN_TRY(start(deadline_ns));
  Json numbered = request;
  numbered["id"] = ++next_id_;
  WARREN_TRY(send_line(dump_json(numbered) + "\n", deadline_ns));
  Json answer = WARREN_TRY(receive_object(deadline_ns));
  pass_messages(errors_);
  if (!answer.contains("id") || answer["id"] != next_id_) {
    return broken(fmt::format("its answer is not to the request with the id {}", next_id_));
  }
  return answer;
}

Result<Json> ExecBlobs::call(Json request, Repeat repeat) {
  std::unique_lock lock(mutex_, options_.timeout);
  if (!lock.owns_lock()) {
    return Error(Code::kUnavailable, fmt::format("backend {} is busy with earlier calls", quote(options_.command)));
  }
  std::int64_t now_ns = clock_.monotonic_ns();
  if (now_ns < unanswered_until_ns_) {
    return Error(Code::kUnavailable, fmt::format("backend {} did not answer the call before this one within {} ms",
                                                 quote(options_.command), options_.timeout.count()));
  }
  std::int64_t deadline_ns = now_ns + std::chrono::nanoseconds(options_.timeout).count();
  Result<Json> answer = call_once(request, deadline_ns);
  if (!answer.ok() && repeat == Repeat::kOnce && clock_.monotonic_ns() < deadline_ns) {
    answer = call_once(request, deadline_ns);
  }
  Json found = WARREN_TRY(std::move(answer));
  if (found.contains("error")) return error_in(found["error"]);
  return found;
}

// The store.

Result<std::optional<Blob>> ExecBlobs::get(std::string_view key) {
  WARREN_TRY(check_text_key(key));
  Json answer = WARREN_TRY(call(key_request("get", key), Repeat::kOnce));
  std::optional<Blob> blob = WARREN_TRY(blob_in(answer, key));
  if (blob && blob->content.size() != blob->info.size) {
    return Error(Code::kUnavailable, "the backend's content is not as long as its size");
  }
  return blob;
}

Result<std::optional<Blob>> ExecBlobs::get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) {
  WARREN_TRY(check_text_key(key));
  // Numbers that every language has.
  constexpr std::uint64_t kMost = std::uint64_t{1} << 53;
  Json request = key_request("get", key);
  request["offset"] = std::min(offset, kMost);
  request["length"] = std::min(length, kLargest);
  Json answer = WARREN_TRY(call(std::move(request), Repeat::kOnce));
  std::optional<Blob> blob = WARREN_TRY(blob_in(answer, key));
  if (!blob) return blob;
  std::uint64_t there = blob->info.size - std::min(blob->info.size, offset);
  if (blob->content.size() < std::min({length, kLargest, there})) {
    return Error(Code::kUnavailable, "the backend's content is not as long as its size");
  }
  if (blob->content.size() > length) blob->content.resize(length);
  return blob;
}

Result<std::optional<BlobInfo>> ExecBlobs::find(std::string_view key) {
  WARREN_TRY(check_text_key(key));
  Json answer = WARREN_TRY(call(key_request("find", key), Repeat::kOnce));
  if (!answer.contains("blob")) return Error(Code::kUnavailable, "the backend's answer lacks \"blob\"");
  if (answer["blob"].is_null()) return std::optional<BlobInfo>();
  BlobInfo info = WARREN_TRY(info_in(answer["blob"], key));
  return std::optional(std::move(info));
}

Result<BlobInfo> ExecBlobs::put(std::string_view key, Bytes content, const PutOptions& options) {
  WARREN_TRY(check_text_key(key));
  WARREN_TRY(check_blob_put(abilities_, key, content.size(), options));
  Json request = key_request("put", key);
  request["content"] = encode_base64(content);
  if (options.ttl) request["ttl_ms"] = std::min<std::int64_t>(options.ttl->count(), std::int64_t{1} << 53);
  if (options.if_match) request["if_match"] = *options.if_match;
  if (options.if_absent) request["if_absent"] = true;
  Json answer = WARREN_TRY(call(std::move(request), Repeat::kNo));
  if (!answer.contains("blob")) return Error(Code::kUnavailable, "the backend's answer lacks \"blob\"");
  return info_in(answer["blob"], key);
}

Result<bool> ExecBlobs::remove(std::string_view key) { return remove_version(key, std::nullopt); }

Result<bool> ExecBlobs::remove_version(std::string_view key, const std::optional<std::string>& if_match) {
  WARREN_TRY(check_text_key(key));
  Json request = key_request("remove", key);
  if (if_match) request["if_match"] = *if_match;
  Json answer = WARREN_TRY(call(std::move(request), Repeat::kNo));
  if (!answer.contains("removed") || !answer["removed"].is_boolean()) {
    return Error(Code::kUnavailable, "the backend's answer lacks \"removed\"");
  }
  return answer["removed"].get<bool>();
}

Result<std::vector<BlobInfo>> ExecBlobs::list_keys(const std::string& prefix, const std::string& after,
                                                   std::size_t limit) {
  std::vector<BlobInfo> found;
  std::string from = std::max(from_after(after), prefix);
  if (!is_utf8(prefix) || !is_utf8(from)) {
    return Error(Code::kInvalid, fmt::format("{} is not UTF-8, which this backend needs", quote(prefix)));
  }
  while (found.size() < limit) {
    std::size_t wanted = std::min(limit - found.size(), kListKeys);
    Json answer =
        WARREN_TRY(call(Json{{"op", "list"}, {"prefix", prefix}, {"from", from}, {"limit", wanted}}, Repeat::kOnce));
    if (!answer.contains("blobs") || !answer["blobs"].is_array()) {
      return Error(Code::kUnavailable, "the backend's answer lacks \"blobs\"");
    }
    for (const Json& one : answer["blobs"]) {
      bool has_key = one.is_object() && one.contains("key") && one["key"].is_string();
      std::string key = has_key ? one["key"].get<std::string>() : std::string();
      if (!key.starts_with(prefix) || key < from || !check_blob_key(key).ok() || found.size() == limit) {
        return Error(Code::kUnavailable, fmt::format("the backend listed {} out of turn", quote(key)));
      }
      found.push_back(WARREN_TRY(info_in(one, key)));
      from = key + '\0';
    }
    if (answer["blobs"].size() < wanted) break;
  }
  return found;
}

Result<BlobPage> ExecBlobs::list(const ListOptions& options) {
  return list_in_pages(options, [this](const std::string& prefix, const std::string& after, std::size_t limit) {
    return list_keys(prefix, after, limit);
  });
}

Status ExecBlobs::apply(std::span<const BlobChange> changes) {
  for (const BlobChange& change : changes) {
    if (change.content) {
      WARREN_TRY(put(change.key, *change.content, change.options));
      continue;
    }
    WARREN_TRY(check_blob_removal(abilities_, change));
    WARREN_TRY(remove_version(change.key, change.options.if_match));
  }
  return Ok{};
}

}  // namespace warren
