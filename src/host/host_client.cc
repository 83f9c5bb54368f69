#include "host/host_client.h"

#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "host/host.h"
#include "host/operations.h"
#include "host/requests.h"
#include "os/unix_socket.h"

namespace warren {
namespace {

constexpr std::chrono::milliseconds kStatusTime{5'000};

Error bad_answer(std::string_view what) {
  return Error(Code::kIo, fmt::format("the host's answer is not valid: {}", what));
}

Result<HostedEntry> parse_entry(const Json& json) {
  HostedEntry entry;
  Result<Attributes> node = attributes_from_wire(json);
  if (!node.ok()) return bad_answer(node.error().message());
  entry.attributes = std::move(node).take_value();
  auto expires = json.find("expires_at_ms");
  if (expires != json.end() && expires->is_number_integer()) entry.expires_at_ms = expires->get<std::int64_t>();
  return entry;
}

Result<VectorMatch> parse_match(const Json& json) {
  bool is_match = json.is_object() && json.contains("score") && json["score"].is_number() && json.contains("text") &&
                  json["text"].is_string() && json.contains("metadata");
  if (!is_match) return bad_answer("a match lacks a member");
  VectorMatch match;
  match.item.id = WARREN_TRY(get_frame_bytes(json, "path"));
  match.item.text = json["text"].get<std::string>();
  match.item.metadata = json["metadata"];
  match.score = json["score"].get<double>();
  return match;
}

Result<Json> parse_list(const std::string& body) {
  Result<Json> list = parse_json(body);
  if (!list.ok() || !list->is_array()) return bad_answer("it has no list");
  return list;
}

}  // namespace

// A stranger who listens there could pass the challenge of the real host on, and be this agent to it.
Result<std::unique_ptr<HostClient>> HostClient::connect(const HostClientOptions& options, const Ed25519Private& key) {
  Fd socket = WARREN_TRY(connect_unix(options.socket));
  PeerProcess server = WARREN_TRY(peer_process(socket.get()));
  bool is_ours = server.uid == 0 || server.uid == ::geteuid() || server.uid == options.host_user;
  if (!is_ours) {
    return Error(Code::kDenied,
                 fmt::format("the host at {} is run by user {}, who is not trusted", quote(options.socket), server.uid),
                 "--host-user USER accepts it");
  }
  std::unique_ptr<HostClient> client(new HostClient(std::move(socket), options));
  WARREN_TRY(client->identify(key, server.uid));
  return client;
}

Result<Frame> HostClient::read_answer() {
  std::optional<Frame> frame = WARREN_TRY(socket_.read({.first_byte = options_.timeout, .rest = options_.timeout}));
  if (!frame) return Error(Code::kUnavailable, "the host has closed the connection");
  return *std::move(frame);
}

Status HostClient::identify(const Ed25519Private& key, uid_t server_user) {
  Frame hello = WARREN_TRY(read_answer());
  auto challenge = hello.head.find("challenge");
  if (hello.head.contains("error")) return error_of_head(hello.head);
  if (hello.head.value("warren_host", Json()) != kHostProtocol || challenge == hello.head.end() ||
      !challenge->is_string()) {
    return Error(Code::kUnsupported,
                 fmt::format("what listens on {} is not a host of this version", quote(options_.socket)));
  }
  Ed25519Signature signature =
      key.sign(as_bytes(challenge_bytes(challenge->get<std::string>(), options_.agent, server_user)));
  WARREN_TRY(socket_.write({{"op", "identify"}, {"agent", options_.agent}, {"signature", signature.text()}}, {},
                           options_.timeout));
  Frame answer = WARREN_TRY(read_answer());
  if (answer.head.value("ok", Json()) != true) return error_of_head(answer.head);
  return Ok{};
}

Result<Frame> HostClient::call(std::string_view op, std::string_view path, Json head, std::string_view body) {
  if (body.size() > kFrameBodyBytes) {
    return Error(Code::kTooLarge, fmt::format("a host takes at most {} bytes at once", kFrameBodyBytes),
                 "write the first part, and append the others");
  }
  std::lock_guard lock(mutex_);
  if (is_broken_) return Error(Code::kUnavailable, "the connection to the host is gone");
  Json request{{"op", op}};
  set_frame_bytes(request, "path", path);
  for (const auto& [name, value] : head.items()) request[name] = value;
  is_broken_ = true;  // until the whole answer is there
  Status sent = socket_.write(request, body, options_.timeout);
  // A host that refuses a request closes at once, and has said why.
  Result<Frame> answer = read_answer();
  if (!sent.ok() && !answer.ok()) return std::move(sent).take_error();
  Frame frame = WARREN_TRY(std::move(answer));
  is_broken_ = !sent.ok();
  if (frame.head.value("ok", Json()) != true) return error_of_head(frame.head);
  return frame;
}

Result<std::string> HostClient::read(std::string_view path) {
  Frame answer = WARREN_TRY(call("read", path));
  return std::move(answer.body);
}

Status HostClient::write(std::string_view path, std::string_view data, const WriteOptions& options) {
  Json head = Json::object();
  if (options.as_is) head["as_is"] = true;
  if (options.time_to_live) {
    if (options.time_to_live->count() <= 0) return Error(Code::kInvalid, "a time to live must be positive");
    head["ttl_ms"] = static_cast<std::uint64_t>(options.time_to_live->count());
  }
  WARREN_TRY(call("write", path, std::move(head), data));
  return Ok{};
}

Status HostClient::append(std::string_view path, std::string_view data, bool as_is) {
  Json head = Json::object();
  if (as_is) head["as_is"] = true;
  WARREN_TRY(call("append", path, std::move(head), data));
  return Ok{};
}

Result<std::vector<HostedEntry>> HostClient::list(std::string_view path) {
  Frame answer = WARREN_TRY(call("list", path));
  Json list = WARREN_TRY(parse_list(answer.body));
  std::vector<HostedEntry> entries;
  for (const Json& one : list) {
    HostedEntry entry = WARREN_TRY(parse_entry(one));
    entry.name = WARREN_TRY(get_frame_bytes(one, "name"));
    WARREN_TRY(check_name(entry.name));
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<HostedEntry> HostClient::stat(std::string_view path) {
  Frame answer = WARREN_TRY(call("stat", path));
  return parse_entry(answer.head.value("attributes", Json()));
}

Result<bool> HostClient::exists(std::string_view path) {
  Frame answer = WARREN_TRY(call("exists", path));
  Json exists = answer.head.value("exists", Json());
  if (!exists.is_boolean()) return bad_answer("it has no 'exists'");
  return exists.get<bool>();
}

Status HostClient::remove(std::string_view path, Recursive recursive) {
  Json head = Json::object();
  if (recursive == Recursive::kYes) head["recursive"] = true;
  WARREN_TRY(call("remove", path, std::move(head)));
  return Ok{};
}

Result<std::vector<VectorMatch>> HostClient::query(std::string_view path, const std::vector<float>& embedding,
                                                   std::size_t top_k, const Json& filter) {
  Json head{{"top_k", top_k}};
  if (!filter.is_null()) head["filter"] = filter;
  Frame answer = WARREN_TRY(call("query", path, std::move(head), dump_json(Json(embedding))));
  Json list = WARREN_TRY(parse_list(answer.body));
  std::vector<VectorMatch> matches;
  for (const Json& one : list) matches.push_back(WARREN_TRY(parse_match(one)));
  return matches;
}

Result<Json> ask_host_status(std::int64_t pid) {
  std::string path = WARREN_TRY(host_control_path(pid));
  FrameSocket socket(WARREN_TRY(connect_unix(path)));
  std::optional<Frame> frame = WARREN_TRY(socket.read({.first_byte = kStatusTime, .rest = kStatusTime}));
  if (!frame) return Error(Code::kUnavailable, "the host did not answer");
  return frame->head;
}

}  // namespace warren
