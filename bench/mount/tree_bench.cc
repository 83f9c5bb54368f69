// Grows a directory to a number of files and measures the cost of one more operation at that size; prints microseconds
// as JSON. Called with growing numbers on the same directory, it shows whether the cost stays flat.
//
//   tree_bench flat|tree DIR FILES     flat: all in one directory; tree: 1,000 to a directory
//   tree_bench big FILE GIB            writes a file, and prints bytes per second
//
// DIR/count records the current number of files. Needs root, for /proc/sys/vm/drop_caches.
#include <string_view>

#include <sys/syscall.h>

#include "files.h"

namespace {

using namespace bench;  // NOLINT

constexpr std::size_t kPerDir = 1000;
constexpr std::size_t kSample = 5000;
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::size_t kListBytes = 32768;  // the C library's buffer size

enum class Layout { kFlat, kTree };

std::string path_of(Layout layout, std::size_t i) {
  return layout == Layout::kFlat ? fmt::format("f{}", i) : fmt::format("d{}/f{}", i / kPerDir, i);
}

void create(Layout layout, std::size_t i) {
  if (layout == Layout::kTree && i % kPerDir == 0) ::mkdir(fmt::format("d{}", i / kPerDir).c_str(), 0755);
  Fd fd(path_of(layout, i), O_CREAT | O_WRONLY);
}

// Creates the files [from, to) and returns microseconds per file.
double grow(Layout layout, std::size_t from, std::size_t to) {
  double begin = seconds();
  for (std::size_t i = from; i < to; ++i) create(layout, i);
  return (seconds() - begin) * 1e6 / static_cast<double>(to - from);
}

double stat_cold(Layout layout, std::size_t files) {
  Random random;
  std::vector<std::string> chosen;
  for (std::size_t i = 0; i < std::min(files, kSample); ++i) chosen.push_back(path_of(layout, random.below(files)));
  drop(Caches::kEntries);
  double begin = seconds();
  struct stat info {};
  for (const std::string& path : chosen) must(::stat(path.c_str(), &info) == 0, path.c_str());
  return (seconds() - begin) * 1e6 / static_cast<double>(chosen.size());
}

// Bytes of the next page of entries; 0 at the end.
long list_page(int fd) {
  static std::vector<char> buffer(kListBytes);
  long got = ::syscall(SYS_getdents64, fd, buffer.data(), buffer.size());
  must(got >= 0, "getdents64");
  return got;
}

// Reads one page of entries of an uncached directory.
double page_cold(Layout layout) {
  constexpr int kRounds = 10;
  double took = 0;
  for (int round = 0; round < kRounds; ++round) {
    drop(Caches::kEntries);
    double begin = seconds();
    Fd fd(layout == Layout::kFlat ? "." : "d0", O_RDONLY | O_DIRECTORY);
    must(list_page(fd.get()) > 0, "getdents64");
    took += seconds() - begin;
  }
  return took * 1e6 / kRounds;
}

// Lists every directory and stats every file, as find -ls does; returns microseconds per file.
double walk(Layout layout, std::size_t files) {
  drop(Caches::kEntries);
  double begin = seconds();
  std::size_t dirs = layout == Layout::kFlat ? 1 : (files + kPerDir - 1) / kPerDir;
  for (std::size_t dir = 0; dir < dirs; ++dir) {
    Fd fd(layout == Layout::kFlat ? "." : fmt::format("d{}", dir), O_RDONLY | O_DIRECTORY);
    while (list_page(fd.get()) > 0) continue;
  }
  struct stat info {};
  for (std::size_t i = 0; i < files; ++i) must(::stat(path_of(layout, i).c_str(), &info) == 0, "stat");
  return (seconds() - begin) * 1e6 / static_cast<double>(files);
}

std::size_t grown_so_far() {
  std::size_t count = 0;
  if (std::FILE* file = std::fopen("count", "r")) {
    if (std::fscanf(file, "%zu", &count) != 1) count = 0;  // NOLINT(cert-err34-c)
    std::fclose(file);
  }
  return count;
}

int measure_tree(Layout layout, const std::string& dir, std::size_t files) {
  must(::chdir(dir.c_str()) == 0, dir.c_str());
  std::size_t before = grown_so_far();
  std::size_t last = files - std::min(files, kSample);  // only creates at full size count
  if (last > before) grow(layout, before, last);
  double create_us = grow(layout, std::max(before, last), files);
  put("count", std::to_string(files));
  double stat_us = stat_cold(layout, files);
  double page_us = page_cold(layout);
  double walk_us = walk(layout, files);
  fmt::print("{{\"create\": {:.2f}, \"stat_cold\": {:.2f}, \"page_cold\": {:.1f}, \"walk_cold\": {:.2f}}}\n", create_us,
             stat_us, page_us, walk_us);
  return 0;
}

int write_big(const std::string& path, std::size_t gib) {
  Content content(kBlockBytes);
  double begin = seconds();
  Fd fd(path, O_CREAT | O_TRUNC | O_WRONLY);
  for (std::size_t i = 0; i < gib * 1024; ++i) write_all(fd.get(), content.changed());
  must(::fsync(fd.get()) == 0, "fsync");
  fmt::print("{{\"write\": {:.0f}}}\n", static_cast<double>(gib << 30) / (seconds() - begin));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::size_t number = arguments.size() == 3 ? std::strtoull(arguments[2].c_str(), nullptr, 10) : 0;
  if (number > 0 && arguments[0] == "flat") return measure_tree(Layout::kFlat, arguments[1], number);
  if (number > 0 && arguments[0] == "tree") return measure_tree(Layout::kTree, arguments[1], number);
  if (number > 0 && arguments[0] == "big") return write_big(arguments[1], number);
  fmt::print(stderr, "usage: tree_bench flat|tree DIR FILES | big FILE GIB\n");
  return 2;
}
