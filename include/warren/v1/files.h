// An agent's files, by path.
//
// A path is absolute ("notes" means "/notes"); its names are bytes, separated by '/'. Symbolic links in it are
// followed, at most 40. Content is bytes in a std::string or std::string_view and is never converted.
//
// Each call is one transaction: it stores everything, or it fails and changes nothing. The one exception is remove()
// of a large tree.
#pragma once

#include <chrono>
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

// The result of stat. `mode` holds the file type and the permission bits, as in <sys/stat.h>.
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
  Create create = Create::kNo;        // kMustCreate: kExists if the name exists
  Truncate truncate = Truncate::kNo;  // kYes needs write access
  Append append = Append::kNo;        // kYes: every write goes to the end
  std::uint32_t mode = 0644;          // used when the file is created
};

// An open file: it can be read and written until it is closed, even if its name is removed. Thread-safe, except
// close(), which must be the last call. The agent must outlive the file.
class File {
 public:
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Returns the number of bytes read: less than requested only at the end of the file. Holes read as zeros.
  Result<std::size_t> read_at(std::uint64_t offset, std::span<char> out);
  Status write_at(std::uint64_t offset, std::string_view data);
  Result<std::uint64_t> append(std::string_view data);  // returns the offset of the data
  Status truncate(std::uint64_t size);
  // With Durability::kProcess: makes everything written so far survive a power cut.
  Status sync();
  Result<Attributes> attributes();
  Status close();  // may be called again

 private:
  friend class Files;
  struct State;
  explicit File(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

enum class Recursive { kNo, kYes };
enum class Force { kNo, kYes };

struct RemoveOptions {
  Recursive recursive = Recursive::kNo;  // kNo: kIsDirectory for a directory
  Force force = Force::kNo;              // kYes: no error if it does not exist
};

enum class RenameMode {
  kReplace,    // replaces the node at the new name
  kNoReplace,  // kExists if the new name exists
  kExchange,   // swaps both names, which must exist
};

struct SpaceStats {
  std::uint64_t used_bytes = 0;
  std::uint64_t capacity_bytes = 0;  // 0: no quota
  std::uint64_t used_inodes = 0;
  std::uint64_t capacity_inodes = 0;  // 0: no quota
};

// A view of an open agent: cheap to copy, valid as long as the agent. Thread-safe.
class Files {
 public:
  Result<Attributes> stat(std::string_view path);   // follows a link at the end
  Result<Attributes> lstat(std::string_view path);  // does not follow it
  Result<bool> exists(std::string_view path);
  Result<SpaceStats> stats();

  // Returns the whole content. kTooLarge over 1 GiB: use open() for such a file.
  Result<std::string> read_file(std::string_view path);
  // Replaces the content; creates the file and missing parents.
  Status write_file(std::string_view path, std::string_view data);
  // The file is gone for every reader after this time, and stays if it is written again without one.
  Status write_file(std::string_view path, std::string_view data, std::chrono::milliseconds time_to_live);
  Status append_file(std::string_view path, std::string_view data);
  Status truncate(std::string_view path, std::uint64_t size);
  Status copy_file(std::string_view from, std::string_view to);
  Result<std::unique_ptr<File>> open(std::string_view path, const OpenOptions& options = {});

  Result<std::vector<std::string>> read_dir(std::string_view path);  // names, sorted by bytes
  Result<std::vector<NamedAttributes>> read_dir_plus(std::string_view path);
  Status make_dir(std::string_view path, std::uint32_t mode = 0755);
  Status make_dirs(std::string_view path, std::uint32_t mode = 0755);  // with parents; may exist
  Status remove_dir(std::string_view path);

  Status unlink(std::string_view path);
  // rm. Removes a large tree in several transactions: a crash or an error may leave a part of it.
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
  friend class Vfs;
  explicit Files(AgentState& state) : state_(&state) {}
  AgentState* state_;
};

}  // namespace warren::v1
