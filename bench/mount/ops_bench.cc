// Measures 25 operations in a directory, one system call pattern each, and prints their rates as
// JSON: calls per second, entries per second for readdir, bytes per second for the sequential ones.
//
//   ops_bench [--more] [--only NAME] DIR
//
// DIR is filled but not cleaned: use a new directory. --more adds interesting operations that are not part of the
// geometric mean that bench/mount/run prints; one that a filesystem does not support is left out. Every operation works
// in its own directory and names files relative to it, so the depth of DIR does not matter. Needs root, for
// /proc/sys/vm/drop_caches.
#include <functional>
#include <string_view>

#include <dirent.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

#include "files.h"

namespace {

using namespace bench;  // NOLINT

constexpr double kTimedSeconds = 0.3;
constexpr double kWallSeconds = 4;  // for operations whose preparation takes far longer than the measured part
constexpr std::size_t kFiles = 1000;
constexpr std::size_t kBigBytes = std::size_t{128} << 20;
constexpr std::size_t kRandomBytes = std::size_t{64} << 20;
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr double kMissing = 0;

void nothing() {}

// Units per second of `work`, which returns the number of units it did. `prepare` runs before each call and is not
// timed. The first call is a warm-up and does not count.
double rate(const std::function<void()>& prepare, const std::function<std::size_t()>& work) {
  double start = seconds();
  double timed = 0;
  std::size_t units = 0;
  for (int call = 0; call < 3 || (timed < kTimedSeconds && seconds() - start < kWallSeconds); ++call) {
    prepare();
    double begin = seconds();
    std::size_t did = work();
    double took = seconds() - begin;
    if (call == 0) continue;
    timed += took;
    units += did;
  }
  return static_cast<double>(units) / timed;
}

void make_files(const std::vector<std::string>& files) {
  Content content(kPageBytes);
  for (const std::string& file : files) put(file, content.changed());
}

// The shape of most operations: once on each of 1,000 existing files.
double on_each_file(const std::function<void(const std::string&)>& call) {
  std::vector<std::string> files = names("f", kFiles);
  make_files(files);
  return rate(nothing, [&] {
    for (const std::string& file : files) call(file);
    return files.size();
  });
}

// 1,000 new names per batch, in a new directory per batch: `call` is timed, `before` is not.
double on_each_new_name(const std::function<void(const std::string&)>& before,
                        const std::function<void(const std::string&)>& call) {
  int batch = 0;
  std::vector<std::string> files;
  return rate(
      [&] {
        std::string dir = fmt::format("d{}", batch++);
        must(::mkdir(dir.c_str(), 0755) == 0, "mkdir");
        files = names((dir + "/f").c_str(), kFiles);
        for (const std::string& file : files) before(file);
      },
      [&] {
        for (const std::string& file : files) call(file);
        return files.size();
      });
}

void no_preparation(const std::string&) {}

void stat_one(const std::string& file) {
  struct stat info {};
  must(::stat(file.c_str(), &info) == 0, "stat");
}

double stat_cached() { return on_each_file(stat_one); }

double stat_cold() {
  constexpr std::size_t kColdFiles = 5000;
  std::vector<std::string> files = names("f", kColdFiles);
  make_files(files);
  Random random;
  for (std::size_t i = files.size() - 1; i > 0; --i) std::swap(files[i], files[random.below(i + 1)]);
  return rate([] { drop(Caches::kEntries); },
              [&] {
                for (const std::string& file : files) stat_one(file);
                return files.size();
              });
}

double open_close() {
  return on_each_file([](const std::string& file) { Fd fd(file, O_RDONLY); });
}

double read_small() {
  return on_each_file([buffer = std::vector<char>(kPageBytes)](const std::string& file) mutable {
    Fd fd(file, O_RDONLY);
    must(::read(fd.get(), buffer.data(), buffer.size()) == static_cast<ssize_t>(buffer.size()), "read");
  });
}

double create_empty() {
  return on_each_new_name(no_preparation, [](const std::string& file) { Fd fd(file, O_CREAT | O_EXCL | O_WRONLY); });
}

double create_4k() {
  Content content(kPageBytes);
  return on_each_new_name(no_preparation, [&](const std::string& file) { put(file, content.changed()); });
}

double overwrite_4k() {
  Content content(kPageBytes);
  return on_each_file([&](const std::string& file) {
    Fd fd(file, O_WRONLY);
    const std::string& bytes = content.changed();
    must(::pwrite(fd.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()), "pwrite");
  });
}

double append_100() {
  constexpr std::size_t kAppends = 10'000;
  Content content(100);
  int batch = 0;
  return rate(nothing, [&] {
    Fd fd(fmt::format("log{}", batch++), O_CREAT | O_WRONLY | O_APPEND);
    for (std::size_t i = 0; i < kAppends; ++i) write_all(fd.get(), content.changed());
    return kAppends;
  });
}

void make_big(const std::string& name, std::size_t bytes) {
  Content content(kBlockBytes);
  Fd fd(name, O_CREAT | O_WRONLY | O_TRUNC);
  for (std::size_t done = 0; done < bytes; done += kBlockBytes) write_all(fd.get(), content.changed());
}

std::size_t read_through(const std::string& name) {
  static std::vector<char> buffer(kBlockBytes);
  Fd fd(name, O_RDONLY);
  std::size_t total = 0;
  ssize_t got = 0;
  while ((got = ::read(fd.get(), buffer.data(), buffer.size())) > 0) total += static_cast<std::size_t>(got);
  must(got == 0, "read");
  return total;
}

off_t random_page(Random& random) { return static_cast<off_t>(random.below(kRandomBytes / kPageBytes) * kPageBytes); }

double random_read_4k() {
  constexpr std::size_t kReads = 10'000;
  make_big("big", kRandomBytes);
  read_through("big");
  Fd fd("big", O_RDONLY);
  Random random;
  std::vector<char> buffer(kPageBytes);
  return rate(nothing, [&] {
    for (std::size_t i = 0; i < kReads; ++i) {
      must(::pread(fd.get(), buffer.data(), kPageBytes, random_page(random)) == kPageBytes, "pread");
    }
    return kReads;
  });
}

double random_write_4k() {
  constexpr std::size_t kWrites = 5000;
  make_big("big", kRandomBytes);
  Fd fd("big", O_WRONLY);
  Random random;
  Content content(kPageBytes);
  return rate(nothing, [&] {
    for (std::size_t i = 0; i < kWrites; ++i) {
      must(::pwrite(fd.get(), content.changed().data(), kPageBytes, random_page(random)) == kPageBytes, "pwrite");
    }
    return kWrites;
  });
}

double seq_write() {
  return rate(
      [] {
        ::unlink("big");
        ::sync();
      },
      [] {
        make_big("big", kBigBytes);
        must(::fsync(Fd("big", O_WRONLY).get()) == 0, "fsync");
        return kBigBytes;
      });
}

double seq_read_cold() {
  make_big("big", kBigBytes);
  return rate([] { drop(Caches::kEntriesAndPages); }, [] { return read_through("big"); });
}

double seq_read_cached() {
  make_big("big", kBigBytes);
  return rate(nothing, [] { return read_through("big"); });
}

void make_dir(const std::string& dir) { must(::mkdir(dir.c_str(), 0755) == 0, "mkdir"); }

double make_dirs() { return on_each_new_name(no_preparation, make_dir); }

double remove_dirs() {
  return on_each_new_name(make_dir, [](const std::string& dir) { must(::rmdir(dir.c_str()) == 0, "rmdir"); });
}

double unlink_4k() {
  Content content(kPageBytes);
  return on_each_new_name([&](const std::string& file) { put(file, content.changed()); },
                          [](const std::string& file) { must(::unlink(file.c_str()) == 0, "unlink"); });
}

double rename_file() {
  Content content(kPageBytes);
  return on_each_new_name(
      [&](const std::string& file) { put(file, content.changed()); },
      [](const std::string& file) { must(::rename(file.c_str(), (file + ".new").c_str()) == 0, "rename"); });
}

double rename_replace() {
  Content content(kPageBytes);
  return on_each_file([&](const std::string& file) {
    put("temporary", content.changed());
    must(::rename("temporary", file.c_str()) == 0, "rename");
  });
}

void make_symlink(const std::string& link) { must(::symlink("../the/target", link.c_str()) == 0, "symlink"); }

double make_symlinks() { return on_each_new_name(no_preparation, make_symlink); }

double read_symlinks() {
  std::vector<std::string> links = names("l", kFiles);
  for (const std::string& link : links) make_symlink(link);
  std::vector<char> target(kPageBytes);
  return rate(nothing, [&] {
    for (const std::string& link : links) must(::readlink(link.c_str(), target.data(), target.size()) > 0, "readlink");
    return links.size();
  });
}

double hard_link() {
  Content content(kPageBytes);
  return on_each_new_name(
      [&](const std::string& file) { put(file, content.changed()); },
      [](const std::string& file) { must(::link(file.c_str(), (file + ".link").c_str()) == 0, "link"); });
}

enum class Visit { kName, kStat };

std::size_t list_here(Visit visit) {
  DIR* stream = ::opendir(".");
  must(stream != nullptr, "opendir");
  std::size_t entries = 0;
  while (dirent* entry = ::readdir(stream)) {
    ++entries;
    if (visit == Visit::kStat) stat_one(entry->d_name);
  }
  ::closedir(stream);
  return entries;
}

double readdir_1000() {
  make_files(names("f", kFiles));
  return rate(nothing, [] { return list_here(Visit::kName); });
}

double readdir_stat_cold() {
  make_files(names("f", kFiles));
  return rate([] { drop(Caches::kEntries); }, [] { return list_here(Visit::kStat); });
}

double change_mode() {
  mode_t mode = 0644;
  return on_each_file([&](const std::string& file) {
    mode = mode == 0644 ? 0640 : 0644;
    must(::chmod(file.c_str(), mode) == 0, "chmod");
  });
}

void change_and_sync(const std::string& file, Content& content) {
  Fd fd(file, O_WRONLY);
  write_all(fd.get(), content.changed());
  must(::fsync(fd.get()) == 0, "fsync");
}

double fsync_small() {
  std::vector<std::string> files = names("f", 10);
  make_files(files);
  Content content(100);
  return rate([] { ::sync(); },
              [&] {
                for (const std::string& file : files) change_and_sync(file, content);
                return files.size();
              });
}

// All files are changed first, so one commit could make all of them safe.
double fsync_50() {
  std::vector<std::string> files = names("f", 50);
  make_files(files);
  Content content(kPageBytes);
  return rate([] { ::sync(); },
              [&] {
                for (const std::string& file : files) put(file, content.changed());
                for (const std::string& file : files) must(::fsync(Fd(file, O_WRONLY).get()) == 0, "fsync");
                return files.size();
              });
}

double change_times() {
  long nanoseconds = 0;
  return on_each_file([&](const std::string& file) {
    nanoseconds = (nanoseconds + 1) % 1'000'000'000;
    timespec times[2] = {{.tv_sec = 1, .tv_nsec = nanoseconds}, {.tv_sec = 2, .tv_nsec = nanoseconds}};
    must(::utimensat(AT_FDCWD, file.c_str(), times, 0) == 0, "utimensat");
  });
}

double truncate_file() {
  off_t size = 0;
  return on_each_file([&](const std::string& file) {
    size = (size + 1) % kPageBytes;
    must(::truncate(file.c_str(), size) == 0, "truncate");
  });
}

double xattr_set_get() {
  put("probe", "");
  if (::setxattr("probe", "user.bench", "x", 1, 0) != 0) return kMissing;
  Content content(64);
  std::vector<char> value(64);
  return on_each_file([&](const std::string& file) {
    must(::setxattr(file.c_str(), "user.bench", content.changed().data(), 64, 0) == 0, "setxattr");
    must(::getxattr(file.c_str(), "user.bench", value.data(), value.size()) == 64, "getxattr");
  });
}

double stat_fs() {
  return on_each_file([](const std::string& file) {
    struct statfs info {};
    must(::statfs(file.c_str(), &info) == 0, "statfs");
  });
}

double mmap_read() {
  make_big("big", kRandomBytes);
  return rate(nothing, [] {
    Fd fd("big", O_RDONLY);
    void* map = ::mmap(nullptr, kRandomBytes, PROT_READ, MAP_SHARED, fd.get(), 0);
    must(map != MAP_FAILED, "mmap");
    const volatile char* bytes = static_cast<const char*>(map);
    for (std::size_t i = 0; i < kRandomBytes; i += kPageBytes) static_cast<void>(bytes[i]);
    ::munmap(map, kRandomBytes);
    return kRandomBytes;
  });
}

struct Operation {
  std::string_view name;
  double (*measure)();
};

constexpr Operation kOperations[] = {
    {"stat_cached", stat_cached},
    {"stat_cold", stat_cold},
    {"open_close", open_close},
    {"read_small", read_small},
    {"create_empty", create_empty},
    {"create_4k", create_4k},
    {"overwrite_4k", overwrite_4k},
    {"append_100", append_100},
    {"random_read_4k", random_read_4k},
    {"random_write_4k", random_write_4k},
    {"seq_write", seq_write},
    {"seq_read_cold", seq_read_cold},
    {"seq_read_cached", seq_read_cached},
    {"mkdir", make_dirs},
    {"rmdir", remove_dirs},
    {"unlink", unlink_4k},
    {"rename", rename_file},
    {"rename_replace", rename_replace},
    {"symlink", make_symlinks},
    {"readlink", read_symlinks},
    {"link", hard_link},
    {"readdir_1000", readdir_1000},
    {"readdir_stat_cold", readdir_stat_cold},
    {"chmod", change_mode},
    {"fsync_small", fsync_small},
};
static_assert(std::size(kOperations) == 25);

constexpr Operation kMoreOperations[] = {
    {"fsync_50", fsync_50},           {"utimens", change_times}, {"truncate", truncate_file},
    {"xattr_set_get", xattr_set_get}, {"statfs", stat_fs},       {"mmap_read", mmap_read},
};

struct Options {
  std::vector<Operation> operations{std::begin(kOperations), std::end(kOperations)};
  std::string_view only;
  std::string dir;
};

Options read_options(const std::vector<std::string_view>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--more") {
      options.operations.insert(options.operations.end(), std::begin(kMoreOperations), std::end(kMoreOperations));
    } else if (arguments[i] == "--only" && i + 1 < arguments.size()) {
      options.only = arguments[++i];
    } else {
      options.dir = arguments[i];
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  Options options = read_options({argv + 1, argv + argc});
  if (options.dir.empty() || options.dir[0] == '-') {
    fmt::print(stderr, "usage: ops_bench [--more] [--only NAME] DIR\n");
    return 2;
  }
  must(::chdir(options.dir.c_str()) == 0, options.dir.c_str());
  Fd root(".", O_RDONLY | O_DIRECTORY);
  const char* separator = "{";
  for (const Operation& operation : options.operations) {
    if (!options.only.empty() && operation.name != options.only) continue;
    must(::fchdir(root.get()) == 0, "fchdir");
    enter_new_dir(std::string(operation.name));
    ::sync();  // so that no operation pays for writing back the dirty pages of the previous one
    double per_second = operation.measure();
    if (per_second == kMissing) continue;
    fmt::print("{}\"{}\": {:.1f}", separator, operation.name, per_second);
    std::fflush(stdout);
    separator = ",\n ";
  }
  fmt::print("}}\n");
  return 0;
}
