// The baseline: a plain directory through system calls. "power" writes are followed by fsync of the file and of its
// directory, which gives the same durability.
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench_util.h"

namespace {

using namespace bench;  // NOLINT

enum class Sync { kNo, kYes };

void must(bool worked) {
  if (!worked) {
    std::perror("system call");
    std::abort();
  }
}

void put(const std::string& path, const std::string& content, Sync sync) {
  int fd = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  must(fd >= 0);
  must(::write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
  if (sync == Sync::kYes) must(::fsync(fd) == 0);
  ::close(fd);
}

class Directory {
 public:
  explicit Directory(int files = 0) : fd_(::open(scratch_.file(".").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    std::string content(kFileBytes, 'x');
    for (int i = 0; i < files; ++i) {
      vary(content, static_cast<std::uint64_t>(i));
      put(file(i), content, Sync::kNo);
    }
  }
  ~Directory() { ::close(fd_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  std::string file(std::uint64_t i) const { return scratch_.file("f" + std::to_string(i)); }
  std::string path(const std::string& name) const { return scratch_.file(name); }
  void sync() const { must(::fsync(fd_) == 0); }

 private:
  Scratch scratch_;
  int fd_;
};

void write_file(benchmark::State& state, Sync sync) {
  Directory dir;
  std::string content(kFileBytes, 'x');
  std::uint64_t i = 0;
  for (auto _ : state) {
    vary(content, ++i);
    put(dir.file(i), content, sync);
    if (sync == Sync::kYes) dir.sync();
  }
}
BENCHMARK_CAPTURE(write_file, ext4_power, Sync::kYes)->UseRealTime();
BENCHMARK_CAPTURE(write_file, ext4_process, Sync::kNo)->UseRealTime();

void read_file(benchmark::State& state) {
  Directory dir(kFiles);
  std::uint64_t random = 1;
  for (auto _ : state) {
    int fd = ::open(dir.file(next_random(random) % kFiles).c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info {};
    must(fd >= 0 && ::fstat(fd, &info) == 0);
    std::string content(static_cast<std::size_t>(info.st_size), '\0');
    must(::read(fd, content.data(), content.size()) == info.st_size);
    ::close(fd);
    benchmark::DoNotOptimize(content);
  }
}
BENCHMARK(read_file)->Name("read_file/ext4")->UseRealTime();

void stat_file(benchmark::State& state) {
  Directory dir(kFiles);
  std::uint64_t random = 1;
  struct stat info {};
  for (auto _ : state) must(::stat(dir.file(next_random(random) % kFiles).c_str(), &info) == 0);
}
BENCHMARK(stat_file)->Name("stat/ext4")->UseRealTime();

void stat_deep(benchmark::State& state) {
  Directory dir;
  std::string path = dir.path(deep_path());
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  put(path, "x", Sync::kNo);
  struct stat info {};
  for (auto _ : state) must(::stat(path.c_str(), &info) == 0);
}
BENCHMARK(stat_deep)->Name("stat_deep/ext4")->UseRealTime();

void read_dir(benchmark::State& state) {
  Directory dir(kFiles);
  for (auto _ : state) {
    std::vector<std::string> names;
    DIR* stream = ::opendir(dir.path(".").c_str());
    must(stream != nullptr);
    while (dirent* entry = ::readdir(stream)) names.emplace_back(entry->d_name);
    ::closedir(stream);
    benchmark::DoNotOptimize(names);
  }
}
BENCHMARK(read_dir)->Name("readdir_1000/ext4")->UseRealTime();

void write_big(benchmark::State& state, Sync sync) {
  Directory dir;
  std::string content(kBigBytes, 'x');
  std::uint64_t i = 0;
  for (auto _ : state) {
    state.PauseTiming();
    vary(content, ++i);
    state.ResumeTiming();
    put(dir.file(i), content, sync);
    if (sync == Sync::kYes) dir.sync();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBigBytes));
}
BENCHMARK_CAPTURE(write_big, ext4_power, Sync::kYes)->UseRealTime()->Iterations(4);
BENCHMARK_CAPTURE(write_big, ext4_process, Sync::kNo)->UseRealTime()->Iterations(4);

void read_big(benchmark::State& state) {
  Directory dir;
  std::string content(kBigBytes, 'x');
  vary(content, 1);
  put(dir.file(0), content, Sync::kNo);
  for (auto _ : state) {
    int fd = ::open(dir.file(0).c_str(), O_RDONLY | O_CLOEXEC);
    std::string out(kBigBytes, '\0');
    must(::read(fd, out.data(), out.size()) == static_cast<ssize_t>(out.size()));
    ::close(fd);
    benchmark::DoNotOptimize(out);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBigBytes));
}
BENCHMARK(read_big)->Name("read_big/ext4")->UseRealTime();

void pread_random(benchmark::State& state) {
  Directory dir;
  std::string content(kBigBytes, 'x');
  vary(content, 1);
  put(dir.file(0), content, Sync::kNo);
  int fd = ::open(dir.file(0).c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<char> out(kFileBytes);
  std::uint64_t random = 1;
  for (auto _ : state) {
    auto offset = static_cast<off_t>(next_random(random) % (kBigBytes - kFileBytes));
    must(::pread(fd, out.data(), out.size(), offset) == static_cast<ssize_t>(out.size()));
  }
  ::close(fd);
}
BENCHMARK(pread_random)->Name("pread_4k/ext4")->UseRealTime();

void unlink_file(benchmark::State& state, Sync sync) {
  Directory dir(static_cast<int>(state.max_iterations));
  std::uint64_t i = 0;
  for (auto _ : state) {
    must(::unlink(dir.file(i++).c_str()) == 0);
    if (sync == Sync::kYes) dir.sync();
  }
}
BENCHMARK_CAPTURE(unlink_file, ext4_power, Sync::kYes)->UseRealTime()->Iterations(2000);
BENCHMARK_CAPTURE(unlink_file, ext4_process, Sync::kNo)->UseRealTime()->Iterations(2000);

}  // namespace
