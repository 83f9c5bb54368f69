#include "backends/blob/exec_blobs.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "backends/blob/blob_suite_testing.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::testing {
namespace {

SystemClock& exec_clock() {
  static SystemClock clock;
  return clock;
}

std::unique_ptr<BlobStore> open_exec_store(const std::string& command) {
  Result<std::unique_ptr<ExecBlobs>> store =
      ExecBlobs::open({.command = command, .timeout = std::chrono::minutes(2)}, exec_clock());
  EXPECT_OK(store);
  return store.ok() ? std::move(store).take_value() : nullptr;
}

TempDir& exec_dir() {
  static TempDir dir;
  return dir;
}

int exec_count = 0;

std::unique_ptr<BlobStore> open_example() {
  return open_exec_store(
      fmt::format("python3 {}/examples/backend.py {}/{}", WARREN_SOURCE_DIR, exec_dir().path(), exec_count));
}

INSTANTIATE_TEST_SUITE_P(Exec, BlobStoreTest,
                         ::testing::Values(BlobSuiteCase{.name = "exec",
                                                         .make =
                                                             [] {
                                                               ++exec_count;
                                                               return open_example();
                                                             },
                                                         .open_again = open_example,
                                                         .binary_keys = false,
                                                         .many_keys = 200,
                                                         .large_bytes = std::size_t{1} << 20,
                                                         .rounds = 3}),
                         name_of_case);

// A program that says hello and then what it is given, for each line it reads.
std::string program_that_says(const TempDir& dir, const std::string& answer) {
  std::ofstream script(dir.file("program.sh"));
  script << "echo '{\"warren\":1}'\nwhile read -r line; do\n" << answer << "\ndone\n";
  return "sh " + dir.file("program.sh");
}

// A mount in the background has closed our standard error by then: the program must not keep it open.
TEST(ExecBlobs, MessagesForPeopleArePassedOnAndTheProgramDoesNotHaveOurStandardError) {
  TempDir dir;
  std::string program = program_that_says(dir,
                                          "readlink /proc/$$/fd/2 >&2; yes message | head -c 300000 >&2\n"
                                          "id=${line##*\\\"id\\\":}; echo '{\"id\":'${id%%[,\\}]*}',\"blob\":null}'");
  ::testing::internal::CaptureStderr();
  {
    Result<std::unique_ptr<ExecBlobs>> store = ExecBlobs::open({.command = program}, exec_clock());
    ASSERT_OK(store);
    for (int i = 0; i < 2; ++i) EXPECT_OK((*store)->find("a"));
  }
  std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.substr(0, 6), "pipe:[") << said.substr(0, 100);
  EXPECT_GT(said.size(), 600'000U);
}

TEST(ExecBlobs, GarbageIsAClearErrorAndTheProgramIsStartedAgain) {
  struct Row {
    const char* answer;
    const char* expected;
  };
  for (const Row& row :
       {Row{"echo 'Traceback: oops'", "it wrote 'Traceback: oops' instead of a JSON object"},
        Row{"echo '[1]'", "instead of a JSON object"}, Row{"echo '{\"id\":99,\"blob\":null}'", "not to the request"},
        Row{"printf '{\"id\":'; exit", "it ended in the middle of an answer"}, Row{"exit 3", "it has ended"}}) {
    TempDir dir;
    Result<std::unique_ptr<ExecBlobs>> store =
        ExecBlobs::open({.command = program_that_says(dir, row.answer)}, exec_clock());
    ASSERT_OK(store);
    for (int i = 0; i < 2; ++i) {
      Result<std::optional<BlobInfo>> found = (*store)->find("a");
      ASSERT_EQ(error_of(found), Code::kUnavailable) << row.answer;
      EXPECT_NE(found.error().message().find(row.expected), std::string::npos) << found.error().message();
    }
    program_that_says(dir, "id=${line##*\\\"id\\\":}; echo '{\"id\":'\"${id%\\}}\"',\"blob\":null}'");
    Result<std::optional<BlobInfo>> found = (*store)->find("a");
    ASSERT_OK(found) << "once the program is mended";
    EXPECT_FALSE(*found);
  }
}

TEST(ExecBlobs, AProgramThatDoesNotAnswerIsEnded) {
  TempDir dir;
  std::string command = program_that_says(dir, "sleep 1000");
  Result<std::unique_ptr<ExecBlobs>> store =
      ExecBlobs::open({.command = command, .timeout = std::chrono::milliseconds(300)}, exec_clock());
  ASSERT_OK(store);
  Result<BlobInfo> put = (*store)->put("a", as_bytes("x"), {});
  ASSERT_EQ(error_of(put), Code::kUnavailable);
  EXPECT_NE(put.error().message().find("no answer within 300 ms"), std::string::npos) << put.error().message();
}

TEST(ExecBlobs, CallsThatWaitForAProgramThatDoesNotAnswerFailWithTheFirst) {
  TempDir dir;
  std::string command = program_that_says(dir, "sleep 1000");
  Result<std::unique_ptr<ExecBlobs>> store =
      ExecBlobs::open({.command = command, .timeout = std::chrono::seconds(10)}, exec_clock());
  ASSERT_OK(store);
  std::int64_t begun_ns = exec_clock().monotonic_ns();
  std::vector<std::thread> callers;
  std::atomic<int> failed = 0;
  for (int i = 0; i < 24; ++i) {
    callers.emplace_back([&] { failed += error_of((*store)->find("a")) == Code::kUnavailable ? 1 : 0; });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(failed, 24);
  EXPECT_LT(exec_clock().monotonic_ns() - begun_ns, std::int64_t{60} * 1'000'000'000) << "one after the other: 240 s";
}

TEST(ExecBlobs, AShortAnswerIsAnError) {
  TempDir dir;
  std::string command = program_that_says(dir,
                                          "id=${line##*\\\"id\\\":}; echo '{\"id\":'\"${id%\\}}\"',"
                                          "\"blob\":{\"size\":5000,\"version\":\"1\",\"content\":\"aGVsbG8=\"}}'");
  Result<std::unique_ptr<ExecBlobs>> store = ExecBlobs::open({.command = command}, exec_clock());
  ASSERT_OK(store);
  Result<std::optional<Blob>> found = (*store)->get_range("a", 0, 1000);
  ASSERT_EQ(error_of(found), Code::kUnavailable);
  EXPECT_NE(found.error().message().find("not as long as its size"), std::string::npos) << found.error().message();
}

TEST(ExecBlobs, AProgramThatIsNotABackendIsRefused) {
  for (const char* command : {"true", "/nonexistent/program 2>/dev/null", "echo hello", "echo '{\"warren\":2}'"}) {
    Result<std::unique_ptr<ExecBlobs>> store = ExecBlobs::open({.command = command}, exec_clock());
    ASSERT_EQ(error_of(store), Code::kUnavailable) << command;
  }
  for (const std::string& command : {std::string(), std::string("  "), std::string("a\0b", 3)}) {
    EXPECT_EQ(error_of(ExecBlobs::open({.command = command}, exec_clock())), Code::kInvalid);
  }
}

TEST(ExecBlobs, ErrorsOfTheProgramArePassedOn) {
  struct Row {
    const char* code;
    Code expected;
  };
  for (const Row& row :
       {Row{"no_space", Code::kNoSpace}, Row{"conflict", Code::kConflict}, Row{"nonsense", Code::kIo}}) {
    TempDir dir;
    std::string command = program_that_says(
        dir, fmt::format("id=${{line##*\\\"id\\\":}}; echo '{{\"id\":'\"${{id%\\}}}}\"',\"error\":{{\"code\":\"{}\","
                         "\"message\":\"the reason\"}}}}'",
                         row.code));
    Result<std::unique_ptr<ExecBlobs>> store = ExecBlobs::open({.command = command}, exec_clock());
    ASSERT_OK(store);
    Result<BlobInfo> put = (*store)->put("a", as_bytes("x"), {});
    ASSERT_EQ(error_of(put), row.expected) << put.error().message();
    EXPECT_NE(put.error().message().find("the reason"), std::string::npos);
  }
}

}  // namespace
}  // namespace warren::testing
