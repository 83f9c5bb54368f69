#include "model/operations.h"

#include <algorithm>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "base/path.h"

namespace warren::testing {
namespace {

template <class T>
std::string failure(const Result<T>& result) {
  return fmt::format("fails: {}", name_of(result.error().code()));
}

Outcome described(const Status& status) { return {.text = status.ok() ? "ok" : failure(status)}; }

Outcome described(const Result<Attributes>& result) {
  if (!result.ok()) return {.text = failure(result)};
  return {.text = describe(*result), .node = *result};
}

Outcome described(const Result<std::uint64_t>& result) {
  return {.text = result.ok() ? std::to_string(*result) : failure(result)};
}

Outcome described(const Result<std::string>& result) {
  if (!result.ok()) return {.text = failure(result)};
  return {.text = fmt::format("{} bytes, hash {:x}", result->size(), std::hash<std::string>{}(*result))};
}

Outcome described(const Result<std::vector<std::string>>& result) {
  if (!result.ok()) return {.text = failure(result)};
  std::string text;
  for (const std::string& each : *result) text += quote(each) + " ";
  return {.text = text};
}

Result<std::vector<std::string>> list(FileSystem& fs, Inode dir, std::size_t page_size) {
  auto stream = WARREN_TRY(fs.open_dir(dir));
  std::vector<std::string> lines;
  std::uint64_t cookie = 0;
  for (;;) {
    std::vector<DirEntry> page = WARREN_TRY(stream->read(cookie, page_size, DirDetail::kAttributes));
    if (page.empty()) break;
    cookie = page.back().cookie;
    for (const DirEntry& entry : page) {
      lines.push_back(fmt::format("{} {:o} {}", entry.name, entry.type, describe(*entry.attributes)));
    }
  }
  std::ranges::sort(lines);
  return lines;
}

Result<std::string> read(FileSystem& fs, Inode node, std::uint64_t offset, std::size_t length) {
  std::string out(length, '?');
  std::size_t got = WARREN_TRY(fs.read(node, offset, as_mutable_bytes(out)));
  out.resize(got);
  return out;
}

std::string time_text(Timestamp at) { return fmt::format("{}.{:09}", at.seconds, at.nanoseconds); }

std::string set_time_text(const char* name, const std::optional<SetTime>& time) {
  if (!time) return "";
  return fmt::format(" {}={}", name, time->at ? time_text(*time->at) : "now");
}

std::string changes_text(const AttributeChanges& changes) {
  std::string text;
  if (changes.mode) text += fmt::format(" mode={:o}", *changes.mode);
  if (changes.uid) text += fmt::format(" uid={}", *changes.uid);
  if (changes.gid) text += fmt::format(" gid={}", *changes.gid);
  if (changes.size) text += fmt::format(" size={}", *changes.size);
  return text + set_time_text("atime", changes.atime) + set_time_text("mtime", changes.mtime);
}

}  // namespace

std::string describe(const Attributes& of) {
  return fmt::format("mode={:o} nlink={} owner={}:{} size={} atime={} mtime={} ctime={} rdev={}", of.mode, of.nlink,
                     of.owner.uid, of.owner.gid, of.size, time_text(of.atime), time_text(of.mtime), time_text(of.ctime),
                     of.rdev);
}

std::string describe(const Operation& of) {
  std::string name = quote(of.name);
  switch (of.call) {
    case Call::kLookup: return fmt::format("lookup #{} {}", of.node, name);
    case Call::kMakeNode: return fmt::format("make_node #{} {} mode={:o}", of.node, name, of.new_node.mode);
    case Call::kMakeDir: return fmt::format("make_dir #{} {} mode={:o}", of.node, name, of.new_node.mode);
    case Call::kMakeSymlink: return fmt::format("make_symlink #{} {} to {}", of.node, name, quote(of.data));
    case Call::kCreate: return fmt::format("create #{} {} mode={:o}", of.node, name, of.new_node.mode);
    case Call::kLink: return fmt::format("link #{} as #{} {}", of.node, of.other, name);
    case Call::kUnlink: return fmt::format("unlink #{} {}", of.node, name);
    case Call::kRemoveDir: return fmt::format("remove_dir #{} {}", of.node, name);
    case Call::kRename:
      return fmt::format("rename #{} {} to #{} {} mode {}", of.node, name, of.other, quote(of.other_name),
                         static_cast<int>(of.rename_mode));
    case Call::kList: return fmt::format("list #{} by {}", of.node, of.length);
    case Call::kGetAttributes: return fmt::format("get_attributes #{}", of.node);
    case Call::kSetAttributes: return fmt::format("set_attributes #{}{}", of.node, changes_text(of.changes));
    case Call::kReadLink: return fmt::format("read_link #{}", of.node);
    case Call::kRetain: return fmt::format("retain #{}", of.node);
    case Call::kForget: return fmt::format("forget #{} {} times", of.node, of.length);
    case Call::kOpen: return fmt::format("open #{}", of.node);
    case Call::kRead: return fmt::format("read #{} {}+{}", of.node, of.offset, of.length);
    case Call::kWrite: return fmt::format("write #{} {}+{}", of.node, of.offset, of.data.size());
    case Call::kAppend: return fmt::format("append #{} {} bytes", of.node, of.data.size());
    case Call::kAllocate:
      return fmt::format("allocate #{} mode {} {}+{}", of.node, static_cast<int>(of.allocate_mode), of.offset,
                         of.length);
    case Call::kSeekData: return fmt::format("seek_data #{} {}", of.node, of.offset);
    case Call::kSeekHole: return fmt::format("seek_hole #{} {}", of.node, of.offset);
    case Call::kCopyRange:
      return fmt::format("copy_range #{} {}+{} to #{} {}", of.node, of.offset, of.length, of.other, of.other_offset);
    case Call::kSync: return fmt::format("sync #{}", of.node);
    case Call::kGetXattr: return fmt::format("get_xattr #{} {}", of.node, name);
    case Call::kListXattrs: return fmt::format("list_xattrs #{}", of.node);
    case Call::kSetXattr:
      return fmt::format("set_xattr #{} {} {} bytes mode {}", of.node, name, of.data.size(),
                         static_cast<int>(of.xattr_mode));
    case Call::kRemoveXattr: return fmt::format("remove_xattr #{} {}", of.node, name);
    case Call::kBegin: return "begin";
    case Call::kEnd: return "commit";
  }
  return "?";
}

Outcome apply(FileSystem& fs, const Operation& of, Inode node, Inode other) {
  switch (of.call) {
    case Call::kLookup: return described(fs.lookup(node, of.name));
    case Call::kMakeNode: return described(fs.make_node(node, of.name, of.new_node));
    case Call::kMakeDir: return described(fs.make_dir(node, of.name, of.new_node));
    case Call::kMakeSymlink: return described(fs.make_symlink(node, of.name, of.data, of.new_node.owner));
    case Call::kCreate: return described(fs.create(node, of.name, of.new_node));
    case Call::kLink: return described(fs.link(node, other, of.name));
    case Call::kUnlink: return described(fs.unlink(node, of.name));
    case Call::kRemoveDir: return described(fs.remove_dir(node, of.name));
    case Call::kRename: return described(fs.rename(node, of.name, other, of.other_name, of.rename_mode));
    case Call::kList: return described(list(fs, node, of.length));
    case Call::kGetAttributes: return described(fs.get_attributes(node));
    case Call::kSetAttributes: return described(fs.set_attributes(node, of.changes));
    case Call::kReadLink: return described(fs.read_link(node));
    case Call::kRetain: return described(fs.retain(node));
    case Call::kForget: fs.forget(node, of.length); return {.text = "done"};
    case Call::kOpen: return described(fs.open(node));
    case Call::kRead: return described(read(fs, node, of.offset, of.length));
    case Call::kWrite: return described(fs.write(node, of.offset, as_bytes(of.data)));
    case Call::kAppend: return described(fs.append(node, as_bytes(of.data)));
    case Call::kAllocate: return described(fs.allocate(node, of.allocate_mode, of.offset, of.length));
    case Call::kSeekData: return described(fs.seek_data(node, of.offset));
    case Call::kSeekHole: return described(fs.seek_hole(node, of.offset));
    case Call::kCopyRange: return described(fs.copy_range(node, of.offset, other, of.other_offset, of.length));
    case Call::kSync: return described(fs.sync(node));
    case Call::kGetXattr: return described(fs.get_xattr(node, of.name));
    case Call::kListXattrs: return described(fs.list_xattrs(node));
    case Call::kSetXattr: return described(fs.set_xattr(node, of.name, as_bytes(of.data), of.xattr_mode));
    case Call::kRemoveXattr: return described(fs.remove_xattr(node, of.name));
    case Call::kBegin:
    case Call::kEnd: break;
  }
  return {.text = "not a call"};
}

}  // namespace warren::testing
