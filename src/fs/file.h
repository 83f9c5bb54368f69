// An open file: a node that exists while it is open, whatever happens to its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "fs/file_system.h"
#include "fs/path_walk.h"

namespace warren {

enum class FileAccess { kRead, kWrite, kReadWrite };
enum class Create { kNo, kIfMissing, kMustCreate };
enum class Truncate { kNo, kYes };
enum class Append { kNo, kYes };

struct OpenOptions {
  FileAccess access = FileAccess::kRead;
  Create create = Create::kNo;        // kMustCreate: kExists if the name is taken, even by a link
  Truncate truncate = Truncate::kNo;  // needs write access
  Append append = Append::kNo;        // every write goes to the end, whatever its offset
  Follow follow = Follow::kYes;       // kNo: kLoop if the path ends in a link
  std::uint32_t mode = 0644;          // of a newly created file
  Owner owner;
};

// Thread-safe like its filesystem, except close(), which must be the last call. The filesystem outlives the file. A
// call that needs an access the file was not opened for fails with kBadHandle.
class File {
 public:
  static Result<std::unique_ptr<File>> open(FileSystem& fs, std::string_view path, const OpenOptions& options = {});
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  Inode inode() const { return inode_; }
  const std::string& path() const { return path_; }  // as opened; the file may have been renamed since

  Result<std::size_t> read_at(std::uint64_t offset, MutableBytes out);
  Status write_at(std::uint64_t offset, Bytes data);
  Result<std::uint64_t> append(Bytes data);  // returns the offset of the data
  Status truncate(std::uint64_t size);
  Status sync();
  Result<Attributes> attributes();
  Status close();  // may be called again; reports what FileSystem::flush does

 private:
  File(FileSystem& fs, Inode inode, std::string_view path, const OpenOptions& options);

  Status check_open(std::string_view what) const;
  Status check_readable() const;
  Status check_writable(std::string_view what) const;

  FileSystem& fs_;
  const Inode inode_;
  const std::string path_;
  const FileAccess access_;
  const Append append_;
  bool is_open_ = true;
};

}  // namespace warren
