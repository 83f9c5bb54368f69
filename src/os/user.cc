#include "os/user.h"

#include <cerrno>
#include <charconv>
#include <optional>

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "os/error.h"

namespace warren {
namespace {

constexpr std::size_t kEntryBytesMost = std::size_t{1} << 20;
constexpr int kGroupsMost = 65'536;  // the kernel's limit

template <class Find>
Result<std::optional<HostUser>> find_entry(Find find) {
  std::string buffer(4096, '\0');
  for (;;) {
    passwd entry{};
    passwd* found = nullptr;
    int failed = find(&entry, buffer.data(), buffer.size(), &found);
    if (failed == ERANGE && buffer.size() < kEntryBytesMost) {
      buffer.resize(buffer.size() * 2);
      continue;
    }
    if (failed == EINTR) continue;
    bool is_absent = found == nullptr && (failed == 0 || failed == ENOENT || failed == ESRCH);
    if (is_absent) return std::optional<HostUser>();
    if (found == nullptr) return system_error(failed, "look up the user");
    HostUser user{.uid = entry.pw_uid, .gid = entry.pw_gid, .groups = {}, .name = entry.pw_name};
    user.home = entry.pw_dir;
    user.shell = entry.pw_shell;
    return std::optional(std::move(user));
  }
}

Result<std::vector<gid_t>> groups_of(const HostUser& user) {
  std::vector<gid_t> groups(64);
  for (;;) {
    int count = static_cast<int>(groups.size());
    bool is_all = ::getgrouplist(user.name.c_str(), user.gid, groups.data(), &count) >= 0;
    if (is_all) {
      groups.resize(static_cast<std::size_t>(count));
      return groups;
    }
    if (count > kGroupsMost) return Error(Code::kLimit, fmt::format("user {} has too many groups", quote(user.name)));
    groups.resize(std::max(static_cast<std::size_t>(count), groups.size() * 2));
  }
}

// The number at the start of `text`, which is then removed.
std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t number = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || number == UINT32_MAX) return std::nullopt;  // (uid_t)-1 means "unchanged"
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

Result<HostUser> find_host_user(const std::string& user) {
  std::string_view rest = user;
  std::optional<std::uint32_t> uid = take_number(rest);
  std::optional<std::uint32_t> gid;
  if (uid && rest.starts_with(':')) {
    rest.remove_prefix(1);
    gid = take_number(rest);
  }
  bool is_number = uid && rest.empty() && (gid || user.find(':') == user.npos);
  auto found = WARREN_TRY(find_entry([&](passwd* entry, char* buffer, std::size_t size, passwd** out) {
    return is_number ? ::getpwuid_r(*uid, entry, buffer, size, out)
                     : ::getpwnam_r(user.c_str(), entry, buffer, size, out);
  }));
  if (!found && !is_number) return Error(Code::kNotFound, fmt::format("there is no user {}", quote(user)));
  HostUser out = found ? *std::move(found) : HostUser{.uid = *uid, .gid = *uid};
  if (gid) out.gid = *gid;
  if (out.name.empty()) out.groups = {out.gid};
  else out.groups = WARREN_TRY(groups_of(out));
  return out;
}

}  // namespace warren
