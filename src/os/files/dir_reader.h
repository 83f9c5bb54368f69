// Reads a directory of the host entry by entry.
//
//   DirReader reader = WARREN_TRY(DirReader::open(dir));
//   while (const DirReader::Entry* entry = WARREN_TRY(reader.next())) use(entry->name);
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <dirent.h>

#include "base/result.h"
#include "os/fd.h"

namespace warren {

// For one thread. Entries arrive in the filesystem's order; one added or removed during the reading may or may not
// appear.
class DirReader {
 public:
  struct Entry {
    std::string_view name;    // a C string; valid until the next call
    std::uint64_t inode = 0;  // of the directory below if something is mounted on the name
    std::uint32_t type = 0;   // S_IFMT bits; 0 if the filesystem does not report it
  };

  // Reads from the start through a descriptor of its own; for `dir`, O_PATH is enough.
  static Result<DirReader> open(int dir);
  // Reads through the given descriptor from its current position.
  static Result<DirReader> adopt(Fd dir);

  // The next entry, without "." and ".."; null at the end.
  Result<const Entry*> next();

 private:
  struct Close {
    void operator()(DIR* stream) const { ::closedir(stream); }
  };

  explicit DirReader(DIR* stream) : stream_(stream) {}

  std::unique_ptr<DIR, Close> stream_;
  Entry entry_;
};

}  // namespace warren
