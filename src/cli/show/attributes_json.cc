#include "cli/show/attributes_json.h"

#include <fmt/format.h>

#include "cli/show/text.h"
#include "cli/syntax/values.h"

namespace warren::cli {
namespace {

void set_time(Json& object, const std::string& key, Timestamp time) {
  object[key] = time.seconds;
  object[key + "_nsec"] = time.nanoseconds;
}

}  // namespace

Json inode_json(Inode inode) {
  constexpr std::uint64_t kExactMax = (std::uint64_t{1} << 53) - 1;
  return inode.value <= kExactMax ? Json(inode.value) : Json(std::to_string(inode.value));
}

Json number_or_null(const std::optional<std::uint64_t>& number) { return number ? Json(*number) : Json(nullptr); }

Json attributes_json(std::string_view key, std::string_view name, const Attributes& node) {
  Json out;
  set_bytes(out, key, name);
  out["type"] = type_word(node.mode);
  out["size"] = node.size;
  out["mode"] = fmt::format("{:04o}", node.mode & 07777U);
  out["inode"] = inode_json(node.inode);
  out["links"] = node.nlink;
  out["uid"] = node.owner.uid;
  out["gid"] = node.owner.gid;
  set_time(out, "atime", node.atime);
  set_time(out, "mtime", node.mtime);
  set_time(out, "ctime", node.ctime);
  if (node.rdev != 0) out["rdev"] = node.rdev;
  return out;
}

}  // namespace warren::cli
