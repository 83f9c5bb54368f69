#include "os/files/dir_reader.h"

#include <cerrno>

#include <fcntl.h>

#include "os/error.h"

namespace warren {

Result<DirReader> DirReader::open(int dir) {
  Fd own(::openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!own.is_open()) return system_error(errno, "open the directory");
  return adopt(std::move(own));
}

Result<DirReader> DirReader::adopt(Fd dir) {
  DIR* stream = ::fdopendir(dir.get());
  if (stream == nullptr) return system_error(errno, "read the directory");
  dir.release();
  return DirReader(stream);
}

Result<const DirReader::Entry*> DirReader::next() {
  for (;;) {
    errno = 0;
    const dirent* found = ::readdir(stream_.get());
    if (found == nullptr && errno != 0) return system_error(errno, "read the directory");
    if (found == nullptr) return nullptr;
    entry_ = {.name = found->d_name, .inode = found->d_ino, .type = static_cast<std::uint32_t>(DTTOIF(found->d_type))};
    if (entry_.name != "." && entry_.name != "..") return &entry_;
  }
}

}  // namespace warren
