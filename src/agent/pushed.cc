#include "agent/pushed.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <mutex>
#include <unordered_set>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/at_once.h"
#include "agent/checkpoints.h"
#include "agent/locate.h"
#include "agent/store_address.h"
#include "base/path.h"
#include "base/strict_json.h"
#include "crypto/digest.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/host_files.h"

namespace warren {
namespace {

constexpr std::uint64_t kBlockBytes = 64ULL << 10;
constexpr std::uint64_t kBlockBytesMax = 64ULL << 20;
constexpr std::uint64_t kBlocksMax = 65'536;         // of one state, by larger blocks
constexpr std::size_t kStateBytesMax = 16ULL << 20;  // as JSON
constexpr std::size_t kStatesMax = 100'000;

std::uint64_t block_bytes_for(std::uint64_t size) {
  std::uint64_t bytes = kBlockBytes;
  while (bytes < kBlockBytesMax && size / bytes >= kBlocksMax) bytes *= 2;
  return bytes;
}

std::string state_prefix(const std::string& agent) { return agent + "/states/"; }
std::string block_prefix(const std::string& agent) { return agent + "/blocks/"; }
std::string block_key(const std::string& agent, const std::string& hash) {
  return fmt::format("{}{}/{}", block_prefix(agent), hash.substr(0, 2), hash);
}

// Sorts by time as text.
std::string name_of_now(Clock& clock) {
  std::int64_t now = clock.now_us();
  std::time_t seconds = now / 1'000'000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}.{:06}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, now % 1'000'000);
}

bool is_state_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name.find_first_not_of("0123456789TZ.") == name.npos;
}

bool is_block_hash(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::uint64_t length_of_block(const PushedState& state, std::size_t index) {
  return std::min(state.block_bytes, state.size_bytes - index * state.block_bytes);
}

Result<std::string> read_block(int fd, std::uint64_t offset, std::uint64_t length) {
  std::string block(length, '\0');
  std::size_t done = 0;
  while (done < block.size()) {
    ssize_t count = ::pread(fd, block.data() + done, block.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(errno, "read a copy of the agent");
    if (count == 0) return Error(Code::kConflict, "a copy of the agent became shorter");
    done += static_cast<std::size_t>(count);
  }
  return block;
}

Status write_block(int fd, std::uint64_t offset, std::string_view block) {
  while (!block.empty()) {
    ssize_t count = ::pwrite(fd, block.data(), block.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(errno, "write the agent");
    offset += static_cast<std::uint64_t>(count);
    block.remove_prefix(static_cast<std::size_t>(count));
  }
  return Ok{};
}

class ByteCount {
 public:
  ByteCount(const BytesDone& report, std::uint64_t total) : report_(report), total_(total) {}
  void add(std::uint64_t bytes) {
    if (!report_) return;
    std::lock_guard lock(mutex_);
    done_ += bytes;
    report_(done_, total_);
  }

 private:
  const BytesDone& report_;
  std::uint64_t total_;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
};

// A file beside the agent that is removed again.
struct ScratchFile {
  std::string path;
  ~ScratchFile() {
    for (const char* suffix : {"", "-wal", "-shm"}) {
      remove_host_file(path + suffix).ignore("the next push or pull of this agent removes it");
    }
  }
};

// The file's hash and those of its blocks.
Status hash_file(int fd, PushedState& state) {
  Sha256 whole;
  for (std::uint64_t offset = 0; offset < state.size_bytes; offset += state.block_bytes) {
    std::string block = WARREN_TRY(read_block(fd, offset, length_of_block(state, state.blocks.size())));
    whole.update(as_bytes(block));
    state.blocks.push_back(sha256_hex(as_bytes(block)));
  }
  state.hash = hex_of(whole.finish());
  return Ok{};
}

Result<std::unordered_set<std::string>> blocks_there(BlobStore& store, const std::string& agent) {
  std::unordered_set<std::string> found;
  ListOptions options{.prefix = block_prefix(agent)};
  do {
    BlobPage page = WARREN_TRY(store.list(options));
    for (const BlobInfo& blob : page.blobs) found.emplace(base_name(blob.key));
    options.after = std::move(page.next);
  } while (!options.after.empty());
  return found;
}

Json json_of(const PushedState& state, const std::string& agent) {
  Json json{{"version", 1}, {"agent", agent}, {"size_bytes", state.size_bytes}, {"block_bytes", state.block_bytes}};
  json["sha256"] = state.hash;
  json["checkpoints"] = Json::array();
  for (const PushedCheckpoint& one : state.checkpoints) {
    json["checkpoints"].push_back({{"id", one.id}, {"name", one.name}, {"taken_at_us", one.at_us}});
  }
  json["blocks"] = state.blocks;
  return json;
}

Error damaged_state(std::string_view why) {
  return {Code::kCorrupt, fmt::format("it is damaged: {}", why), "pull an older state, or push the agent again"};
}

template <class T>
bool take_member(const Json& json, const char* name, T& out) {
  auto member = json.find(name);
  if (member == json.end()) return false;
  if constexpr (std::is_same_v<T, std::string>) {
    if (!member->is_string()) return false;
  } else if constexpr (std::is_unsigned_v<T>) {
    if (!member->is_number_unsigned()) return false;
  } else {
    if (!member->is_number_integer()) return false;
  }
  out = member->get<T>();
  return true;
}

Status take_blocks(const Json& json, PushedState& state) {
  auto blocks = json.find("blocks");
  if (blocks == json.end() || !blocks->is_array()) return damaged_state("it has no 'blocks'");
  bool is_size_right = state.block_bytes >= kBlockBytes && state.block_bytes <= kBlockBytesMax && state.size_bytes > 0;
  if (!is_size_right || blocks->size() != (state.size_bytes - 1) / state.block_bytes + 1) {
    return damaged_state("its sizes and blocks do not match");
  }
  for (const Json& hash : *blocks) {
    if (!hash.is_string() || !is_block_hash(hash.get_ref<const std::string&>())) {
      return damaged_state("a block has no SHA-256");
    }
    state.blocks.push_back(hash.get<std::string>());
  }
  return Ok{};
}

Result<PushedState> parse_state(std::string_view text) {
  Json json = WARREN_TRY(parse_strict_json(text));
  PushedState state;
  std::uint64_t version = 0;
  if (!json.is_object() || !take_member(json, "version", version)) return damaged_state("it has no 'version'");
  if (version != 1) {
    return Error(Code::kUnsupported, fmt::format("version {} is unknown", version), "a newer warren can pull it");
  }
  if (!take_member(json, "size_bytes", state.size_bytes) || !take_member(json, "block_bytes", state.block_bytes) ||
      !take_member(json, "sha256", state.hash)) {
    return damaged_state("'size_bytes', 'block_bytes' or 'sha256' is missing");
  }
  WARREN_TRY(take_blocks(json, state));
  if (auto all = json.find("checkpoints"); all != json.end() && all->is_array()) {
    for (const Json& one : *all) {
      PushedCheckpoint checkpoint;
      bool is_whole = one.is_object() && take_member(one, "id", checkpoint.id) &&
                      take_member(one, "name", checkpoint.name) && take_member(one, "taken_at_us", checkpoint.at_us);
      if (is_whole) state.checkpoints.push_back(std::move(checkpoint));
    }
  }
  return state;
}

// The hashes of blocks that must be sent, each once, with the place where one is.
std::vector<std::size_t> missing_blocks(const PushedState& state, std::unordered_set<std::string> there) {
  std::vector<std::size_t> missing;
  for (std::size_t index = 0; index < state.blocks.size(); ++index) {
    if (there.insert(state.blocks[index]).second) missing.push_back(index);
  }
  return missing;
}

Status fetch_block(BlobStore& store, const std::string& agent, const PushedState& state, std::size_t index, int out) {
  const std::string& hash = state.blocks[index];
  std::optional<Blob> block = WARREN_TRY(store.get(block_key(agent, hash)));
  if (!block) return damaged_state(fmt::format("block {} is not in the store", hash));
  if (block->content.size() != length_of_block(state, index) || sha256_hex(as_bytes(block->content)) != hash) {
    return damaged_state(fmt::format("block {} has another content", hash));
  }
  return write_block(out, index * state.block_bytes, block->content);
}

Status check_whole(int fd, const PushedState& state) {
  PushedState again{.name = {}, .size_bytes = state.size_bytes, .block_bytes = state.block_bytes};
  WARREN_TRY(hash_file(fd, again));
  return again.hash == state.hash ? Status(Ok{}) : damaged_state("the whole file has another SHA-256");
}

// Also the newest by name if the clock was set back.
Result<std::string> next_state_name(BlobStore& store, const std::string& agent, Clock& clock) {
  std::vector<std::string> names = WARREN_TRY(list_pushed(store, agent));
  std::string name = name_of_now(clock);
  if (names.empty() || names.back() < name) return name;
  name = names.back() + ".1";
  if (is_state_name(name)) return name;
  return Error(Code::kConflict, fmt::format("the newest state in the store has the time {}", quote(names.back())),
               "set the clock of this machine");
}

}  // namespace

Result<std::unique_ptr<BlobStore>> open_push_store(const std::string& address, Clock& clock) {
  std::unique_ptr<BlobStore> store = WARREN_TRY(open_store_at(address, clock));
  if (store->abilities().lasts) return store;
  return Error(Code::kInvalid, fmt::format("what is stored in {} ends with this command", quote(address)),
               "give the address of a store that lasts, such as s3://BUCKET/PREFIX");
}

Result<PushReport> push_agent(Agent& agent, BlobStore& store, Clock& clock, const BytesDone& progress) {
  if (agent.path() == kMemoryAgent) return Error(Code::kInvalid, "an agent in memory cannot be pushed");
  WARREN_TRY(check_agent_id(agent.id()));
  remove_old_drafts(agent.path(), clock);
  ScratchFile draft{fmt::format("{}.push-{}", agent.path(), ::getpid())};
  WARREN_TRY(agent.backup_to(draft.path));
  Fd file(::open(draft.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat there {};
  if (!file.is_open() || ::fstat(file.get(), &there) != 0) {
    return system_error(errno, fmt::format("open {}", quote(draft.path)));
  }
  PushReport report;
  PushedState& state = report.state;
  state.name = WARREN_TRY(next_state_name(store, agent.id(), clock));
  state.size_bytes = static_cast<std::uint64_t>(there.st_size);
  state.block_bytes = block_bytes_for(state.size_bytes);
  for (const Checkpoint& one : WARREN_TRY(list_checkpoints(agent))) {
    state.checkpoints.push_back({one.id, one.name, one.at_us});
  }
  WARREN_TRY(hash_file(file.get(), state));
  std::vector<std::size_t> missing = missing_blocks(state, WARREN_TRY(blocks_there(store, agent.id())));
  for (std::size_t index : missing) report.bytes_sent += length_of_block(state, index);
  report.blocks_sent = missing.size();
  ByteCount sent(progress, report.bytes_sent);
  WARREN_TRY(for_each_at_once(missing.size(), [&](std::size_t nth) -> Status {
    std::size_t index = missing[nth];
    std::string block = WARREN_TRY(read_block(file.get(), index * state.block_bytes, length_of_block(state, index)));
    WARREN_TRY(store.put(block_key(agent.id(), state.blocks[index]), as_bytes(block)));
    sent.add(block.size());
    return Ok{};
  }));
  std::string text = dump_json(json_of(state, agent.id()));
  WARREN_TRY(store.put(state_prefix(agent.id()) + state.name, as_bytes(text)));
  return report;
}

Result<std::vector<std::string>> list_pushed(BlobStore& store, const std::string& agent_id) {
  WARREN_TRY(check_agent_id(agent_id));
  std::vector<std::string> names;
  ListOptions options{.prefix = state_prefix(agent_id)};
  do {
    BlobPage page = WARREN_TRY(store.list(options));
    for (const BlobInfo& blob : page.blobs) {
      if (is_state_name(base_name(blob.key))) names.emplace_back(base_name(blob.key));
    }
    options.after = std::move(page.next);
  } while (!options.after.empty() && names.size() < kStatesMax);
  std::sort(names.begin(), names.end());
  return names;
}

Result<PushedState> get_pushed(BlobStore& store, const std::string& agent_id, const std::string& name) {
  WARREN_TRY(check_agent_id(agent_id));
  std::string what = fmt::format("state {} of {}", quote(name), quote(agent_id));
  Error none(Code::kNotFound, fmt::format("there is no {} in {}", what, quote(store.name())),
             "`warren checkpoint ID remote ADDRESS` lists what is there");
  if (!is_state_name(name)) return none;
  std::optional<BlobInfo> info = WARREN_TRY(store.find(state_prefix(agent_id) + name));
  if (!info) return none;
  if (info->size > kStateBytesMax) return Error(Code::kTooLarge, fmt::format("{} is too large", what));
  std::optional<Blob> blob = WARREN_TRY(store.get(state_prefix(agent_id) + name));
  if (!blob) return none;
  PushedState state = WARREN_TRY(parse_state(blob->content).within(what));
  state.name = name;
  return state;
}

Result<PullReport> pull_agent(BlobStore& store, const PullOptions& options, Clock& clock, const BytesDone& progress) {
  RestorePlace place = WARREN_TRY(find_restore_place(options.id, options.replace, clock));
  std::string name = options.state.value_or("");
  if (!options.state) {
    std::vector<std::string> names = WARREN_TRY(list_pushed(store, options.agent_id));
    if (names.empty()) {
      return Error(Code::kNotFound,
                   fmt::format("nothing was pushed as {} to {}", quote(options.agent_id), quote(store.name())));
    }
    name = names.back();
  }
  PullReport report { .path = {}, .state = WARREN_TRY(get_pushed(store, options.agent_id, name)) };
  const PushedState& state = report.state;
  remove_old_drafts(place.path, clock);
  ScratchFile draft{fmt::format("{}.pull-{}", place.path, ::getpid())};
  Fd file(::open(draft.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open()) return system_error(errno, fmt::format("create {}", quote(draft.path)));
  ByteCount fetched(progress, state.size_bytes);
  WARREN_TRY(for_each_at_once(state.blocks.size(), [&](std::size_t index) -> Status {
    WARREN_TRY(fetch_block(store, options.agent_id, state, index, file.get()));
    fetched.add(length_of_block(state, index));
    return Ok{};
  }));
  WARREN_TRY(check_whole(file.get(), state));
  file = Fd();
  report.path = WARREN_TRY(restore_agent(options.id, draft.path, options.replace, clock));
  return report;
}

}  // namespace warren
