// An agent's files, by path.
//
// A path is absolute ("notes" means "/notes"), its names are bytes, '/' separates them. Symbolic
// links on the way are followed, 40 at most. Content goes in and comes out as bytes, which is what
// std::string and std::string_view hold here; nothing is ever converted.
//
// Each call is one transaction: when it returns, everything of it is stored, or it failed and
// nothing has changed (remove of a large tree is the one exception and says so).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <warren/result.h>

namespace warren::v1 {

struct AgentState;

struct Timestamp {
  std::int64_t seconds = 0;  // since 1970, UTC
  std::int32_t nanoseconds = 0;

  bool operator==(const Timestamp&) const = default;
};

// What stat tells. `mode` has the file type and the permission bits, as in <sys/stat.h>.
struct Attributes {
  std::uint64_t inode = 0;
  std::uint32_t mode = 0;
  std::uint32_t nlink = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t size = 0;
  Timestamp atime{};
  Timestamp mtime{};
  Timestamp ctime{};
  std::uint64_t rdev = 0;

  bool is_file() const;
  bool is_directory() const;
  bool is_symlink() const;
};

struct NamedAttributes {
  std::string name;
  Attributes attributes;
};

enum class FileAccess { kRead, kWrite, kReadWrite };
enum class Create { kNo, kIfMissing, kMustCreate };
enum class Truncate { kNo, kYes };
enum class Append { kNo, kYes };

struct OpenOptions {
  FileAccess access = FileAccess::kRead;
  Create create = Create::kNo;        // kMustCreate: kExists when anything has the name
  Truncate truncate = Truncate::kNo;  // needs access to write
  Append append = Append::kNo;        // every write goes to the end
  std::uint32_t mode = 0644;          // of a file this creates
};

// An open file: it can be read and written until it is closed, also when its name is gone.
// Thread-safe, except close(), which must be the last call. The agent outlives the file.
class File {
 public:
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // How much was read: less than asked only at the end of the file. Holes read as zeros.
  Result<std::size_t> read_at(std::uint64_t offset, std::span<char> out);
  Status write_at(std::uint64_t offset, std::string_view data);
  Result<std::uint64_t> append(std::string_view data);  // where the data begins
  Status truncate(std::uint64_t size);
  // With Durability::kProcess: from here on a power cut loses nothing of it.
  Status sync();
  Result<Attributes> attributes();
  Status close();  // a second one is harmless

 private:
  friend class Files;
  struct State;
  explicit File(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

enum class Recursive { kNo, kYes };
enum class Force { kNo, kYes };

struct RemoveOptions {
  Recursive recursive = Recursive::kNo;  // kNo: a directory is kIsDirectory
  Force force = Force::kNo;              // kYes: what is not there needs no removing
};

enum class RenameMode {
  kReplace,    // what stands at the new name goes
  kNoReplace,  // kExists if anything stands there
  kExchange,   // both must exist and swap names
};

struct SpaceStats {
  std::uint64_t used_bytes = 0;
  std::uint64_t capacity_bytes = 0;  // 0: no quota
  std::uint64_t used_inodes = 0;
  std::uint64_t capacity_inodes = 0;  // 0: no quota
};

// A view of an open agent: cheap to copy, good for as long as the agent. Thread-safe.
class Files {
 public:
  Result<Attributes> stat(std::string_view path);   // follows a link at the end
  Result<Attributes> lstat(std::string_view path);  // does not
  Result<bool> exists(std::string_view path);
  Result<SpaceStats> stats();

  // Whole content. kTooLarge beyond 1 GiB: open such a file instead.
  Result<std::string> read_file(std::string_view path);
  // Replaces the content; makes the file and missing parents.
  Status write_file(std::string_view path, std::string_view data);
  Status append_file(std::string_view path, std::string_view data);
  Status truncate(std::string_view path, std::uint64_t size);
  Status copy_file(std::string_view from, std::string_view to);
  Result<std::unique_ptr<File>> open(std::string_view path, const OpenOptions& options = {});

  Result<std::vector<std::string>> read_dir(std::string_view path);  // names, sorted by bytes
  Result<std::vector<NamedAttributes>> read_dir_plus(std::string_view path);
  Status make_dir(std::string_view path, std::uint32_t mode = 0755);
  Status make_dirs(std::string_view path, std::uint32_t mode = 0755);  // with parents; fine when there
  Status remove_dir(std::string_view path);

  Status unlink(std::string_view path);
  // rm. A large tree goes in steps, so a crash half-way leaves a smaller tree.
  Status remove(std::string_view path, const RemoveOptions& options = {});
  Status rename(std::string_view from, std::string_view to, RenameMode mode = RenameMode::kReplace);
  Status link(std::string_view from, std::string_view to);
  Status make_symlink(std::string_view target, std::string_view path);
  Result<std::string> read_link(std::string_view path);

  Status set_mode(std::string_view path, std::uint32_t mode);
  Status set_times(std::string_view path, Timestamp atime, Timestamp mtime);
  Result<std::string> get_xattr(std::string_view path, std::string_view name);  // kNoData
  Result<std::vector<std::string>> list_xattrs(std::string_view path);
  Status set_xattr(std::string_view path, std::string_view name, std::string_view value);
  Status remove_xattr(std::string_view path, std::string_view name);  // kNoData

 private:
  friend class Agent;
  explicit Files(AgentState& state) : state_(&state) {}
  AgentState* state_;
};

}  // namespace warren::v1
