#include "fs/encrypted.h"

namespace warren {

Result<bool> is_encrypted(FileSystem& fs, Inode node) {
  Result<std::string> key = fs.get_xattr(node, kEncryptedXattr);
  if (key.ok()) return true;
  Code code = key.error().code();
  if (code == Code::kNoData || code == Code::kUnsupported) return false;
  return std::move(key).take_error();
}

}  // namespace warren
