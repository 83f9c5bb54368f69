#include "os/error.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace warren {
namespace {

// First match wins in either direction.
constexpr std::array<std::pair<int, Code>, 32> kTable{{
    {EINVAL, Code::kInvalid},
    {ENOENT, Code::kNotFound},
    {EEXIST, Code::kExists},
    {ENOTDIR, Code::kNotDirectory},
    {EISDIR, Code::kIsDirectory},
    {ENOTEMPTY, Code::kNotEmpty},
    {ENAMETOOLONG, Code::kNameTooLong},
    {ELOOP, Code::kLoop},
    {ENOSPC, Code::kNoSpace},
    {EDQUOT, Code::kNoSpace},
    {EFBIG, Code::kTooLarge},
    {E2BIG, Code::kTooLarge},
    {EROFS, Code::kReadOnly},
    {EPERM, Code::kNotPermitted},
    {EACCES, Code::kDenied},
    {EBUSY, Code::kBusy},
    {EAGAIN, Code::kBusy},
    {ESTALE, Code::kStale},
    {ESTALE, Code::kConflict},  // of what was read before; opening it again shows the current value
    {ENODATA, Code::kNoData},
    {EOPNOTSUPP, Code::kUnsupported},
    {ENOSYS, Code::kUnsupported},
    {EIO, Code::kIo},
    {EIO, Code::kCorrupt},
    {EMLINK, Code::kTooManyLinks},
    {EXDEV, Code::kCrossDevice},
    {EMFILE, Code::kLimit},
    {ENFILE, Code::kLimit},
    {ETIMEDOUT, Code::kTimeout},
    {ECONNREFUSED, Code::kUnavailable},
    {EBADF, Code::kBadHandle},
    {ERANGE, Code::kRange},
}};

}  // namespace

Error system_error(int number, std::string_view what) {
  Code code = Code::kIo;
  for (const auto& [known, meaning] : kTable) {
    if (known == number) {
      code = meaning;
      break;
    }
  }
  std::array<char, 256> buffer{};
  const char* text = strerror_r(number, buffer.data(), buffer.size());
  return {code, fmt::format("{}: {}", what, text)};
}

int errno_of(Code code) {
  for (const auto& [number, meaning] : kTable) {
    if (meaning == code) return number;
  }
  return EIO;
}

}  // namespace warren
