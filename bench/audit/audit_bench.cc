// What recording costs: the same operations on the same kind of agent file, with and without the audit trail, in turns.
//
//     audit_bench [OPERATIONS]
//
// "off" is a namespace view or a plain tree without a trail, which is what every agent had before there was one.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include "base/check.h"
#include "fs/memory/memory_fs.h"
#include "store/files/sqlite_fs.h"
#include "store/store.h"
#include "vfs/audit_fs.h"
#include "vfs/guard_fs.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

constexpr int kRounds = 7;

struct Subject {
  SystemClock clock;
  std::unique_ptr<Store> store;
  MemoryFs working{clock};
  std::unique_ptr<Namespace> names;
  std::unique_ptr<NamespaceView> view;
};

enum class Trail { kOff, kOn };

std::unique_ptr<Subject> make_subject(const std::string& path, Durability durability, Commits commits, Trail trail) {
  auto made = std::make_unique<Subject>();
  StoreOptions options{.mode = OpenMode::kCreate, .durability = durability, .commits = commits};
  made->store = Store::open(path, options, made->clock).take_value();
  AuditLog* log = nullptr;
  if (trail == Trail::kOn) {
    auto keys = []() -> Result<AuditKeys> { return AuditKeys{make_audit_key(std::string(32, 'k'))}; };
    WARREN_CHECK(made->store->audit().enable(keys).ok());
    log = &made->store->audit();
  }
  NamespaceOptions names{.agent = "bench", .audit = log};
  made->names = Namespace::open(made->store->fs(), made->working, std::move(names), made->clock).take_value();
  AuditReads reads = commits == Commits::kGrouped ? AuditReads::kByOpening : AuditReads::kByFile;
  made->view = made->names->view({.agent = "bench", .space = Space::kUser, .door = "mount", .session = "s"}, reads);
  return made;
}

struct Cost {
  double wall = 1e9;  // seconds
  double cpu = 1e9;   // of all threads
};

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

Cost cost_of(const auto& work) {
  double cpu = cpu_seconds();
  auto begin = std::chrono::steady_clock::now();
  work();
  double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {.wall = wall, .cpu = cpu_seconds() - cpu};
}

// Each round does the same to one subject after the other; the best round of each counts. Processor time is what a
// loaded machine does not distort.
void compare(const char* name, Subject& off, Subject& on, int count, const auto& work) {
  Cost best_off;
  Cost best_on;
  auto keep_best = [](Cost& best, const Cost& one) {
    best = {.wall = std::min(best.wall, one.wall), .cpu = std::min(best.cpu, one.cpu)};
  };
  for (int round = 0; round < kRounds; ++round) {
    keep_best(best_off, cost_of([&] { work(off, round, count); }));
    keep_best(best_on, cost_of([&] { work(on, round, count); }));
  }
  std::printf("%-38s %9.2f %9.2f %7.3f   %9.2f %9.2f %7.3f\n", name, best_off.wall / count * 1e6,
              best_on.wall / count * 1e6, best_on.wall / best_off.wall, best_off.cpu / count * 1e6,
              best_on.cpu / count * 1e6, best_on.cpu / best_off.cpu);
  std::fflush(stdout);
}

void run(const std::string& folder, const char* kind, Durability durability, Commits commits, int count) {
  auto off = make_subject(folder + "/off-" + kind + ".db", durability, commits, Trail::kOff);
  auto on = make_subject(folder + "/on-" + kind + ".db", durability, commits, Trail::kOn);
  std::string data(4096, 'x');
  auto label = [&](const char* what) { return std::string(kind) + " " + what; };
  auto name_of_file = [](int round, int i) { return "f" + std::to_string(round) + "-" + std::to_string(i); };
  compare(label("create and write 4 KiB").c_str(), *off, *on, count, [&](Subject& it, int round, int n) {
    for (int i = 0; i < n; ++i) {
      Attributes made = it.view->make_node(kRootInode, name_of_file(round, i), {.mode = S_IFREG | 0644}).take_value();
      WARREN_CHECK(it.view->write(made.inode, 0, as_bytes(data)).ok());
    }
    WARREN_CHECK(it.store->database().end_batch().ok());
  });
  compare(label("overwrite 4 KiB, many files").c_str(), *off, *on, count, [&](Subject& it, int round, int n) {
    for (int i = 0; i < n; ++i) {
      Attributes file = it.view->lookup(kRootInode, name_of_file(round, i)).take_value();
      WARREN_CHECK(it.view->write(file.inode, 0, as_bytes(data)).ok());
    }
    WARREN_CHECK(it.store->database().end_batch().ok());
  });
  compare(label("append 4 KiB, one file").c_str(), *off, *on, count, [&](Subject& it, int round, int n) {
    Attributes file =
        it.view->make_node(kRootInode, "log" + std::to_string(round), {.mode = S_IFREG | 0644}).take_value();
    for (int i = 0; i < n; ++i) WARREN_CHECK(it.view->append(file.inode, as_bytes(data)).ok());
    WARREN_CHECK(it.store->database().end_batch().ok());
  });
  compare(label("delete").c_str(), *off, *on, count, [&](Subject& it, int round, int n) {
    for (int i = 0; i < n; ++i) WARREN_CHECK(it.view->unlink(kRootInode, name_of_file(round, i)).ok());
    WARREN_CHECK(it.store->database().end_batch().ok());
  });
}

int main_of_bench(int count) {
  std::string folder = "/tmp/warren-audit-bench-XXXXXX";
  WARREN_CHECK(::mkdtemp(folder.data()) != nullptr);
  std::printf("%-38s %9s %9s %7s   %9s %9s %7s\n", "µs per operation", "off", "on", "ratio", "CPU off", "on", "ratio");
  run(folder, "mount:", Durability::kProcess, Commits::kGrouped, count);
  run(folder, "library:", Durability::kPower, Commits::kEach, std::max(count / 20, 50));
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace
}  // namespace warren

int main(int argc, char** argv) { return warren::main_of_bench(argc > 1 ? std::atoi(argv[1]) : 10'000); }
