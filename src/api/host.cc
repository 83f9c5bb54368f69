#include <warren/v1/host.h>

#include <utility>

#include "api/attributes.h"
#include "base/json.h"
#include "host/host_client.h"
#include "trust/key_file.h"

namespace warren::v1 {

struct HostedVfs::State {
  std::unique_ptr<HostClient> client;
};

HostedVfs::HostedVfs(std::unique_ptr<State> state) : state_(std::move(state)) {}
HostedVfs::~HostedVfs() = default;

Result<std::unique_ptr<HostedVfs>> HostedVfs::connect(const HostOptions& options) {
  Ed25519Private key = WARREN_TRY(read_key_file(options.key_file));
  HostClientOptions how{.socket = options.socket, .agent = options.agent, .timeout = options.timeout};
  if (options.host_user) how.host_user = *options.host_user;
  auto state = std::make_unique<State>();
  state->client = WARREN_TRY(HostClient::connect(how, key));
  return std::unique_ptr<HostedVfs>(new HostedVfs(std::move(state)));
}

Result<std::string> HostedVfs::read(std::string_view path) { return state_->client->read(path); }

Status HostedVfs::write(std::string_view path, std::string_view value, const VfsWriteOptions& options) {
  return state_->client->write(path, value, {.as_is = options.as_is, .time_to_live = options.time_to_live});
}

Status HostedVfs::append(std::string_view path, std::string_view value, const VfsWriteOptions& options) {
  if (options.time_to_live)
    return Error(Code::kInvalid, "a time to live is for a file that is written, not appended to");
  return state_->client->append(path, value, options.as_is);
}

Result<bool> HostedVfs::exists(std::string_view path) { return state_->client->exists(path); }

Result<std::vector<std::string>> HostedVfs::list(std::string_view path) {
  std::vector<HostedEntry> entries = WARREN_TRY(state_->client->list(path));
  std::vector<std::string> names;
  for (HostedEntry& entry : entries) names.push_back(std::move(entry.name));
  return names;
}

Status HostedVfs::remove(std::string_view path, const RemoveOptions& options) {
  bool is_recursive = options.recursive == Recursive::kYes;
  Status removed =
      state_->client->remove(path, is_recursive ? HostClient::Recursive::kYes : HostClient::Recursive::kNo);
  bool is_missing = !removed.ok() && removed.error().code() == Code::kNotFound;
  return is_missing && options.force == Force::kYes ? Status(Ok{}) : std::move(removed);
}

Result<VfsStat> HostedVfs::stat(std::string_view path) {
  HostedEntry entry = WARREN_TRY(state_->client->stat(path));
  return VfsStat{.attributes = to_public(entry.attributes), .expires_at_ms = entry.expires_at_ms};
}

Result<std::vector<VfsMatch>> HostedVfs::query(std::string_view path, const VfsQuery& query) {
  Json filter;
  if (!query.filter.empty()) filter = WARREN_TRY(parse_json(query.filter).within("filter"));
  std::vector<VectorMatch> found = WARREN_TRY(state_->client->query(path, query.embedding, query.top_k, filter));
  std::vector<VfsMatch> matches;
  for (VectorMatch& match : found) {
    matches.push_back({.path = std::move(match.item.id),
                       .score = match.score,
                       .text = std::move(match.item.text),
                       .metadata = dump_json(match.item.metadata)});
  }
  return matches;
}

}  // namespace warren::v1
