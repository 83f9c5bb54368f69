#include "relay/client/client.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "relay/delivery/inbox_file.h"
#include "relay/protocol/names.h"

namespace warren::relay {
namespace {

constexpr std::uint64_t kDeliveredBytes = 2 * kMessageBytesMost;  // leaves room for the relay's headers

// Refuses fields that would be read back as other headers.
Status check_fields(const Message& message) {
  std::vector<std::string_view> fields = {message.to, message.kind, message.thread, message.checksum,
                                          message.reference};
  for (const Header& header : message.others) {
    fields.insert(fields.end(), {header.name, header.value});
    if (header.name.find(':') != header.name.npos) {
      return Error(Code::kInvalid, fmt::format("{} is not a valid header name", quote(header.name)));
    }
  }
  for (std::string_view field : fields) {
    if (field.find('\n') != field.npos) return Error(Code::kInvalid, "a header must be a single line");
  }
  return Ok{};
}

}  // namespace

Result<std::unique_ptr<Client>> Client::open(Root& root, std::string_view agent, Clock& clock) {
  WARREN_TRY(check_agent_name(agent));
  std::unique_ptr<Client> client(new Client(root, std::string(agent), clock));
  Status opened = client->open_dirs();
  if (!opened.ok() && opened.error().code() == Code::kNotFound) {
    Result<std::vector<std::string>> made = root.make_agent(agent);
    if (!made.ok() && made.error().code() == Code::kDenied) {
      return std::move(made).take_error().with_hint(
          "only the relay's user can register agents: see `warren relay register`");
    }
    WARREN_TRY(std::move(made));
    opened = client->open_dirs();
  }
  if (!opened.ok() && opened.error().code() == Code::kDenied) {
    return Error(Code::kDenied, fmt::format("agent {} belongs to another user", quote(agent)));
  }
  WARREN_TRY(std::move(opened));
  return client;
}

Status Client::open_dirs() {
  outbox_ = WARREN_TRY(root_.open_outbox(agent_));
  pending_ = WARREN_TRY(open_below(outbox_.get(), ".pending", O_RDONLY | O_DIRECTORY));
  inbox_ = WARREN_TRY(root_.open_inbox(agent_));
  WARREN_TRY(open_below(inbox_.get(), ".done", O_PATH | O_DIRECTORY));
  struct stat info {};
  if (::fstat(outbox_.get(), &info) != 0) return system_error(errno, "stat the outbox");
  if (info.st_uid != ::geteuid()) owner_ = Owner{info.st_uid, info.st_gid};
  return Ok{};
}

Result<std::string> Client::send(const Message& message) {
  Message signed_message = message;
  if (!token_.empty()) signed_message.others.push_back({"TOKEN", token_});
  WARREN_TRY(check_fields(signed_message).within("the message"));
  std::string content = write_message(signed_message);
  WARREN_TRY(parse_message(content).within("the message"));
  WARREN_TRY(attachments_of(message).within("the message"));
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) return system_error(errno, "get random bytes");
  Timestamp now = clock_.now();
  newest_ns_ = std::max(newest_ns_ + 1, now.seconds * 1'000'000'000 + now.nanoseconds);
  std::string stem = make_message_stem(newest_ns_, random);
  std::string file = stem + ".msg";
  Fd draft = WARREN_TRY(open_below(pending_.get(), file, O_WRONLY | O_CREAT | O_EXCL));
  Status written = write_all(draft.get(), as_bytes(content));
  if (written.ok() && owner_ && ::fchown(draft.get(), owner_->uid, owner_->gid) != 0) {
    written = system_error(errno, "hand it to the agent's user");
  }
  if (written.ok() && ::fsync(draft.get()) != 0) written = system_error(errno, "sync");
  if (written.ok() && ::renameat(pending_.get(), file.c_str(), outbox_.get(), file.c_str()) != 0) {
    written = system_error(errno, "rename");
  }
  if (!written.ok()) ::unlinkat(pending_.get(), file.c_str(), 0);
  WARREN_TRY(std::move(written).within(fmt::format("send {}", quote(file))));
  if (::fsync(outbox_.get()) != 0) return system_error(errno, "sync the outbox");
  return make_message_id(agent_, stem);
}

// Reading a large directory is not atomic: it may return a message but not an earlier one. A second reading returns all
// messages that precede any from the first; later ones are left for the next call.
Result<std::vector<std::string>> Client::list_inbox() {
  std::vector<HostEntry> before = WARREN_TRY(list_host_dir(inbox_.get()));
  std::erase_if(before, [](const HostEntry& entry) { return !is_message_file(entry.name); });
  std::vector<std::string> names;
  if (before.empty()) return names;
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(inbox_.get()));
  for (HostEntry& entry : entries) {
    if (entry.name > before.back().name || !is_message_file(entry.name)) continue;
    if (S_ISREG(entry.attributes.st_mode)) names.push_back(std::move(entry.name));
  }
  return names;
}

Result<Received> Client::read(const std::string& file) {
  ReadFile read = WARREN_TRY(read_below(inbox_.get(), file, kDeliveredBytes));
  Received out;
  out.file = file;
  out.message = WARREN_TRY(parse_message(read.content, kHeaderCount + kRelayHeaders));
  if (const std::string* sender = out.message.find("FROM")) out.sender = *sender;
  if (const std::string* id = out.message.find("ID")) out.id = *id;
  return out;
}

Status Client::take(const std::string& file) {
  Fd done = WARREN_TRY(open_below(inbox_.get(), ".done", O_RDONLY | O_DIRECTORY));
  if (::renameat(inbox_.get(), file.c_str(), done.get(), file.c_str()) == 0) return Ok{};
  return system_error(errno, fmt::format("take {}", quote(file)));
}

Result<std::string> Client::find_received(std::string_view reference) {
  bool is_file = reference.find('/') == reference.npos;
  std::string end = is_file ? std::string(reference) : inbox_name_end(reference);
  if (is_file && !end.ends_with(".msg")) end += ".msg";
  auto is_it = [&](const std::string& file) { return is_file ? file == end : file.ends_with(end); };
  std::vector<std::string> files = WARREN_TRY(list_inbox());
  auto found = std::find_if(files.begin(), files.end(), is_it);
  if (found != files.end()) return *found;
  Fd done = WARREN_TRY(open_below(inbox_.get(), ".done", O_RDONLY | O_DIRECTORY));
  std::vector<HostEntry> taken = WARREN_TRY(list_host_dir(done.get()));
  for (HostEntry& entry : taken) {
    if (is_message_file(entry.name) && is_it(entry.name)) return std::move(entry.name);
  }
  return Error(Code::kNotFound, fmt::format("agent {} has received no message {}", quote(agent_), quote(reference)),
               "the inbox and inbox/.done have neither a file nor a message of that name");
}

Status Client::acknowledge(std::string_view reference) {
  return answer(reference, {.to = std::string(kOrchestrator), .kind = "ack"});
}

Status Client::refuse(std::string_view reference, std::string_view why) {
  Message message{.to = std::string(kOrchestrator), .kind = "nack"};
  message.body = why;
  return answer(reference, std::move(message));
}

// Taken after the answer is durable: if we are killed in between, the message is shown again, and answered again.
Status Client::answer(std::string_view reference, Message message) {
  std::string file = WARREN_TRY(find_received(reference));
  message.reference = reference;
  WARREN_TRY(send(message));
  Status taken = take(file);
  bool is_gone = !taken.ok() && taken.error().code() == Code::kNotFound;  // it has been taken
  return is_gone ? Status(Ok{}) : taken;
}

}  // namespace warren::relay
