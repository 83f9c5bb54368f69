#include "documents/limited_program.h"

#include <algorithm>
#include <cerrno>

#include <unistd.h>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/path.h"
#include "base/printable.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/processes/confined.h"

namespace warren {
namespace {

std::string first_line_of(std::string_view text) {
  return printable(text.substr(0, std::min(text.find('\n'), std::size_t{200})));
}

}  // namespace

Result<std::string> run_limited(const LimitedProgram& program, std::string_view input) {
  Fd file = WARREN_TRY(open_memory_file());  // the document may be of an encrypted agent
  WARREN_TRY(write_all(file.get(), as_bytes(input)));
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return system_error(errno, "read the copy of the document");
  const std::string& name = program.words.front();
  Result<Captured> ran = run_confined(program.words, file.get());
  if (!ran.ok() && ran.error().code() == Code::kNotFound) {
    return Error(Code::kUnavailable, fmt::format("{} is not installed", name),
                 fmt::format("install it: on Debian the package {}", program.package));
  }
  Captured done = WARREN_TRY(std::move(ran).within([&] { return "run " + quote(name); }));
  if (done.status != 0) {
    std::string why = done.errors.empty() ? fmt::format("status {}", done.status) : first_line_of(done.errors);
    return Error(Code::kInvalid, fmt::format("{}: {}", name, why));
  }
  return std::move(done.output);
}

}  // namespace warren
