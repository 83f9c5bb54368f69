// Shows that cost depends on what is accessed, not on the size of the agent: operations in growing agents and growing
// directories, the memory for streaming a large file, and the size on disk.
//
//   scale_bench [FILES_MAX [BIG_GIB]]     default 1000000 files and a file of 4 GiB
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "bench_util.h"
#include "fs/file.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/store.h"
#include "warren_agent.h"

namespace {

using namespace bench;  // NOLINT

double microseconds_per_call(int calls, const std::function<void(int)>& call) {
  warren::SystemClock clock;
  std::int64_t start = clock.monotonic_ns();
  for (int i = 0; i < calls; ++i) call(i);
  return static_cast<double>(clock.monotonic_ns() - start) / 1e3 / calls;
}

// 1,000 files per directory, 10,000 files per transaction.
void grow(Agent& agent, int from, int to) {
  for (int i = from; i < to;) {
    auto unit = must(agent.store().begin_write());
    for (int end = std::min(to, i + 10'000); i < end; ++i) {
      must(warren::write_file(agent.fs(), "/d" + std::to_string(i / 1000) + "/f" + std::to_string(i),
                              warren::as_bytes("some content")));
    }
    must(unit.commit());
  }
}

std::string path_of(std::uint64_t i) { return "/d" + std::to_string(i / 1000) + "/f" + std::to_string(i); }

// "stat 1,000" stats the same thousand files, spread over the whole agent, again and again, so that the accessed data
// stays the same while the agent grows; "stat any" accesses more and more of it.
void show_agent_growth(int files_max) {
  std::printf("\nmicroseconds per call as the agent grows (1,000 files a directory)\n%12s%12s%12s%12s%16s\n", "files",
              "create", "stat 1,000", "stat any", "list 100 of dir");
  Agent agent(warren::Durability::kProcess);
  int files = 0;
  for (int target = 1000; target <= files_max; target *= 10) {
    grow(agent, files, target);
    files = target;
    must(warren::make_dirs(agent.fs(), "/new" + std::to_string(target)));
    double create = microseconds_per_call(2000, [&](int i) {
      must(warren::write_file(agent.fs(), "/new" + std::to_string(target) + "/f" + std::to_string(i),
                              warren::as_bytes("x")));
    });
    auto step = static_cast<std::uint64_t>(files / 1000);
    double some = microseconds_per_call(
        20'000, [&](int i) { must(warren::stat(agent.fs(), path_of(static_cast<std::uint64_t>(i % 1000) * step))); });
    std::uint64_t random = 7;
    double any = microseconds_per_call(5000, [&](int) {
      must(warren::stat(agent.fs(), path_of(next_random(random) % static_cast<std::uint64_t>(files))));
    });
    warren::Inode dir = must(warren::stat(agent.fs(), "/d0")).inode;
    double list = microseconds_per_call(500, [&](int) {
      auto stream = must(agent.fs().open_dir(dir));
      must(stream->read(0, 100, warren::DirDetail::kTypes));
    });
    std::printf("%12d%12.1f%12.1f%12.1f%16.1f\n", files, create, some, any, list);
  }
}

void show_directory_growth() {
  std::printf("\nmicroseconds per call as one directory grows\n%12s%12s%12s%16s%12s\n", "entries", "create", "stat",
              "list 100 of it", "stat dir");
  Agent agent(warren::Durability::kProcess);
  int entries = 0;
  for (int target : {100, 1000, 10'000, 100'000}) {
    auto unit = must(agent.store().begin_write());
    for (; entries < target; ++entries) {
      must(warren::write_file(agent.fs(), "/dir/e" + std::to_string(entries), warren::as_bytes("x")));
    }
    must(unit.commit());
    warren::Inode dir = must(warren::stat(agent.fs(), "/dir")).inode;
    double create = microseconds_per_call(1000, [&](int) {
      must(warren::write_file(agent.fs(), "/dir/e" + std::to_string(entries++), warren::as_bytes("x")));
    });
    std::uint64_t random = 7;
    double stat = microseconds_per_call(5000, [&](int) {
      must(warren::stat(agent.fs(),
                        "/dir/e" + std::to_string(next_random(random) % static_cast<std::uint64_t>(entries))));
    });
    double list = microseconds_per_call(500, [&](int) {
      auto stream = must(agent.fs().open_dir(dir));
      must(stream->read(0, 100, warren::DirDetail::kTypes));
    });
    double stat_dir = microseconds_per_call(1000, [&](int) { must(warren::stat(agent.fs(), "/dir")); });
    std::printf("%12d%12.1f%12.1f%16.1f%12.1f\n", target, create, stat, list, stat_dir);
  }
}

long peak_memory_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void show_streaming(std::uint64_t bytes) {
  long before = peak_memory_kib();
  Agent agent(warren::Durability::kProcess);
  std::string part(std::size_t{1} << 20, 'x');
  warren::SystemClock clock;
  {
    auto file = must(warren::File::open(
        agent.fs(), "/big", {.access = warren::FileAccess::kReadWrite, .create = warren::Create::kIfMissing}));
    std::int64_t start = clock.monotonic_ns();
    for (std::uint64_t at = 0; at < bytes; at += part.size()) {
      vary(part, at + 1);
      must(file->write_at(at, warren::as_bytes(part)));
    }
    std::int64_t written = clock.monotonic_ns();
    for (std::uint64_t at = 0; at < bytes; at += part.size()) {
      must(file->read_at(at, warren::as_mutable_bytes(part)));
    }
    std::int64_t done = clock.monotonic_ns();
    double megabytes = static_cast<double>(bytes) / 1e6;
    std::printf(
        "\na file of %.1f GiB in steps of 1 MiB: written at %.0f MB/s, read at %.0f MB/s, peak memory %.0f MiB "
        "(%.0f before)\n",
        static_cast<double>(bytes) / (1 << 30), megabytes / (static_cast<double>(written - start) / 1e9),
        megabytes / (static_cast<double>(done - written) / 1e9), static_cast<double>(peak_memory_kib()) / 1024,
        static_cast<double>(before) / 1024);
  }
}

void show_size() {
  Agent agent(warren::Durability::kProcess);
  std::string content(kBigBytes, 'x');
  vary(content, 3);
  must(warren::write_file(agent.fs(), "/big", warren::as_bytes(content)));
  agent.close();
  struct stat info {};
  if (::stat(agent.path().c_str(), &info) != 0) std::abort();
  std::printf("\n64 MiB in chunks of 4 KiB: the agent file has %.1f MiB, %.3f times the data\n",
              static_cast<double>(info.st_size) / (1 << 20),
              static_cast<double>(info.st_size) / static_cast<double>(kBigBytes));
}

}  // namespace

int main(int argc, char** argv) {
  int files_max = argc > 1 ? std::atoi(argv[1]) : 1'000'000;
  double gib = argc > 2 ? std::atof(argv[2]) : 4;
  show_streaming(static_cast<std::uint64_t>(gib * (1 << 30)));  // first, so that the memory peak is its own
  show_size();
  show_directory_growth();
  show_agent_growth(files_max);
  return 0;
}
