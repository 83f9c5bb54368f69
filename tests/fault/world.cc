#include "fault/world.h"

#include <fmt/format.h>

#include "db/faulty_vfs_testing.h"
#include "fs/path_ops.h"
#include "store/ciphers/encrypt_files.h"
#include "store/files/sqlite_fs.h"
#include "store/fsck/fsck.h"
#include "store/record/journal.h"
#include "store/record/tool_calls.h"
#include "store/tables/kv.h"
#include "store/tables/usage.h"

namespace warren::testing {
namespace {

constexpr std::string_view kWorldSecret = "0123456789abcdef0123456789abcdef";

std::string content(char letter, std::size_t size) { return std::string(size, letter); }

Status set_quota(Store& store, const Quota& quota) {
  Transaction change = WARREN_TRY(store.begin_write());
  WARREN_TRY(store.usage().set_quota(quota));
  return change.commit();
}

Status record_call(Store& store, std::string_view name) {
  CallRecord call;
  call.name = name;
  call.started_at = 10;
  call.completed_at = 11;
  call.result = "[1,2,3]";
  call.details.session = "s";
  WARREN_TRY(store.tools().record(call));
  return Ok{};
}

Status fill(Store& store) {
  WARREN_TRY(write_file(store.fs(), "/old", as_bytes(content('o', 20'000))));
  WARREN_TRY(write_file(store.fs(), "/dir/a", as_bytes(content('a', 9000))));
  WARREN_TRY(write_file(store.fs(), "/dir/b", as_bytes(content('b', 30'000))));
  WARREN_TRY(write_file(store.fs(), "/doomed", as_bytes(content('d', 50'000))));
  WARREN_TRY(make_symlink(store.fs(), "/dir/a", "/link"));
  WARREN_TRY(link(store.fs(), "/dir/a", "/twin"));
  WARREN_TRY(store.kv().set("key", "\"old\""));
  return record_call(store, "first");
}

Result<std::string> describe_files(Store& store) {
  std::string text;
  auto visit = [&](const WalkEntry& entry) -> Result<WalkNext> {
    const Attributes& a = entry.attributes;
    text += fmt::format("{} {:o} {} {}", entry.path, a.mode, a.nlink, a.size);
    if (a.is_file()) {
      std::string data = WARREN_TRY(read_file(store.fs(), entry.path));
      text += fmt::format(" {:x}", std::hash<std::string>{}(data));
    }
    text += '\n';
    return WalkNext::kContinue;
  };
  WARREN_TRY(walk(store.fs(), "/", visit));
  return text;
}

}  // namespace

std::vector<Operation> operations() {
  return {
      {"write a new file", [](Store& s) { return write_file(s.fs(), "/x/y/new", as_bytes(content('n', 40'000))); }},
      {"overwrite a file", [](Store& s) { return write_file(s.fs(), "/old", as_bytes(content('O', 30'000))); }},
      {"rename onto a file", [](Store& s) { return rename(s.fs(), "/dir/b", "/dir/a"); }},
      {"unlink a file", [](Store& s) { return unlink(s.fs(), "/doomed"); }},
      {"truncate a file", [](Store& s) { return truncate(s.fs(), "/old", 5000); }},
      {"set a key", [](Store& s) { return s.kv().set("key", "\"new\""); }},
      {"record a tool call", [](Store& s) { return record_call(s, "second"); }},
      {"set a quota", [](Store& s) { return set_quota(s, {.bytes = 1'000'000, .inodes = 100}); }},
      {"remove a tree",
       [](Store& s) { return remove(s.fs(), "/dir", {.recursive = Recursive::kYes, .force = Force::kNo}); }},
  };
}

StoreOptions world_options(const char* vfs) {
  return {.find_content_key = [](std::string_view) -> Result<std::string> { return std::string(kWorldSecret); },
          .vfs = vfs};
}

Status make_world(const std::string& path, Clock& clock, Files files) {
  auto store = WARREN_TRY(Store::open(path, {.mode = OpenMode::kCreate, .durability = Durability::kProcess}, clock));
  if (files == Files::kEncrypted) {
    store.reset();
    auto database = WARREN_TRY(Database::open(path, {.durability = Durability::kProcess}));
    WARREN_TRY(database->hold_alone());
    NewContentKey key{.salt = std::string(ContentKey::kSaltBytes, 's'), .secret = std::string(kWorldSecret)};
    std::int64_t id = WARREN_TRY(add_content_key(*database, key));
    WARREN_TRY(add_patterns(*database, {"/"}, id));
    database.reset();
    store = WARREN_TRY(Store::open(path, world_options(nullptr), clock));
  }
  return fill(*store);
}

Result<std::string> state_of(Store& store) {
  std::string text = WARREN_TRY(describe_files(store));
  std::vector<KvEntry> pairs = WARREN_TRY(store.kv().list());
  for (const KvEntry& pair : pairs) text += fmt::format("{} = {}\n", pair.key, pair.value);
  std::vector<ToolCall> calls = WARREN_TRY(store.tools().list());
  for (const ToolCall& call : calls) {
    text += fmt::format("call {} {} {} {}\n", call.id, call.name, call.result.value_or("-"), call.details.session);
  }
  Quota quota = WARREN_TRY(store.usage().quota());
  text += fmt::format("quota {} {}\n", quota.bytes.value_or(0), quota.inodes.value_or(0));
  std::int64_t rows = WARREN_TRY(store.journal()->last_seq());
  return text + fmt::format("journal {}\n", rows);
}

std::string state_after_restart(const std::string& path, Clock& clock) {
  auto report = check_agent(path, clock);
  if (!report.ok()) return "fsck failed: " + report.error().message();
  for (const Violation& violation : report->violations) return "unclean: " + violation.rule + ": " + violation.message;
  FaultyVfs healthy;
  auto store = Store::open(path, world_options(healthy.name()), clock);
  if (!store.ok()) return "does not open: " + store.error().message();
  auto checked = check_encrypted_files(**store);
  if (!checked.ok() || checked->failed > 0) return "encrypted files are damaged";
  auto state = state_of(**store);
  return state.ok() ? *state : "cannot be read: " + state.error().message();
}

}  // namespace warren::testing
