#include "model/snapshot.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/path.h"
#include "fs/list_dir.h"
#include "model/operations.h"

namespace warren::testing {
namespace {

constexpr std::uint64_t kBlock = 4096;

// The blocks that are not all zeros. Skips holes with seek_data, because files may be huge.
Result<std::string> content_of(FileSystem& fs, const Attributes& file) {
  std::string text;
  std::string block;
  std::uint64_t at = 0;
  while (at < file.size) {
    Result<std::uint64_t> data = fs.seek_data(file.inode, at);
    if (!data.ok() && data.error().code() == Code::kNoData) break;
    at = WARREN_TRY(std::move(data));
    at -= at % kBlock;
    block.assign(kBlock, '\0');
    std::size_t got = WARREN_TRY(fs.read(file.inode, at, as_mutable_bytes(block)));
    block.resize(got);
    bool is_zero = std::ranges::all_of(block, [](char c) { return c == '\0'; });
    if (!is_zero) text += fmt::format(" {}:{:x}", at, std::hash<std::string>{}(block));
    at += kBlock;
  }
  return text;
}

Result<std::string> xattrs_of(FileSystem& fs, Inode node) {
  std::string text;
  std::vector<std::string> names = WARREN_TRY(fs.list_xattrs(node));
  for (const std::string& name : names) {
    std::string value = WARREN_TRY(fs.get_xattr(node, name));
    text += fmt::format(" {}={:x}", quote(name), std::hash<std::string>{}(value));
  }
  return text;
}

Result<std::string> line_of(FileSystem& fs, const Attributes& node) {
  std::string text = describe(node);
  if (node.is_file()) text += WARREN_TRY(content_of(fs, node));
  if (node.is_symlink()) {
    std::string target = WARREN_TRY(fs.read_link(node.inode));
    text += " -> " + quote(target);
  }
  text += WARREN_TRY(xattrs_of(fs, node.inode));
  return text;
}

}  // namespace

Result<std::string> snapshot_node(FileSystem& fs, Inode node) {
  Attributes attributes = WARREN_TRY(fs.get_attributes(node));
  return line_of(fs, attributes);
}

Result<std::vector<std::string>> snapshot(FileSystem& fs) {
  struct Todo {
    std::string path;
    Attributes node;
  };
  std::vector<std::string> lines;
  std::map<Inode, std::size_t> numbers;
  Attributes root = WARREN_TRY(fs.get_attributes(kRootInode));
  std::vector<Todo> todo{{.path = "/", .node = root}};
  while (!todo.empty()) {
    Todo next = std::move(todo.back());
    todo.pop_back();
    std::size_t number = numbers.emplace(next.node.inode, numbers.size()).first->second;
    std::string line = WARREN_TRY(line_of(fs, next.node));
    lines.push_back(fmt::format("{} #{} {}", quote(next.path), number, line));
    if (!next.node.is_directory()) continue;
    std::vector<DirEntry> entries = WARREN_TRY(list_dir(fs, next.node.inode, DirDetail::kAttributes));
    for (const DirEntry& entry : entries) {
      todo.push_back({.path = join_path(next.path, entry.name), .node = *entry.attributes});
    }
  }
  return lines;
}

namespace {

// Done last, because everything else changes its times.
Status settle(FileSystem& to, Inode node, const Attributes& as, FakeClock& clock) {
  clock.jump_to(as.ctime);
  WARREN_TRY(to.set_attributes(node, {.mode = as.mode & 07777U,
                                      .uid = as.owner.uid,
                                      .gid = as.owner.gid,
                                      .size = {},
                                      .atime = SetTime::to(as.atime),
                                      .mtime = SetTime::to(as.mtime)}));
  return Ok{};
}

Result<Inode> copy_node(FileSystem& from, const DirEntry& entry, FileSystem& to, Inode to_dir) {
  const Attributes& as = *entry.attributes;
  NewNode node{.mode = as.mode, .owner = as.owner, .rdev = as.rdev};
  if (as.is_directory()) return WARREN_TRY(to.make_dir(to_dir, entry.name, node))
  .inode;
  if (as.is_symlink()) {
    std::string target = WARREN_TRY(from.read_link(as.inode));
    return WARREN_TRY(to.make_symlink(to_dir, entry.name, target, as.owner))
    .inode;
  }
  Inode made = WARREN_TRY(to.make_node(to_dir, entry.name, node))
  .inode;
  std::string content(as.is_file() ? as.size : 0, '\0');
  if (!content.empty()) {
    WARREN_TRY(from.read(as.inode, 0, as_mutable_bytes(content)));
    WARREN_TRY(to.write(made, 0, as_bytes(content)));
  }
  return made;
}

}  // namespace

Status copy_tree(FileSystem& from, Inode from_dir, FileSystem& to, Inode to_dir, FakeClock& clock,
                 std::map<Inode, Inode>& made) {
  Attributes dir = WARREN_TRY(from.get_attributes(from_dir));
  std::vector<DirEntry> entries = WARREN_TRY(list_dir(from, from_dir, DirDetail::kAttributes));
  for (const DirEntry& entry : entries) {
    auto known = made.find(entry.inode);
    if (known != made.end()) {
      WARREN_TRY(to.link(known->second, to_dir, entry.name));
      WARREN_TRY(settle(to, known->second, *entry.attributes, clock));
      continue;
    }
    Inode copy = WARREN_TRY(copy_node(from, entry, to, to_dir));
    made[entry.inode] = copy;
    std::vector<std::string> names = WARREN_TRY(from.list_xattrs(entry.inode));
    for (const std::string& name : names) {
      std::string value = WARREN_TRY(from.get_xattr(entry.inode, name));
      WARREN_TRY(to.set_xattr(copy, name, as_bytes(value), XattrMode::kAny));
    }
    if (entry.attributes->is_directory()) WARREN_TRY(copy_tree(from, entry.inode, to, copy, clock, made));
    WARREN_TRY(settle(to, copy, *entry.attributes, clock));
  }
  return settle(to, to_dir, dir, clock);
}

}  // namespace warren::testing
