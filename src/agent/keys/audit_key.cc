#include "agent/keys/audit_key.h"

#include <atomic>
#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/keys/key_source.h"
#include "base/path.h"
#include "crypto/hmac.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr const char* kKeyVariable = "WARREN_AUDIT_KEY";
constexpr const char* kKeyCommandVariable = "WARREN_AUDIT_KEY_COMMAND";
constexpr std::size_t kKeyFileBytes = 65'536;
constexpr std::size_t kAuditKeyBytes = 32;

std::string new_key() {
  std::string bytes(kAuditKeyBytes, '\0');
  fill_with_random(as_mutable_bytes(bytes));
  return hex_of(as_bytes(bytes));
}

Result<std::string> key_file() {
  std::string directory = WARREN_TRY(operator_directory());
  return directory + "/audit.key";
}

// Several processes may need the first key at once: one of them makes it.
Status make_key_file(const std::string& path) {
  WARREN_TRY(make_host_dirs(std::string(directory_of(path)), 0700));
  static std::atomic<int> count = 0;
  std::string draft = fmt::format("{}.new-{}-{}", path, ::getpid(), ++count);
  WARREN_TRY(replace_host_file(draft, new_key() + "\n", 0600));
  Status made = publish_host_file(draft, path);
  if (made.ok()) return Ok{};
  remove_host_file(draft).ignore("the first error is the one to report");
  if (made.error().code() == Code::kExists) return Ok{};
  return made;
}

Result<std::string> read_key_file(const std::string& path, MissingKey missing) {
  std::optional<struct stat> there = WARREN_TRY(find_host_file(path));
  if (!there && missing == MissingKey::kReport) {
    return Error(Code::kNotFound, fmt::format("there is no key for audit trails at {}", quote(path)),
                 fmt::format("put it there, or set {}; if it is lost, `warren audit ID rotate` goes on with another",
                             kKeyVariable));
  }
  if (!there) {
    Status made = make_key_file(path).within("make a key for audit trails");
    if (!made.ok()) {
      return std::move(made).take_error().with_hint(
          fmt::format("{} or {} can have it in another place", kKeyVariable, kKeyCommandVariable));
    }
  }
  return read_private_file(
      path, kKeyFileBytes, "the key of audit trails",
      fmt::format("if nobody has read it: chmod 600 {}; otherwise also change the key with `warren audit ID rotate`",
                  path));
}

}  // namespace

Result<AuditKeys> parse_audit_keys(std::string_view text, std::string_view where) {
  constexpr std::string_view kSeparators = ", \t\r\n";
  AuditKeys keys;
  while (!text.empty()) {
    std::size_t end = std::min(text.find_first_of(kSeparators), text.size());
    if (end > 0) {
      std::optional<std::string> bytes = bytes_of_hex(text.substr(0, end), kAuditKeyBytes);
      if (!bytes) {
        return Error(Code::kInvalid,
                     fmt::format("key {} in {} does not have 64 hexadecimal digits", keys.size() + 1, where),
                     "`openssl rand -hex 32` makes one");
      }
      keys.push_back(make_audit_key(*std::move(bytes)));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (keys.empty()) return Error(Code::kInvalid, fmt::format("there is no key in {}", where));
  return keys;
}

bool is_audit_key_given() { return find_variable(kKeyVariable) || find_variable(kKeyCommandVariable); }

Result<AuditKeys> load_audit_keys(MissingKey missing) {
  if (std::optional<std::string> given = find_variable(kKeyVariable)) return parse_audit_keys(*given, kKeyVariable);
  if (std::optional<std::string> command = find_variable(kKeyCommandVariable)) {
    std::string output = WARREN_TRY(run_key_command(*command, fmt::format("the command in {}", kKeyCommandVariable)));
    return parse_audit_keys(output, fmt::format("the output of {}", kKeyCommandVariable));
  }
  std::string path = WARREN_TRY(key_file());
  std::string text = WARREN_TRY(read_key_file(path, missing));
  return parse_audit_keys(text, quote(path));
}

Result<std::string> audit_key_directory() {
  std::string path = WARREN_TRY(key_file());
  return std::string(directory_of(path));
}

Status enable_audit(AuditLog& log, const std::string& agent) {
  AuditHead head = WARREN_TRY(log.head());
  // A new key beside rows of another one would only hide that the other is missing.
  MissingKey missing = head.seq > 0 ? MissingKey::kReport : MissingKey::kMake;
  return log.enable([missing] { return load_audit_keys(missing); }, agent);
}

Result<std::string> rotate_audit_key() {
  for (const char* name : {kKeyVariable, kKeyCommandVariable}) {
    if (!find_variable(name)) continue;
    return Error(Code::kUnsupported, fmt::format("the key comes from {}, not from a file", name),
                 "change it there: put the new key first, and the old one after it");
  }
  std::string path = WARREN_TRY(key_file());
  WARREN_TRY(make_host_dirs(std::string(directory_of(path)), 0700));
  // Two that read the same keys would each drop the other's new one, and what was made with it could not be checked.
  std::string lock_path = path + ".lock";
  Fd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.is_open() || ::flock(lock.get(), LOCK_EX) != 0) {
    return system_error(errno, fmt::format("lock {}", quote(lock_path)));
  }
  std::string text = WARREN_TRY(read_key_file(path, MissingKey::kMake));
  WARREN_TRY(parse_audit_keys(text, quote(path)));
  std::string key = new_key();
  WARREN_TRY(replace_host_file(path, key + "\n" + text, 0600));
  AuditKeys keys = WARREN_TRY(parse_audit_keys(key, quote(path)));
  return keys.front().id;
}

}  // namespace warren
