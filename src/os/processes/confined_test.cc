#include "os/processes/confined.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "os/fd.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

Fd input_of(std::string_view text) {
  Fd file = open_memory_file().take_value();
  EXPECT_TRUE(write_all(file.get(), as_bytes(text)).ok());
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

// What a script of perl's prints, confined.
Captured perl(const std::string& script, const ConfinedLimits& limits = {}) {
  Fd input = input_of("the input");
  Result<Captured> done = run_confined({"perl", "-e", script}, input.get(), limits);
  EXPECT_OK(done);
  return done.ok() ? std::move(done).take_value() : Captured{.status = -1};
}

TEST(Confined, AProgramReadsItsInputAndIsHeard) {
  Captured done = perl("print <STDIN>; print STDERR 'oops'; exit 3");
  EXPECT_EQ(done.output, "the input");
  EXPECT_EQ(done.errors, "oops");
  EXPECT_EQ(done.status, 3);
  Fd input = input_of("again");
  EXPECT_EQ(run_confined({"cat", "/proc/self/fd/0"}, input.get())->output, "again");
  EXPECT_EQ(error_of(run_confined({"no-such-program-here"}, input.get())), Code::kNotFound);
}

TEST(Confined, ItHasNoKeys) {
  ::setenv("WARREN_TEST_KEY", "secret", 1);
  EXPECT_EQ(perl("print join ',', sort keys %ENV").output.find("WARREN_TEST_KEY"), std::string::npos);
  ::unsetenv("WARREN_TEST_KEY");
}

TEST(Confined, ItReadsNoFilesOfOurs) {
  long abi = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (abi < 1) GTEST_SKIP() << "the kernel has no Landlock";
  testing::TempDir dir;
  std::string file = dir.file("secret");
  Fd made(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
  ASSERT_OK(write_all(made.get(), as_bytes("secret")));
  EXPECT_EQ(perl("open(F, '<', '" + file + "') or print 'no'; print <F>").output, "no");
  EXPECT_EQ(perl("opendir(D, '" + dir.path() + "') or print 'no'").output, "no");
  EXPECT_EQ(perl("open(F, '>', '" + dir.file("new") + "') or print 'no'").output, "no");
  EXPECT_EQ(perl("open(F, '<', '/etc/passwd') or print 'no'").output, "no");
  EXPECT_EQ(perl("unlink('" + file + "') or print 'no'").output, "no");
}

TEST(Confined, ItChangesNoFileThatItsUserMayChange) {
  testing::TempDir dir;
  std::string file = dir.file("thesis");
  Fd made(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
  ASSERT_OK(write_all(made.get(), as_bytes("thesis")));
  if (::geteuid() == 0) {  // it is nobody then
    ASSERT_EQ(::chown(dir.path().c_str(), 65534, 65534), 0);
    ASSERT_EQ(::chown(file.c_str(), 65534, 65534), 0);
  }
  EXPECT_EQ(perl("truncate('" + file + "', 0) or print 'no'").output, "no");
  EXPECT_EQ(perl("chmod(0, '" + file + "') or print 'no'").output, "no");
  EXPECT_EQ(perl("chmod(0, '" + dir.path() + "') or print 'no'").output, "no");
  EXPECT_EQ(perl("chown($>, $) + 0, '" + file + "') or print 'no'").output, "no");
  EXPECT_EQ(perl("utime(1, 1, '" + file + "') or print 'no'").output, "no");
  struct stat info {};
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 6);
  EXPECT_EQ(info.st_mode & 07777, 0644U);
}

TEST(Confined, ItChangesNotTheModeOfItsInput) {
  testing::TempDir dir;
  std::string file = dir.file("input");
  Fd made(::open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
  if (::geteuid() == 0) {
    ASSERT_EQ(::fchown(made.get(), 65534, 65534), 0);
  }
  Fd input(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  Result<Captured> done = run_confined({"perl", "-e", "chmod(0, \\*STDIN) or print 'no'"}, input.get());
  ASSERT_OK(done);
  EXPECT_EQ(done->output, "no");
}

TEST(Confined, ItReachesNobody) {
  EXPECT_EQ(perl("use Socket; socket(S, AF_INET, SOCK_STREAM, 0) or print 'no'").output, "no");
  EXPECT_EQ(perl("use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0) or print 'no'").output, "no");
  EXPECT_EQ(perl("defined(fork) or print 'no'").output, "no");
  EXPECT_EQ(perl("kill(0, getppid) or print 'no'").output, "no");
  EXPECT_EQ(perl("print $> == 0 ? 'root' : 'not root'").output, "not root");
}

TEST(Confined, ItHasNoOtherDescriptors) {
  testing::TempDir dir;
  Fd open(::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY));  // NOLINT: not closed on exec, on purpose
  EXPECT_EQ(perl("for my $fd (3..255) { print $fd if -d \"/proc/self/fd/$fd/.\" }").output, "");
}

TEST(Confined, ItsLimitsHold) {
  EXPECT_NE(perl("my $x = 'x' x 300_000_000; print 'got it'", {.memory_bytes = std::uint64_t{128} << 20}).output,
            "got it");
  Captured much = perl("$| = 1; print 'x' x 1000 for 1..1000; print 'end'", {.output_bytes = 100'000});
  EXPECT_NE(much.status, 0);
  EXPECT_LE(much.output.size(), 100'000U);
  Fd input = input_of("");
  EXPECT_EQ(error_of(run_confined({"perl", "-e", "sleep 600"}, input.get(), {.time = std::chrono::seconds(1)})),
            Code::kTimeout);
}

}  // namespace
}  // namespace warren
