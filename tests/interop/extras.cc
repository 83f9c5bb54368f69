// Creates nodes in an agent that the command line cannot create, and checks that they are still there:
//   interop_extras make|check AGENT_FILE
#include <cstdio>
#include <string_view>

#include <sys/sysmacros.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "fs/file.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

constexpr std::string_view kDir = "/extras";
constexpr std::uint64_t kSparseBytes = 10'000'000;

Status make_sparse(FileSystem& fs) {
  auto file =
      WARREN_TRY(File::open(fs, "/extras/sparse", {.access = FileAccess::kReadWrite, .create = Create::kMustCreate}));
  WARREN_TRY(file->write_at(5'000'000, as_bytes("middle")));
  WARREN_TRY(file->truncate(kSparseBytes));
  return file->close();
}

Status make(Agent& agent) {
  FileSystem& fs = agent.fs();
  WARREN_TRY(make_dir(fs, kDir, {.mode = 02750, .owner = {.uid = 12, .gid = 34}}));
  WARREN_TRY(make_sparse(fs));
  WARREN_TRY(make_node(fs, "/extras/fifo", {.mode = S_IFIFO | 0600}));
  WARREN_TRY(make_node(fs, "/extras/socket", {.mode = S_IFSOCK | 0700}));
  WARREN_TRY(make_node(fs, "/extras/null", {.mode = S_IFCHR | 0666, .rdev = makedev(1, 3)}));
  WARREN_TRY(write_file(fs, "/extras/attributed", as_bytes("x")));
  WARREN_TRY(set_xattr(fs, "/extras/attributed", "user.origin", as_bytes(std::string_view("a\0b", 3))));
  WARREN_TRY(set_mode(fs, "/extras/attributed", 04711));
  return set_times(fs, "/extras/attributed", SetTime::to({.seconds = -5, .nanoseconds = 7}),
                   SetTime::to({.seconds = 1'000'000'000, .nanoseconds = 999'999'999}));
}

Status expect(bool holds, std::string_view what) {
  if (holds) return Ok{};
  return Error(Code::kCorrupt, "changed: " + std::string(what));
}

Status check_nodes(FileSystem& fs) {
  Attributes dir = WARREN_TRY(lstat(fs, kDir));
  WARREN_TRY(expect(dir.mode == (S_IFDIR | 02750) && dir.owner == Owner{.uid = 12, .gid = 34}, "directory"));
  Attributes fifo = WARREN_TRY(lstat(fs, "/extras/fifo"));
  WARREN_TRY(expect(fifo.mode == (S_IFIFO | 0600), "fifo"));
  Attributes socket = WARREN_TRY(lstat(fs, "/extras/socket"));
  WARREN_TRY(expect(socket.mode == (S_IFSOCK | 0700), "socket"));
  Attributes device = WARREN_TRY(lstat(fs, "/extras/null"));
  return expect(device.mode == (S_IFCHR | 0666) && device.rdev == makedev(1, 3), "device");
}

Status check_content(FileSystem& fs) {
  std::string sparse = WARREN_TRY(read_file(fs, "/extras/sparse"));
  std::string wanted(kSparseBytes, '\0');
  wanted.replace(5'000'000, 6, "middle");
  WARREN_TRY(expect(sparse == wanted, "content of the sparse file"));
  Attributes node = WARREN_TRY(stat(fs, "/extras/sparse"));
  std::uint64_t data = WARREN_TRY(fs.seek_data(node.inode, 0));
  WARREN_TRY(expect(data > 4'900'000, "hole of the sparse file"));
  std::string origin = WARREN_TRY(get_xattr(fs, "/extras/attributed", "user.origin"));
  WARREN_TRY(expect(origin == std::string_view("a\0b", 3), "extended attribute"));
  Attributes attributed = WARREN_TRY(stat(fs, "/extras/attributed"));
  WARREN_TRY(expect(attributed.mode == (S_IFREG | 04711), "mode"));
  WARREN_TRY(expect(attributed.atime == Timestamp{.seconds = -5, .nanoseconds = 7}, "atime"));
  return expect(attributed.mtime == Timestamp{.seconds = 1'000'000'000, .nanoseconds = 999'999'999}, "mtime");
}

Status run(std::string_view what, const char* path) {
  SystemClock clock;
  auto agent = WARREN_TRY(Agent::open({.id_or_path = path}, clock));
  if (what == "make") return make(*agent);
  WARREN_TRY(check_nodes(agent->fs()));
  return check_content(agent->fs());
}

}  // namespace
}  // namespace warren

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  warren::Status done = warren::run(argv[1], argv[2]);
  if (done.ok()) return 0;
  std::fprintf(stderr, "interop_extras: %s\n", done.error().message().c_str());
  return 1;
}
