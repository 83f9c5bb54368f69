// A program to kill.
//
//   crash_writer write FILE WRITER FIRST COUNT power|process   does steps of crash/script.h; prints a line for each
//   crash_writer orphan FILE      keeps an unlinked file open until its standard input ends
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

#include "crash/script.h"
#include "fs/file.h"
#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"

namespace warren::testing {
namespace {

Status acknowledge(std::string_view line) {
  std::string text = std::string(line) + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return Error(Code::kIo, "nobody listens");
  }
  return Ok{};
}

Result<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size()) return Error(Code::kInvalid, "not a number");
  return number;
}

Status write_steps(const std::vector<std::string>& words) {
  std::int64_t first = WARREN_TRY(number_of(words[4]));
  std::int64_t count = WARREN_TRY(number_of(words[5]));
  Durability durability = words[6] == "power" ? Durability::kPower : Durability::kProcess;
  SystemClock clock;
  auto store = WARREN_TRY(Store::open(words[2], {.durability = durability}, clock));
  Script script(words[3]);
  for (std::int64_t step = first; step < first + count; ++step) {
    WARREN_TRY(script.run(*store, step).within(fmt::format("step {}", step)));
    WARREN_TRY(acknowledge(std::to_string(step)));
  }
  return Ok{};
}

Status keep_orphan(const std::vector<std::string>& words) {
  SystemClock clock;
  auto store = WARREN_TRY(Store::open(words[2], {}, clock));
  OpenOptions options;
  options.access = FileAccess::kReadWrite;
  options.create = Create::kMustCreate;
  auto file = WARREN_TRY(File::open(store->fs(), "/orphan", options));
  WARREN_TRY(file->write_at(0, as_bytes(std::string(10'000, 'o'))));
  WARREN_TRY(unlink(store->fs(), "/orphan"));
  WARREN_TRY(file->write_at(10'000, as_bytes("still writable")));
  WARREN_TRY(acknowledge("ready"));
  char ignored = 0;
  while (::read(STDIN_FILENO, &ignored, 1) > 0) {
  }
  return file->close();
}

int run(const std::vector<std::string>& words) {
  Status done = Error(Code::kInvalid, "usage: see the top of crash_writer.cc");
  if (words.size() == 7 && words[1] == "write") done = write_steps(words);
  if (words.size() == 3 && words[1] == "orphan") done = keep_orphan(words);
  if (done.ok()) return 0;
  fmt::print(stderr, "crash_writer: {}\n", done.error().message());
  return 1;
}

}  // namespace
}  // namespace warren::testing

int main(int count, char** words) { return warren::testing::run({words, words + count}); }
