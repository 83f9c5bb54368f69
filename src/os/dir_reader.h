// Reading a directory of the host entry by entry: the one readdir loop.
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

// One thread. Entries arrive in the filesystem's order. One that is added or removed meanwhile may or may not appear.
class DirReader {
 public:
  struct Entry {
    std::string_view name;    // a C string; valid until the next call
    std::uint64_t inode = 0;  // of what the name shows without the mounts on it
    std::uint32_t type = 0;   // S_IFMT bits; 0 if the filesystem does not report it
  };

  // Reads from the beginning, by a descriptor of its own; O_PATH is enough.
  static Result<DirReader> open(int dir);
  // Reads by the given descriptor, from its position on.
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
