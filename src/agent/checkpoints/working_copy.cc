#include "agent/checkpoints/working_copy.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/json.h"
#include "base/path.h"
#include "crypto/digest.h"
#include "fs/expiry.h"
#include "fs/path_ops.h"
#include "vfs/blob_fs.h"

namespace warren {
namespace {

std::string attributes_text(const Attributes& node, const std::map<std::string, std::string>& xattrs) {
  Json json{{"mode", node.mode}, {"uid", node.owner.uid}, {"gid", node.owner.gid}};
  if (node.rdev != 0) json["rdev"] = node.rdev;
  for (const auto& [name, value] : xattrs) json["xattrs"][hex_of(as_bytes(name))] = hex_of(as_bytes(value));
  json["mtime"] = {node.mtime.seconds, node.mtime.nanoseconds};
  return dump_json(json);
}

std::string token_of_node(std::string_view identity, const Attributes& node) {
  std::string all = fmt::format("{}\n{} {} {} {} {} {} {}.{} {}.{}", identity, node.inode.value, node.size, node.mode,
                                node.rdev, node.owner.uid, node.owner.gid, node.mtime.seconds, node.mtime.nanoseconds,
                                node.ctime.seconds, node.ctime.nanoseconds);
  return sha256_hex(as_bytes(all)).substr(0, 32);
}

std::optional<std::string> text_of_hex(std::string_view hex) {
  auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string text;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    int high = digit(hex[i]);
    int low = digit(hex[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    text += static_cast<char>(high * 16 + low);
  }
  return text;
}

// What attributes_text says.
struct NodeAttributes {
  std::uint32_t mode = 0;
  Owner owner;
  std::uint64_t rdev = 0;
  Timestamp mtime;
  std::map<std::string, std::string> xattrs;
};

std::optional<NodeAttributes> parse_attributes(const std::string& text) {
  Result<Json> parsed = parse_json(text);
  if (!parsed.ok() || !parsed->is_object()) return std::nullopt;
  const Json& json = *parsed;
  auto number = [&](const char* name) -> std::optional<std::uint32_t> {
    auto member = json.find(name);
    if (member == json.end() || !member->is_number_unsigned()) return std::nullopt;
    auto value = member->get<std::uint64_t>();
    return value <= UINT32_MAX ? std::optional(static_cast<std::uint32_t>(value)) : std::nullopt;
  };
  NodeAttributes node;
  std::optional<std::uint32_t> mode = number("mode");
  std::optional<std::uint32_t> uid = number("uid");
  std::optional<std::uint32_t> gid = number("gid");
  auto mtime = json.find("mtime");
  bool has_time = mtime != json.end() && mtime->is_array() && mtime->size() == 2 && (*mtime)[0].is_number_integer() &&
                  (*mtime)[1].is_number_unsigned() && (*mtime)[1].get<std::uint64_t>() < 1'000'000'000;
  if (!mode || !uid || !gid || !has_time) return std::nullopt;
  node.mode = *mode;
  node.owner = {*uid, *gid};
  node.mtime = {(*mtime)[0].get<std::int64_t>(), (*mtime)[1].get<std::int32_t>()};
  if (auto rdev = json.find("rdev"); rdev != json.end() && rdev->is_number_unsigned())
    node.rdev = rdev->get<std::uint64_t>();
  auto xattrs = json.find("xattrs");
  if (xattrs == json.end()) return node;
  if (!xattrs->is_object()) return std::nullopt;
  for (const auto& [name, value] : xattrs->items()) {
    std::optional<std::string> whole_name = text_of_hex(name);
    std::optional<std::string> whole = value.is_string() ? text_of_hex(value.get<std::string>()) : std::nullopt;
    if (!whole_name || !whole) return std::nullopt;
    node.xattrs.emplace(std::move(*whole_name), std::move(*whole));
  }
  return node;
}

Result<std::string> content_of(FileSystem& fs, const WalkEntry& entry) {
  if (entry.attributes.is_symlink()) return read_link(fs, entry.path);
  if (!entry.attributes.is_file()) return std::string();
  return read_file(fs, entry.path, {.size_bytes_max = entry.attributes.size});
}

Result<CopiedNode> copy_to_row(FileSystem& fs, const WalkEntry& entry, std::string token) {
  std::map<std::string, std::string> xattrs;
  std::vector<std::string> names = WARREN_TRY(list_xattrs(fs, entry.path, Follow::kNo));
  for (const std::string& name : names) xattrs[name] = WARREN_TRY(get_xattr(fs, entry.path, name, Follow::kNo));
  std::string value = WARREN_TRY(content_of(fs, entry));
  MountedRow row{.key = entry.path.substr(1),
                 .hash = sha256_hex(as_bytes(value)),
                 .size = value.size(),
                 .expires_at_ms = {},
                 .attributes = attributes_text(entry.attributes, xattrs)};
  row.expires_at_ms = WARREN_TRY(find_expiry(fs, entry.attributes.inode));
  return CopiedNode{.row = std::move(row), .token = std::move(token), .value = std::move(value)};
}

Status make_copied_node(MemoryFs& fs, const std::string& path, const NodeAttributes& node, const std::string& value) {
  std::uint32_t type = node.mode & S_IFMT;
  if (type == S_IFDIR) WARREN_TRY(make_dir(fs, path, {.mode = node.mode & 07777U, .owner = node.owner}));
  else if (type == S_IFLNK) WARREN_TRY(make_symlink(fs, value, path, node.owner));
  else {
    Attributes made = WARREN_TRY(make_node(
        fs, path, {.mode = node.mode, .owner = node.owner, .rdev = static_cast<decltype(NewNode::rdev)>(node.rdev)}));
    if (type == S_IFREG) WARREN_TRY(fs.write(made.inode, 0, as_bytes(value)));
  }
  for (const auto& [name, text] : node.xattrs) {
    WARREN_TRY(set_xattr(fs, path, name, as_bytes(text), XattrMode::kAny, Follow::kNo));
  }
  return Ok{};
}

}  // namespace

Status CopyBudget::take(std::string_view mount, std::uint64_t size) {
  if (values > 0 && size <= bytes) {
    --values;
    bytes -= size;
    return Ok{};
  }
  return Error(Code::kTooLarge, fmt::format("{} has too much for a checkpoint", quote(mount)),
               "checkpoints keep up to 100,000 values and 1 GiB of what is mounted; --without-mounts leaves it out");
}

Result<std::vector<CopiedNode>> copy_tree(FileSystem& fs, std::string_view mount, std::string_view identity,
                                          const CopiedBefore& before, CopyBudget& budget) {
  std::vector<CopiedNode> all;
  auto unit = WARREN_TRY(fs.begin(UnitAccess::kRead));
  auto copy = [&](const WalkEntry& entry) -> Result<WalkNext> {
    if (entry.path == "/") return WalkNext::kContinue;
    WARREN_TRY(budget.take(mount, entry.attributes.is_file() ? entry.attributes.size : 0));
    std::string key = entry.path.substr(1);
    std::string token = token_of_node(identity, entry.attributes);
    auto known = before.tokens.find(key);
    auto row = before.rows.find(key);
    bool is_same = known != before.tokens.end() && row != before.rows.end() && known->second == token;
    if (is_same) all.push_back({.row = row->second, .token = std::move(token), .value = {}});
    else all.push_back(WARREN_TRY(copy_to_row(fs, entry, std::move(token))));
    return WalkNext::kContinue;
  };
  WARREN_TRY(walk(fs, "/", copy, {.follow = Follow::kNo}));
  std::ranges::sort(all, {}, [](const CopiedNode& node) -> const std::string& { return node.row.key; });
  return all;
}

Result<std::unique_ptr<MemoryFs>> tree_of_rows(MountedRows& rows, std::string_view mount, Clock& clock) {
  auto tree = std::make_unique<MemoryFs>(clock);
  std::vector<MountedRow> all = WARREN_TRY(rows.list(mount));
  std::vector<std::pair<std::string, NodeAttributes>> made;
  for (const MountedRow& row : all) {
    if (row.expires_at_ms && *row.expires_at_ms <= clock.now_us() / 1000) continue;
    std::optional<NodeAttributes> node = parse_attributes(row.attributes);
    std::optional<std::string> value = WARREN_TRY(rows.find_value(mount, row.key));
    auto what = [&] { return fmt::format("the copy of {} in {}", quote(row.key), quote(mount)); };
    if (!node || !value) return Error(Code::kCorrupt, what() + " is damaged", "`warren fsck` shows what else is");
    std::string path = "/" + row.key;
    std::string normal = WARREN_TRY(normalise_path(path).within(what));
    if (normal != path) return Error(Code::kCorrupt, what() + " has an invalid path");
    WARREN_TRY(make_copied_node(*tree, path, *node, *value).within(what));
    made.emplace_back(std::move(path), std::move(*node));
  }
  for (auto at = made.rbegin(); at != made.rend(); ++at) {  // what is in a directory changes its time
    AttributeChanges times{.atime = SetTime::to(at->second.mtime), .mtime = SetTime::to(at->second.mtime)};
    WARREN_TRY(set_attributes(*tree, at->first, times, Follow::kNo));
  }
  return tree;
}

bool is_folder_marker(std::string_view key) { return base_name(key) == BlobFs::kDirMarker; }

bool is_same_copy(const MountedRow& a, const MountedRow& b) {
  if (a.hash != b.hash || a.expires_at_ms != b.expires_at_ms) return false;
  if (a.attributes == b.attributes) return true;
  Result<Json> left = parse_json(a.attributes);
  Result<Json> right = parse_json(b.attributes);
  if (!left.ok() || !right.ok() || !left->is_object() || !right->is_object()) return false;
  left->erase("mtime");
  right->erase("mtime");
  return *left == *right;
}

}  // namespace warren
