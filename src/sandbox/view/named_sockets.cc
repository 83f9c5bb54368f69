#include "sandbox/view/named_sockets.h"

#include <set>

#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::size_t kSocketListBytes = std::size_t{16} << 20;
constexpr int kColumnsBeforePath = 7;

}  // namespace

std::vector<std::string> parse_named_sockets(std::string_view text) {
  std::set<std::string> paths;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    // Columns are padded with blanks; the path begins after a single one and may contain others.
    std::size_t at = 0;
    for (int column = 0; column < kColumnsBeforePath && at < line.size(); ++column) {
      at = std::min(line.find_first_not_of(' ', at), line.size());
      at = std::min(line.find(' ', at), line.size());
    }
    std::string_view path = line.substr(std::min(at + 1, line.size()));
    if (path.starts_with('/')) paths.emplace(path);
  }
  return {paths.begin(), paths.end()};
}

std::vector<std::string> find_named_sockets() {
  Result<std::string> text = read_host_file("/proc/net/unix", kSocketListBytes);
  return text.ok() ? parse_named_sockets(*text) : std::vector<std::string>();
}

}  // namespace warren
