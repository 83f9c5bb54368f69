#include "relay/delivery/inbox_file.h"

#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include "crypto/digest.h"

namespace warren::relay {

std::string render(const Message& message, std::string_view sender, std::string_view id) {
  Message shown = message;
  std::erase_if(shown.others, [](const Header& header) {
    return is_same_header(header.name, "FROM") || is_same_header(header.name, "ID") ||
           is_same_header(header.name, "TOKEN");
  });
  shown.others.insert(shown.others.begin(), {{"FROM", std::string(sender)}, {"ID", std::string(id)}});
  return write_message(shown);
}

std::string inbox_name(std::string_view message_id, std::int64_t stamp_ns) {
  return fmt::format("{:019}{}", stamp_ns, inbox_name_end(message_id));
}

std::string inbox_name_end(std::string_view message_id) {
  return fmt::format("-{}.msg", sha256_hex(as_bytes(message_id)).substr(0, 16));
}

std::int64_t birth_of_inbox_ns(int inbox) {
  struct statx info {};
  bool is_known = ::statx(inbox, "", AT_EMPTY_PATH, STATX_BTIME, &info) == 0 && (info.stx_mask & STATX_BTIME) != 0;
  if (!is_known) return 0;
  return static_cast<std::int64_t>(info.stx_btime.tv_sec) * 1'000'000'000 + info.stx_btime.tv_nsec;
}

}  // namespace warren::relay
