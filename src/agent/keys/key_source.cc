#include "agent/keys/key_source.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/sessions.h"
#include "base/bytes.h"
#include "base/path.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/processes/capture.h"

namespace warren {
namespace {

constexpr std::chrono::seconds kKeyCommandLimit{60};  // somebody may have to type something

}  // namespace

std::optional<std::string> find_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

Result<std::string> operator_directory() {
  std::optional<std::string> given = find_variable("XDG_CONFIG_HOME");
  if (given && given->starts_with('/')) return *given + "/warren";
  std::string home = WARREN_TRY(home_directory());
  return home + "/.config/warren";
}

Result<std::string> run_key_command(const std::string& command, const std::string& name) {
  Result<Captured> done = run_captured_group({"sh", "-c", command}, "/", kKeyCommandLimit);
  if (!done.ok() && done.error().code() == Code::kTimeout) {
    return Error(Code::kTimeout,
                 fmt::format("{} did not end within {} s and was killed", name, kKeyCommandLimit.count()));
  }
  Captured ran = WARREN_TRY(std::move(done).within(name));
  if (ran.status == 0) return std::move(ran.output);
  // Neither what it printed nor its messages: both may have the key, and errors go to logs.
  ::explicit_bzero(ran.output.data(), ran.output.size());
  ::explicit_bzero(ran.errors.data(), ran.errors.size());
  return Error(
      Code::kUnavailable, fmt::format("{} ended with status {}", name, ran.status),
      "run it yourself to see why: Warren runs it by sh, in the directory /, and shows nothing that it prints");
}

// Opened first: what is checked is what is read.
Result<std::string> read_private_file(const std::string& path, std::size_t bytes_max, std::string_view purpose,
                                      const std::string& hint) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));  // a pipe or terminal must not block us
  if (!fd.is_open()) return system_error(errno, fmt::format("open {}", quote(path)));
  struct stat there {};
  if (::fstat(fd.get(), &there) != 0) return system_error(errno, fmt::format("stat {}", quote(path)));
  if (!S_ISREG(there.st_mode)) return Error(Code::kInvalid, fmt::format("{} is not a regular file", quote(path)), hint);
  bool is_ours = there.st_uid == ::geteuid() || there.st_uid == 0;
  if (!is_ours || (there.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Error(Code::kDenied, fmt::format("{} can be read by others, and is {}", quote(path), purpose), hint);
  }
  std::string text(bytes_max + 1, '\0');
  std::size_t count =
      WARREN_TRY(read_full(fd.get(), as_mutable_bytes(text)).within(fmt::format("read {}", quote(path))));
  if (count > bytes_max) {
    ::explicit_bzero(text.data(), text.size());
    return Error(Code::kTooLarge, fmt::format("{} has more than {} bytes", quote(path), bytes_max));
  }
  text.resize(count);
  return text;
}

std::optional<std::string> bytes_of_hex(std::string_view text, std::size_t bytes) {
  auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  if (text.size() != bytes * 2) return std::nullopt;
  std::string out;
  out.reserve(bytes);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    int high = digit(text[i]);
    int low = digit(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

}  // namespace warren
