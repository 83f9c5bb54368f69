#include "os/files/mount_table.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <sys/sysmacros.h>

#include "base/ascii.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::size_t kTableBytesMax = std::size_t{64} << 20;  // 100,000 mounts take some 20 MiB

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool is_octal(std::string_view digits) {
  return digits.size() == 3 && digits.find_first_not_of("01234567") == digits.npos && digits[0] <= '3';
}

// Spaces, line breaks and backslashes are written as octal escapes: \040.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && is_octal(text.substr(i + 1, 3))) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// "36 35 98:0 /root /mount/point options optional... - type source super-options"
std::optional<MountEntry> parse_line(std::string_view line) {
  std::vector<std::string_view> words = split(line, ' ');
  auto dash = std::find(words.begin(), words.end(), "-");
  if (words.size() < 6 || dash - words.begin() < 6 || words.end() - dash < 3) return std::nullopt;
  std::vector<std::string_view> device = split(words[2], ':');
  std::optional<std::uint64_t> id = parse_number<std::uint64_t>(words[0]);
  std::optional<std::uint64_t> major_number = parse_number<std::uint64_t>(device.front());
  std::optional<std::uint64_t> minor_number = parse_number<std::uint64_t>(device.back());
  bool is_right = id && device.size() == 2 && major_number && minor_number;
  if (!is_right) return std::nullopt;
  bool is_slave =
      std::any_of(words.begin() + 6, dash, [](std::string_view word) { return word.starts_with("master:"); });
  return MountEntry{.id = *id,
                    .parent = parse_number<std::uint64_t>(words[1]).value_or(0),
                    .is_slave = is_slave,
                    .device = makedev(static_cast<unsigned>(*major_number), static_cast<unsigned>(*minor_number)),
                    .root = unescaped(words[3]),
                    .dir = unescaped(words[4]),
                    .type = unescaped(dash[1]),
                    .source = unescaped(dash[2])};
}

}  // namespace

std::vector<MountEntry> parse_mount_table(std::string_view text) {
  std::vector<MountEntry> mounts;
  for (std::string_view line : split(text, '\n')) {
    std::optional<MountEntry> mount = parse_line(line);
    if (mount) mounts.push_back(*std::move(mount));
  }
  return mounts;
}

Result<std::vector<MountEntry>> read_mount_table() {
  std::string text = WARREN_TRY(read_host_file("/proc/self/mountinfo", kTableBytesMax));
  return parse_mount_table(text);
}

}  // namespace warren
