#include "agent/copies/pushed.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/checkpoints/checkpoints.h"
#include "agent/copies/store_address.h"
#include "agent/keys/file_key.h"
#include "agent/locate.h"
#include "base/path.h"
#include "crypto/digest.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/files/host_files.h"
#include "os/threads/parallel.h"
#include "store/identity.h"

namespace warren {
namespace {

constexpr std::size_t kStateBytesMax = 16ULL << 20;  // as JSON
constexpr std::size_t kStatesMax = 100'000;
constexpr std::string_view kSqliteMagic = "SQLite format 3";  // not in an encrypted file

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
  bool is_ours = false;  // once it was made
  ~ScratchFile() {
    if (!is_ours) return;
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

// The blocks of a state that are in the store, in their place and of their size. Whether their content is right is seen
// only by reading them.
Result<std::unordered_set<std::string>> blocks_there(BlobStore& store, const std::string& agent,
                                                     const PushedState& state) {
  std::unordered_map<std::string, std::uint64_t> wanted;  // size by key
  for (std::size_t index = 0; index < state.blocks.size(); ++index) {
    wanted[block_key(agent, state.blocks[index])] = length_of_block(state, index);
  }
  std::unordered_set<std::string> found;
  ListOptions options{.prefix = block_prefix(agent)};
  do {
    BlobPage page = WARREN_TRY(store.list(options));
    for (const BlobInfo& blob : page.blobs) {
      auto known = wanted.find(blob.key);
      if (known != wanted.end() && known->second == blob.size) found.emplace(base_name(blob.key));
    }
    options.after = std::move(page.next);
  } while (!options.after.empty());
  return found;
}

Error damaged_block(const std::string& hash, std::string_view why) {
  return {
      Code::kCorrupt, fmt::format("it is damaged: block {} {}", hash, why),
      "if the agent still exists somewhere, `warren checkpoint ID push ADDRESS --verify` there sends damaged blocks "
      "again; otherwise pull an older state with --state"};
}

// The hashes of blocks that must be sent, each once, with the place where one is.
std::vector<std::size_t> missing_blocks(const PushedState& state, std::unordered_set<std::string> there) {
  std::vector<std::size_t> missing;
  for (std::size_t index = 0; index < state.blocks.size(); ++index) {
    if (there.insert(state.blocks[index]).second) missing.push_back(index);
  }
  return missing;
}

// kCorrupt if it is missing or has another content.
Result<std::string> get_block(BlobStore& store, const std::string& agent, const PushedState& state, std::size_t index) {
  const std::string& hash = state.blocks[index];
  // One byte more, to see that there is none: what is stored there may be of any size.
  std::optional<Blob> block = WARREN_TRY(store.get_range(block_key(agent, hash), 0, length_of_block(state, index) + 1));
  if (!block) return damaged_block(hash, "is not in the store");
  if (block->content.size() != length_of_block(state, index) || sha256_hex(as_bytes(block->content)) != hash) {
    return damaged_block(hash, "has another content");
  }
  return std::move(block->content);
}

// Takes blocks with another content out of `there`, so that they are sent again. Returns how many.
Result<std::uint64_t> drop_damaged(BlobStore& store, const std::string& agent, const PushedState& state,
                                   std::unordered_set<std::string>& there) {
  std::unordered_map<std::string, std::size_t> places;  // one for each hash
  for (std::size_t index = 0; index < state.blocks.size(); ++index) {
    if (there.contains(state.blocks[index])) places.emplace(state.blocks[index], index);
  }
  std::vector<std::size_t> indexes;
  for (const auto& [hash, index] : places) indexes.push_back(index);
  std::mutex mutex;
  std::uint64_t damaged = 0;
  WARREN_TRY(for_each_parallel(
      indexes.size(),
      [&](std::size_t nth) -> Status {
        Result<std::string> block = get_block(store, agent, state, indexes[nth]);
        if (block.ok()) return Ok{};
        if (block.error().code() != Code::kCorrupt) return std::move(block).take_error();
        std::lock_guard lock(mutex);
        there.erase(state.blocks[indexes[nth]]);
        ++damaged;
        return Ok{};
      },
      kRequestsAtOnce));
  return damaged;
}

Status check_whole(int fd, const PushedState& state) {
  PushedState again{.name = {}, .size_bytes = state.size_bytes, .block_bytes = state.block_bytes};
  WARREN_TRY(hash_file(fd, again));
  return again.hash == state.hash ? Status(Ok{}) : damaged_state("the whole file has another SHA-256");
}

// nullopt if it has none and cannot be given one.
Result<std::optional<std::string>> identity_to_push(Agent& agent, Clock& clock) {
  std::optional<std::string> found = WARREN_TRY(find_identity(agent.store()));
  if (found) return found;
  Result<std::unique_ptr<Store>> writable =
      Store::open(agent.path(), {.find_key = agent.store().database().key_finder()}, clock);
  bool can_have_one = writable.ok() && !(*writable)->is_read_only() && (*writable)->schema().is_current();
  if (!can_have_one) return std::optional<std::string>();
  std::string made = WARREN_TRY(ensure_identity(**writable).within("give the agent an identity"));
  return std::optional(std::move(made));
}

// Whether the newest state that can be read says which agent it is of. If none can be read, that does not prevent a
// push.
Result<bool> check_same_agent(BlobStore& store, const std::string& agent, const std::vector<std::string>& names,
                              const std::optional<std::string>& identity) {
  std::optional<PushedState> newest;
  for (auto name = names.rbegin(); name != names.rend() && !newest; ++name) {
    Result<PushedState> state = get_pushed(store, agent, *name);
    if (state.ok()) newest = std::move(state).take_value();
    else if (!is_about_one_state(state.error())) return std::move(state).take_error();
  }
  if (!newest) return true;
  if (!newest->identity) return false;
  if (!identity || newest->identity == identity) return true;
  return Error(Code::kConflict,
               fmt::format("state {} there is of another agent that is also called {}", newest->name, quote(agent)),
               "push to another address: a prefix of its own (s3://BUCKET/PREFIX) or another file");
}

// Another agent of this name may have been pushed since `before` was listed, which both found empty, say. Whoever
// stores its state last finds the other's, so at most one of them stays; if both find each other, none does.
Status withdraw_if_mixed(BlobStore& store, const std::string& agent, const std::vector<std::string>& before,
                         const PushedState& ours) {
  if (!ours.identity) return Ok{};
  for (const std::string& name : WARREN_TRY(list_pushed(store, agent))) {
    if (name == ours.name || std::find(before.begin(), before.end(), name) != before.end()) continue;
    Result<PushedState> other = get_pushed(store, agent, name);
    if (!other.ok() && !is_about_one_state(other.error())) return std::move(other).take_error();
    if (!other.ok() || !other->identity || other->identity == ours.identity) continue;
    WARREN_TRY(store.remove(state_prefix(agent) + ours.name));
    return Error(Code::kConflict,
                 fmt::format("another agent that is also called {} was pushed there at the same time: state {}",
                             quote(agent), name),
                 "push to another address: a prefix of its own (s3://BUCKET/PREFIX) or another file");
  }
  return Ok{};
}

// An agent that cannot be read has no identity that could be compared.
Status check_replaces_same(const PullOptions& options, const RestorePlace& place, const PushedState& state,
                           Clock& clock) {
  if (!place.exists || !state.identity || options.replace_another == Replace::kYes) return Ok{};
  Result<std::unique_ptr<Store>> store =
      Store::open(place.path, {.mode = OpenMode::kReadOnly, .find_key = agent_keys(place.path)}, clock);
  if (!store.ok()) return Ok{};
  Result<std::optional<std::string>> own = find_identity(**store);
  if (!own.ok() || !*own || *own == state.identity) return Ok{};
  return Error(Code::kConflict,
               fmt::format("state {} is of another agent that is also called {}", state.name, quote(options.agent_id)),
               "--another replaces the agent by that one; or pull it under another name: `warren checkpoint NAME pull "
               "ADDRESS --from AGENT`");
}

// Also the newest by name if the clock was set back.
std::string next_state_name(const std::vector<std::string>& names, Clock& clock) {
  std::string name = name_of_now(clock);
  if (names.empty() || names.back() < name) return name;
  // "T" or "T.7" of the future: the next is "T.8", with as many digits as it takes to sort behind it.
  std::string time = names.back().substr(0, name.size());
  std::uint64_t count = 1;
  if (names.back().size() > time.size() + 1) {
    std::string_view digits = std::string_view(names.back()).substr(time.size() + 1);
    std::from_chars(digits.data(), digits.data() + digits.size(), count);
    ++count;
  }
  return fmt::format("{}.{:010}", time, count);
}

}  // namespace

Result<std::unique_ptr<BlobStore>> open_push_store(const std::string& address, Clock& clock) {
  std::unique_ptr<BlobStore> store = WARREN_TRY(open_store_at(address, clock));
  if (store->abilities().lasts) return store;
  return Error(Code::kInvalid, fmt::format("what is stored in {} ends with this command", quote(address)),
               "give the address of a store that lasts, such as s3://BUCKET/PREFIX");
}

namespace {

// Fills in what the open copy `file` says of the state: everything but its name and identity.
Status describe_copy(Agent& agent, int file, PushedState& state) {
  struct stat there {};
  if (::fstat(file, &there) != 0) return system_error(errno, "look at a copy of the agent");
  state.size_bytes = static_cast<std::uint64_t>(there.st_size);
  state.block_bytes = block_bytes_for(state.size_bytes);
  for (const Checkpoint& one : WARREN_TRY(list_checkpoints(agent))) {
    state.checkpoints.push_back({one.id, one.name, one.at_us});
  }
  return hash_file(file, state);
}

// Sends what the store lacks of the open copy `file`.
Status send_blocks(BlobStore& store, const std::string& agent, int file, const PushOptions& options,
                   PushReport& report) {
  const PushedState& state = report.state;
  std::unordered_set<std::string> there = WARREN_TRY(blocks_there(store, agent, state));
  if (options.stored == StoredBlocks::kVerify) {
    report.blocks_mended = WARREN_TRY(drop_damaged(store, agent, state, there));
  }
  std::vector<std::size_t> missing = missing_blocks(state, std::move(there));
  for (std::size_t index : missing) report.bytes_sent += length_of_block(state, index);
  report.blocks_sent = missing.size();
  ByteCount sent(options.progress, report.bytes_sent);
  return for_each_parallel(
      missing.size(),
      [&](std::size_t nth) -> Status {
        std::size_t index = missing[nth];
        std::string block = WARREN_TRY(read_block(file, index * state.block_bytes, length_of_block(state, index)));
        WARREN_TRY(store.put(block_key(agent, state.blocks[index]), as_bytes(block)));
        sent.add(block.size());
        return Ok{};
      },
      kRequestsAtOnce);
}

}  // namespace

Result<PushReport> push_agent(Agent& agent, BlobStore& store, Clock& clock, const PushOptions& options) {
  if (agent.path() == kMemoryAgent) return Error(Code::kInvalid, "an agent in memory cannot be pushed");
  WARREN_TRY(check_agent_id(agent.id()));
  PushReport report;
  report.state.identity = WARREN_TRY(identity_to_push(agent, clock));  // before the copy, which has it too
  std::vector<std::string> names = WARREN_TRY(list_pushed(store, agent.id()));
  report.follows_unmarked = !WARREN_TRY(check_same_agent(store, agent.id(), names, report.state.identity));
  report.state.name = next_state_name(names, clock);
  remove_old_drafts(agent.path(), clock);
  ScratchFile draft{name_of_draft(agent.path())};
  draft.is_ours = true;  // its name is new
  report.faults = WARREN_TRY(back_up(agent, draft.path, clock));
  Fd file(::open(draft.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.is_open()) return system_error(errno, fmt::format("open {}", quote(draft.path)));
  WARREN_TRY(describe_copy(agent, file.get(), report.state));
  WARREN_TRY(send_blocks(store, agent.id(), file.get(), options, report));
  std::string text = dump_json(json_of_pushed(report.state, agent.id()));
  WARREN_TRY(store.put(state_prefix(agent.id()) + report.state.name, as_bytes(text)));
  WARREN_TRY(withdraw_if_mixed(store, agent.id(), names, report.state));
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
    if (names.size() > kStatesMax) {
      return Error(Code::kLimit,
                   fmt::format("{} has more than {} states of {}", quote(store.name()), kStatesMax, quote(agent_id)),
                   "remove old ones");
    }
  } while (!options.after.empty());
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
  PushedState state = WARREN_TRY(parse_pushed_state(blob->content).within(what));
  state.name = name;
  return state;
}

bool is_about_one_state(const Error& error) {
  Code why = error.code();
  return why == Code::kCorrupt || why == Code::kUnsupported || why == Code::kNotFound || why == Code::kTooLarge;
}

namespace {

Result<std::string> name_of_state(BlobStore& store, const PullOptions& options) {
  if (options.state) return *options.state;
  std::vector<std::string> names = WARREN_TRY(list_pushed(store, options.agent_id));
  if (!names.empty()) return names.back();
  return Error(Code::kNotFound,
               fmt::format("nothing was pushed as {} to {}", quote(options.agent_id), quote(store.name())));
}

// Checks the copy at `draft` and makes an agent of it. Errors do not name the draft, which is then removed.
Status take_draft(const std::string& draft, const PullOptions& options, Clock& clock, PullReport& report) {
  report.faults = WARREN_TRY(find_copy_faults(draft, agent_keys(draft), clock));
  if (report.faults.count > 0 && options.faulty == FaultyCopy::kRefuse) {
    return Error(Code::kCorrupt,
                 fmt::format("state {} of {} has {}", report.state.name, quote(options.agent_id), report.faults.text()),
                 "--unchecked takes it as it is; `warren fsck` then says what can be repaired");
  }
  report.path = WARREN_TRY(make_agent_from(options.id, draft, options.replace, clock));
  return Ok{};
}

}  // namespace

Result<PullReport> pull_agent(BlobStore& store, const PullOptions& options, Clock& clock, const BytesDone& progress) {
  RestorePlace place = WARREN_TRY(find_restore_place(options.id, options.replace, clock));
  std::string name = WARREN_TRY(name_of_state(store, options));
  PullReport report { .path = {}, .state = WARREN_TRY(get_pushed(store, options.agent_id, name)) };
  const PushedState& state = report.state;
  WARREN_TRY(check_replaces_same(options, place, state, clock));
  report.replaced_unmarked = place.exists && !state.identity;
  remove_old_drafts(place.path, clock);
  ScratchFile draft{name_of_draft(place.path)};
  Fd file(::open(draft.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open()) return system_error(errno, fmt::format("create {}", quote(draft.path)));
  draft.is_ours = true;
  ByteCount fetched(progress, state.size_bytes);
  WARREN_TRY(for_each_parallel(
      state.blocks.size(),
      [&](std::size_t index) -> Status {
        std::string block = WARREN_TRY(get_block(store, options.agent_id, state, index));
        WARREN_TRY(write_block(file.get(), index * state.block_bytes, block));
        fetched.add(length_of_block(state, index));
        return Ok{};
      },
      kRequestsAtOnce));
  WARREN_TRY(check_whole(file.get(), state));
  std::string magic = WARREN_TRY(read_block(file.get(), 0, kSqliteMagic.size()));
  file = Fd();
  Status taken = take_draft(draft.path, options, clock, report);
  if (!taken.ok() && taken.error().code() == Code::kDenied && magic != kSqliteMagic) {
    return Error(Code::kDenied,
                 fmt::format("agent {} is encrypted, and its key is not known here", quote(options.agent_id)),
                 "set WARREN_KEY_FILE to a file with its key, or copy the note of the key from ~/.config/warren/keys");
  }
  WARREN_TRY(std::move(taken));
  return report;
}

}  // namespace warren
