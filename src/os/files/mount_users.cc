#include "os/files/mount_users.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include <unistd.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/below.h"

namespace warren {
namespace {

std::string leads_to(const std::string& link) {
  std::error_code unreadable;
  return std::filesystem::read_symlink(link, unreadable).string();
}

std::optional<std::string> find_mapped(const std::string& process, const std::string& dir) {
  std::ifstream maps(process + "/maps");
  for (std::string line; std::getline(maps, line);) {
    std::size_t path = line.find('/');
    if (path != line.npos && is_at_or_below(std::string_view(line).substr(path), dir)) return line.substr(path);
  }
  return std::nullopt;
}

std::optional<std::string> find_used(const std::string& process, const std::string& dir) {
  for (const char* name : {"/cwd", "/root", "/exe"}) {
    std::string path = leads_to(process + name);
    if (is_at_or_below(path, dir)) return path;
  }
  std::error_code failed;
  std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at(process + "/fd", failed); !failed && at != end; at.increment(failed)) {
    std::string path = leads_to(at->path());
    if (is_at_or_below(path, dir)) return path;
  }
  return find_mapped(process, dir);
}

}  // namespace

std::vector<MountUser> list_mount_users(const std::string& dir) {
  std::vector<MountUser> users;
  std::error_code failed;
  std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at("/proc", failed); !failed && at != end; at.increment(failed)) {
    std::optional<pid_t> pid = parse_number<pid_t>(at->path().filename().string());
    if (!pid || *pid == ::getpid()) continue;
    std::optional<std::string> path = find_used(at->path(), dir);
    if (!path) continue;
    std::string name;
    std::ifstream comm(at->path() / "comm");
    std::getline(comm, name);
    users.push_back({*pid, std::move(name), *std::move(path)});
  }
  std::sort(users.begin(), users.end(), [](const MountUser& a, const MountUser& b) { return a.pid < b.pid; });
  return users;
}

}  // namespace warren
