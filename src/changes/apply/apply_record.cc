#include "changes/apply/apply_record.h"

#include <algorithm>
#include <array>
#include <random>

#include <fmt/format.h>

#include "agent/sessions.h"
#include "base/ascii.h"
#include "base/path.h"
#include "os/files/host_files.h"
#include "store/identity.h"
#include "store/overlay/apply_log.h"

namespace warren {
namespace {

// Of the same length. Older versions are still read: what they kept can be undone.
constexpr std::string_view kRecordMagic = "warren-apply-record-3\n";
constexpr std::string_view kMagicWithoutIdentity = "warren-apply-record-2\n";
constexpr std::size_t kRecordBytesMax = std::size_t{4} << 30;

void put_text(std::string& out, std::string_view text) {
  std::uint64_t size = text.size();
  for (int i = 0; i < 8; ++i) out += static_cast<char>((size >> (8 * i)) & 0xffU);
  out += text;
}

std::optional<std::string> take_text(std::string_view& rest) {
  if (rest.size() < 8) return std::nullopt;
  std::uint64_t size = 0;
  for (std::size_t i = 0; i < 8; ++i) size |= std::uint64_t{static_cast<unsigned char>(rest[i])} << (8 * i);
  rest.remove_prefix(8);
  if (size > rest.size()) return std::nullopt;
  std::string text(rest.substr(0, size));
  rest.remove_prefix(size);
  return text;
}

bool is_staging_name(std::string_view name) {
  return name.starts_with(kStagingPrefix) && name.find('/') == name.npos && name.size() > kStagingPrefix.size();
}

Result<std::string> records_dir() {
  std::string home = WARREN_TRY(agents_home());
  return home + "/applies";
}

Result<std::string> canonical_agent(Store& store, struct stat& info) {
  std::optional<struct stat> found = WARREN_TRY(find_host_file(store.path()));
  if (!found) return Error(Code::kUnsupported, "cannot apply changes of an agent without a file");
  info = *found;
  return canonical_host_path(store.path());
}

constexpr std::array<std::string_view, 5> kStates{"staged", "performing", "performed", "rolled back", "rolling back"};
constexpr std::array<std::string_view, 2> kKinds{"apply", "undo"};

// One text, of parts that cannot contain NUL. Older versions stored only the path: then the old node is somewhere in
// the staging directory.
std::string encode_left(const LeftNode& node) {
  std::string text = node.path;
  for (const std::string& part : {node.why, node.aside}) (text += '\0') += part;
  return text;
}

LeftNode decode_left(std::string_view text, const std::string& staging) {
  if (text.find('\0') == text.npos) {
    return {.path = std::string(text), .why = "it could not be restored", .aside = "/" + staging};
  }
  auto take = [&] {
    std::string part(text.substr(0, text.find('\0')));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    return part;
  };
  LeftNode node;
  node.path = take();
  node.why = take();
  node.aside = take();
  return node;
}

struct StoredRecord {
  std::string name;
  Result<ApplyRecord> record;
};

Result<std::vector<StoredRecord>> read_records() {
  std::vector<StoredRecord> all;
  std::string dir = WARREN_TRY(records_dir());
  if (!WARREN_TRY(find_host_file(dir))) return all;
  Fd open = WARREN_TRY(open_host_dir(dir));
  std::vector<HostEntry> entries = WARREN_TRY(list_host_dir(open.get()));
  for (const HostEntry& entry : entries) {
    bool is_record = S_ISREG(entry.attributes.st_mode) && entry.name.find('.') == entry.name.npos;
    if (!is_record) continue;  // a draft of replace_host_file
    std::string path = fmt::format("{}/{}", dir, entry.name);
    Result<std::string> bytes = read_host_file(path, kRecordBytesMax);
    if (!bytes.ok() && bytes.error().code() == Code::kNotFound) continue;  // another apply has just ended
    std::string text = WARREN_TRY(std::move(bytes));
    all.push_back({entry.name, decode_record(text).within(quote(path))});
  }
  return all;
}

}  // namespace

bool keeps_nodes(const ApplyRecord& record) {
  return std::any_of(record.left.begin(), record.left.end(), [](const LeftNode& node) { return !node.aside.empty(); });
}

Result<std::string> path_of_record(const ApplyRecord& record) {
  std::string dir = WARREN_TRY(records_dir());
  return fmt::format("{}/{}", dir, record.staging.substr(kStagingPrefix.size()));
}

std::string encode(const ApplyRecord& record) {
  std::string out(kRecordMagic);
  auto number = [](auto value) { return fmt::format("{}", value); };
  for (const std::string& text :
       {record.staging, record.base, number(record.base_node.device), number(record.base_node.inode),
        number(record.base_node.born_ns), record.agent, number(record.device), number(record.inode),
        record.intent ? encode(*record.intent) : "", std::string(kStates[static_cast<std::size_t>(record.state)]),
        std::string(kKinds[static_cast<std::size_t>(record.kind)]), record.label, number(record.started_us),
        number(record.undo.bytes_max), number(record.undo.seconds), record.undoes, record.agent_identity}) {
    put_text(out, text);
  }
  for (const LeftNode& node : record.left) put_text(out, encode_left(node));
  return out;
}

Result<ApplyRecord> decode_record(std::string_view bytes) {
  Error invalid(Code::kCorrupt, "the record of an apply is invalid");
  bool has_identity = bytes.starts_with(kRecordMagic);
  if (!has_identity && !bytes.starts_with(kMagicWithoutIdentity)) return invalid;
  const std::size_t fields = has_identity ? 17 : 16;
  bytes.remove_prefix(kRecordMagic.size());
  std::vector<std::string> texts;
  while (!bytes.empty()) {
    std::optional<std::string> text = take_text(bytes);
    if (!text) return invalid;
    texts.push_back(*std::move(text));
  }
  if (texts.size() < fields || !is_staging_name(texts[0]) || !texts[1].starts_with('/')) return invalid;
  bool is_good = true;
  auto number = [&](std::size_t field) {
    std::optional<std::uint64_t> value = parse_number<std::uint64_t>(texts[field]);
    is_good = is_good && value;
    return value.value_or(0);
  };
  ApplyRecord record;
  record.staging = texts[0];
  record.base = texts[1];
  record.base_node = {.device = number(2), .inode = number(3), .born_ns = number(4)};
  record.agent = texts[5];
  record.device = number(6);
  record.inode = number(7);
  record.label = texts[11];
  record.started_us = static_cast<std::int64_t>(number(12));
  record.undo = {.bytes_max = number(13), .seconds = static_cast<std::int64_t>(number(14))};
  record.undoes = texts[15];
  if (has_identity) record.agent_identity = texts[16];
  if (!texts[8].empty()) record.intent = WARREN_TRY(decode_intent(texts[8]));
  auto state = std::find(kStates.begin(), kStates.end(), texts[9]);
  auto kind = std::find(kKinds.begin(), kKinds.end(), texts[10]);
  bool is_other = record.intent && record.intent->staging != record.staging;
  if (!is_good || is_other || state == kStates.end() || kind == kKinds.end()) return invalid;
  record.state = static_cast<ApplyState>(state - kStates.begin());
  record.kind = static_cast<RecordKind>(kind - kKinds.begin());
  for (std::size_t i = fields; i < texts.size(); ++i) record.left.push_back(decode_left(texts[i], record.staging));
  return record;
}

std::string new_staging_name() {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{:08x}{:08x}", kStagingPrefix, random(), random(), random(), random());
}

Result<ApplyRecord> new_record(Store& store, const std::string& base) {
  if (!base.starts_with('/')) return Error(Code::kInvalid, fmt::format("the base {} is not absolute", quote(base)));
  struct stat info {};
  ApplyRecord record;
  record.agent = WARREN_TRY(canonical_agent(store, info));
  record.staging = new_staging_name();
  record.base = base;
  record.base_node = WARREN_TRY(identify_host_node(base));
  record.device = info.st_dev;
  record.inode = info.st_ino;
  record.agent_identity = WARREN_TRY(ensure_identity(store));
  record.started_us = store.clock().now_us();
  return record;
}

Status check_same_base(const ApplyRecord& record) {
  HostIdentity now = WARREN_TRY(identify_host_node(record.base));
  if (now.is_same(record.base_node)) return Ok{};
  std::string path = WARREN_TRY(path_of_record(record));
  return Error(Code::kConflict,
               fmt::format("{} is another directory than the one that the apply wrote to", quote(record.base)),
               fmt::format("if that one was moved, move it back; if it is gone, there is nothing to finish: remove {}",
                           quote(path)));
}

Status put_record(const ApplyRecord& record) {
  std::string dir = WARREN_TRY(records_dir());
  WARREN_TRY(make_host_dirs(dir, 0700).within("record the apply"));
  std::string path = WARREN_TRY(path_of_record(record));
  WARREN_TRY(replace_host_file(path, encode(record), 0600).within("record the apply"));
  return sync_host_dir(dir).within("record the apply");
}

Status remove_record(const ApplyRecord& record) {
  std::string path = WARREN_TRY(path_of_record(record));
  WARREN_TRY(remove_host_file(path));
  return Ok{};
}

Result<std::vector<ApplyRecord>> list_all_records() {
  std::vector<ApplyRecord> records;
  std::vector<StoredRecord> all = WARREN_TRY(read_records());
  for (StoredRecord& stored : all) {
    if (stored.record.ok()) records.push_back(std::move(stored.record).take_value());
  }
  return records;
}

Result<std::vector<ApplyRecord>> list_records(Store& store) {
  std::vector<ApplyRecord> records;
  std::vector<StoredRecord> all = WARREN_TRY(read_records());
  if (all.empty()) return records;
  struct stat info {};
  std::string agent = WARREN_TRY(canonical_agent(store, info));
  std::optional<std::string> named = WARREN_TRY(find_apply_intent(store));
  for (StoredRecord& stored : all) {
    bool is_named = named && *named == fmt::format("{}{}", kStagingPrefix, stored.name);
    if (!stored.record.ok() && !is_named) continue;
    ApplyRecord record = WARREN_TRY(std::move(stored.record));
    bool is_own = record.agent == agent || (record.device == info.st_dev && record.inode == info.st_ino);
    if (is_own && record.kind == RecordKind::kApply) records.push_back(std::move(record));
  }
  return records;
}

// By the inode: another agent may have the path of one that is gone.
Status check_none_unfinished(const std::string& agent_file, const std::string& name) {
  std::optional<struct stat> info = WARREN_TRY(find_host_file(agent_file));
  if (!info) return Ok{};
  std::vector<ApplyRecord> records = WARREN_TRY(list_all_records());
  bool is_unfinished = std::ranges::any_of(records, [&](const ApplyRecord& record) {
    bool is_own = record.device == info->st_dev && record.inode == info->st_ino;
    return is_own && record.kind == RecordKind::kApply && record.state != ApplyState::kRolledBack;
  });
  if (!is_unfinished) return Ok{};
  return Error(Code::kBusy,
               fmt::format("an apply of {} was interrupted, and only with it can that be finished", quote(name)),
               fmt::format("`warren apply {} --recover` finishes it", name));
}

}  // namespace warren
