#include "crash/script.h"

#include <map>
#include <vector>

#include <fmt/format.h>

#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/record/tool_calls.h"
#include "store/tables/kv.h"

namespace warren::testing {
namespace {

// A round writes a file, sets a key, records a call, renames the file and unlinks an older one.
constexpr std::int64_t kStepsPerRound = 5;
constexpr std::int64_t kRoundsKept = 3;
constexpr std::int64_t kKeys = 4;

std::string content(std::int64_t round) {
  auto size = static_cast<std::size_t>((round * 2713) % 20'000);  // from no chunk to several
  std::string text(size, static_cast<char>('a' + round % 26));
  return text + fmt::format("#{}", round);
}

}  // namespace

std::string Script::fresh_name(std::int64_t round) const { return fmt::format("{}/new-{:06}", folder(), round); }
std::string Script::final_name(std::int64_t round) const { return fmt::format("{}/{:06}", folder(), round); }

Status Script::run(Store& store, std::int64_t step) const {
  std::int64_t round = step / kStepsPerRound;
  switch (step % kStepsPerRound) {
    case 0: return write_file(store.fs(), fresh_name(round), as_bytes(content(round)));
    case 1: return store.kv().set(fmt::format("{}:{}", writer_, round % kKeys), std::to_string(round));
    case 2: {
      std::string name = fmt::format("{}-{}", writer_, round);
      CallRecord call;
      call.name = name;
      WARREN_TRY(store.tools().record(call));
      return Ok{};
    }
    case 3: return rename(store.fs(), fresh_name(round), final_name(round));
    default:
      if (round < kRoundsKept) return Ok{};
      return unlink(store.fs(), final_name(round - kRoundsKept));
  }
}

Result<std::string> Script::actual(Store& store) const {
  std::string text;
  bool there = WARREN_TRY(exists(store.fs(), folder()));
  std::vector<std::string> names;
  if (there) names = WARREN_TRY(read_dir(store.fs(), folder()));
  for (const std::string& name : names) {
    std::string path = folder() + "/" + name;
    std::string data = WARREN_TRY(read_file(store.fs(), path));
    text += fmt::format("{} {} {:x}\n", path, data.size(), std::hash<std::string>{}(data));
  }
  std::vector<KvEntry> pairs = WARREN_TRY(store.kv().list({.prefix = writer_ + ":", .after = {}}));
  for (const KvEntry& pair : pairs) text += fmt::format("{} = {}\n", pair.key, pair.value);
  std::vector<ToolCall> calls = WARREN_TRY(store.tools().list());
  std::int64_t mine = 0;
  for (const ToolCall& call : calls) mine += call.name.starts_with(writer_ + "-") ? 1 : 0;
  return text + fmt::format("{} calls\n", mine);
}

std::string Script::expected(std::int64_t steps) const {
  std::map<std::string, std::int64_t> files;
  std::map<std::string, std::int64_t> keys;
  std::int64_t calls = 0;
  // Later rounds overwrite everything of older ones, except their calls.
  std::int64_t from = std::max<std::int64_t>(0, steps / kStepsPerRound - kRoundsKept - kKeys) * kStepsPerRound;
  calls = from / kStepsPerRound;
  for (std::int64_t step = from; step < steps; ++step) {
    std::int64_t round = step / kStepsPerRound;
    switch (step % kStepsPerRound) {
      case 0: files[fresh_name(round)] = round; break;
      case 1: keys[fmt::format("{}:{}", writer_, round % kKeys)] = round; break;
      case 2: ++calls; break;
      case 3:
        files.erase(fresh_name(round));
        files[final_name(round)] = round;
        break;
      default: files.erase(final_name(round - kRoundsKept)); break;
    }
  }
  std::string text;
  for (const auto& [path, round] : files) {
    std::string data = content(round);
    text += fmt::format("{} {} {:x}\n", path, data.size(), std::hash<std::string>{}(data));
  }
  for (const auto& [key, round] : keys) text += fmt::format("{} = {}\n", key, round);
  return text + fmt::format("{} calls\n", calls);
}

}  // namespace warren::testing
