#include "documents/limited_program.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include <unistd.h>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/path.h"
#include "base/printable.h"
#include "os/capture.h"
#include "os/error.h"
#include "os/fd.h"

namespace warren {
namespace {

constexpr std::chrono::milliseconds kProgramTime{60'000};
constexpr std::uint64_t kProgramMemory = std::uint64_t{1} << 30;
constexpr std::uint64_t kProgramOutput = std::uint64_t{64} << 20;

std::string first_line_of(std::string_view text) {
  return printable(text.substr(0, std::min(text.find('\n'), std::size_t{200})));
}

// Without the keys that ours may have: a document can take over the program that reads it.
std::vector<std::string> harmless_environment() {
  std::vector<std::string> variables;
  for (const char* name : {"PATH", "LANG"}) {
    if (const char* value = std::getenv(name)) variables.push_back(fmt::format("{}={}", name, value));
  }
  return variables;
}

}  // namespace

Result<std::string> run_limited(const LimitedProgram& program, std::string_view input) {
  Fd file = WARREN_TRY(open_memory_file());  // the document may be of an encrypted agent
  WARREN_TRY(write_all(file.get(), as_bytes(input)));
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return system_error(errno, "read the copy of the document");
  std::vector<std::string> words{"prlimit",
                                 fmt::format("--as={}", kProgramMemory),
                                 fmt::format("--fsize={}", kProgramOutput),
                                 fmt::format("--cpu={}", kProgramTime.count() / 1000),
                                 "--nofile=64",
                                 "--core=0"};
  words.insert(words.end(), program.words.begin(), program.words.end());
  const std::string& name = program.words.front();
  std::vector<std::string> environment = harmless_environment();
  Result<Captured> ran = run_captured(words, "/", file.get(), kProgramTime, &environment);
  if (!ran.ok() && ran.error().code() == Code::kTimeout) {
    return Error(Code::kTimeout, fmt::format("{} took more than {} s", name, kProgramTime.count() / 1000));
  }
  Captured done = WARREN_TRY(std::move(ran).within([&] { return "run " + quote(name); }));
  if (done.status == 127 || done.errors.find(name + ": No such file") != std::string::npos) {
    return Error(Code::kUnavailable, fmt::format("{} is not installed", name),
                 fmt::format("install it: on Debian the package {}", program.package));
  }
  if (done.status != 0) {
    std::string why = done.errors.empty() ? fmt::format("status {}", done.status) : first_line_of(done.errors);
    return Error(Code::kInvalid, fmt::format("{}: {}", name, why));
  }
  return std::move(done.output);
}

}  // namespace warren
