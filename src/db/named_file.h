// The file of a database, as a name: whether the path still leads to the file that is open.
//
// A program that has a file open keeps it when its name is deleted or given to another file. Nothing fails then, and
// everything is gone when the file is closed. See docs/design/db.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// By which a file is the same under any name.
struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileId&) const = default;
};
std::optional<FileId> find_file_id(const std::string& path);  // follows links; nullopt if nothing can be found there

// Thread-safe.
class NamedFile {
 public:
  // The path is absolute. Call it once the database has the file open.
  static Result<NamedFile> open(const std::string& path);

  enum class Name {
    kOurs,
    kMoved,  // the path leads nowhere or to another file, and ours has another name somewhere
    kNone,   // the path leads nowhere or to another file, and ours has no name any more
  };
  // Two system calls. A path that cannot be looked at counts as ours.
  Name look() const;
  // Another name of the file, if it was moved and the system knows where to.
  std::optional<std::string> find_new_name() const;
  // Whether another process has the file open, under whatever name; of those that we may look at. O(descriptors of all
  // processes).
  bool is_open_elsewhere() const;

 private:
  NamedFile(Fd file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  Fd file_;  // not open for reading: closing it leaves SQLite's locks on the file alone
  std::string path_;
};

// Removes the name, if it leads to the open file.
void remove_name_of(int file, const std::string& path);

}  // namespace warren
