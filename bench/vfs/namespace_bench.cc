// What the namespace costs: calls on a filesystem as it is, and the same calls through an agent's view (GuardFs over
// MountFs), in turns. Then working memory: small reads a second from one thread.
//
//   namespace_bench [CALLS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <warren/v1/agent.h>

#include "../warren_agent.h"
#include "fs/memory/memory_fs.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/store.h"
#include "vfs/namespace.h"

namespace {

using namespace warren;
using bench::must;
using Call = std::function<void(int)>;

constexpr int kRounds = 21;
constexpr int kFilesHere = 100;
constexpr std::size_t kSmall = 100;

// Rules that match nothing here, so that each of them is looked at before a decision.
std::string policy_text() {
  std::string rules;
  for (int i = 0; i < 20; ++i) {
    rules += fmt::format(R"({}{{"operation": "write", "path": "/state/closed-{}/**", "effect": "deny"}})",
                         i == 0 ? "" : ", ", i);
  }
  return fmt::format(R"({{"version": 1, "rules": [{}]}})", rules);
}

// Nanoseconds for each call.
double time_of(int count, const Call& call) {
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) call(i);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / count;
}

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

void compare(const std::string& name, int count, const Call& bare, const Call& seen) {
  std::vector<double> bare_times;
  std::vector<double> seen_times;
  std::vector<double> differences;
  for (int round = 0; round < kRounds; ++round) {
    bare_times.push_back(time_of(count, bare));
    seen_times.push_back(time_of(count, seen));
    differences.push_back(seen_times.back() - bare_times.back());
  }
  fmt::print("{:<34} {:>8.0f} ns {:>8.0f} ns {:>8.0f} ns\n", name, median(bare_times), median(seen_times),
             median(differences));
}

void count_reads(const std::string& name, int count, const Call& read) {
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) times.push_back(time_of(count, read));
  fmt::print("{:<34} {:>14.0f} reads a second\n", name, 1e9 / median(times));
}

// One filesystem as it is, and below `at` in the view.
struct Place {
  std::string name;
  FileSystem& fs;
  std::string bare_dir;
  FileSystem& view;
  std::string seen_dir;
};

void measure(const Place& place, int count) {
  std::string content(kSmall, 'c');
  std::vector<std::string> names;
  std::vector<Inode> bare_nodes;
  std::vector<Inode> seen_nodes;
  for (int i = 0; i < kFilesHere; ++i) {
    names.push_back(fmt::format("file-{}", i));
    must(write_file(place.view, place.seen_dir + "/" + names.back(), as_bytes(content)));
    bare_nodes.push_back(must(lstat(place.fs, place.bare_dir + "/" + names.back())).inode);
    seen_nodes.push_back(must(lstat(place.view, place.seen_dir + "/" + names.back())).inode);
  }
  Inode bare_dir = must(lstat(place.fs, place.bare_dir.empty() ? "/" : place.bare_dir)).inode;
  Inode seen_dir = must(lstat(place.view, place.seen_dir)).inode;
  auto at = [](const auto& list, int i) { return list[static_cast<std::size_t>(i) % kFilesHere]; };
  std::string buffer(kSmall, ' ');
  auto lookup = [&](FileSystem& fs, Inode dir) {
    return [&fs, dir, &names, at](int i) { must(fs.lookup(dir, at(names, i))); };
  };
  auto read = [&](FileSystem& fs, const std::vector<Inode>& nodes) {
    return [&fs, &nodes, &buffer, at](int i) { must(fs.read(at(nodes, i), 0, as_mutable_bytes(buffer))); };
  };
  auto write = [&](FileSystem& fs, const std::vector<Inode>& nodes) {
    return [&fs, &nodes, &content, at](int i) {
      content[0] = static_cast<char>(i);
      must(fs.write(at(nodes, i), 0, as_bytes(content)));
    };
  };
  compare(place.name + ", lookup", count, lookup(place.fs, bare_dir), lookup(place.view, seen_dir));
  compare(place.name + ", read", count, read(place.fs, bare_nodes), read(place.view, seen_nodes));
  compare(place.name + ", write", count, write(place.fs, bare_nodes), write(place.view, seen_nodes));
}

}  // namespace

int main(int argc, char** argv) {
  int count = argc > 1 ? std::atoi(argv[1]) : 20'000;
  if (count <= 0) {
    fmt::print(stderr, "usage: namespace_bench [CALLS]\n");
    return 2;
  }
  SystemClock clock;
  bench::Scratch scratch;
  // As for a mount: commits are grouped, or each write would measure the disk.
  auto store = must(Store::open(
      scratch.file("agent.db"),
      {.mode = OpenMode::kCreate, .durability = Durability::kProcess, .commits = Commits::kGrouped}, clock));
  MemoryFs memory(clock);
  auto space = must(Namespace::open(store->fs(), memory, {.agent = "bench"}, clock));
  must(LivePolicy::replace(store->fs(), policy_text(), "bench", clock));
  auto view = space->view({.agent = "bench", .space = warren::Space::kUser, .door = "bench", .session = {}});
  must(make_dirs(store->fs(), "/state/files"));

  fmt::print("{:<34} {:>11} {:>11} {:>11}\n", "100 bytes", "bare", "namespace", "difference");
  measure({.name = "working memory", .fs = memory, .bare_dir = "", .view = *view, .seen_dir = "/mem/working"}, count);
  measure(
      {.name = "agent file", .fs = store->fs(), .bare_dir = "/state/files", .view = *view, .seen_dir = "/state/files"},
      count);

  fmt::print("\n");
  Inode node = must(lstat(*view, "/mem/working/file-1")).inode;
  std::string buffer(kSmall, ' ');
  count_reads("by number, as a mount does", count, [&](int) { must(view->read(node, 0, as_mutable_bytes(buffer))); });
  count_reads("by path", count, [&](int) { must(read_file(*view, "/mem/working/file-1")); });
  auto library = must(v1::Agent::open({.path = scratch.file("library.db")}));
  v1::Vfs vfs = library->vfs();
  must(vfs.write("/mem/working/note", std::string(kSmall, 'n')));
  count_reads("by path, agent->vfs()", count, [&](int) { must(vfs.read("/mem/working/note")); });
  must(store->close());
  return 0;
}
