#include "relay/root/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "os/files/host_files.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

class LogTest : public ::testing::Test {
 protected:
  LogTest() : folder(std::move(open_host_dir(dir.path())).value()) {}
  std::vector<Json> lines(std::string_view name) {
    Result<std::string> text = read_host_file(dir.file(name), 1 << 20);
    std::vector<Json> out;
    if (!text.ok()) return out;
    for (std::size_t at = 0; at < text->size();) {
      std::size_t end = text->find('\n', at);
      out.push_back(std::move(parse_json(std::string_view(*text).substr(at, end - at))).value());
      at = end + 1;
    }
    return out;
  }

  ::warren::testing::TempDir dir;
  ::warren::testing::FakeClock clock;
  Fd folder;
};

TEST_F(LogTest, ALineHasTimeSeverityAndEvent) {
  Log log(folder.get(), 1 << 20, clock);
  log.note(Severity::kInfo, "started", {{"pid", 5}});
  log.note(Severity::kWarning, "w");
  log.note(Severity::kError, "e", {{"name", "a\nb"}});
  std::vector<Json> all = lines("relay.log");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0], (Json{{"ts", "2023-11-14T22:13:20.000000Z"}, {"level", "info"}, {"event", "started"}, {"pid", 5}}));
  EXPECT_EQ(all[1]["level"], "warning");
  EXPECT_EQ(all[2]["name"], "a\nb");
  EXPECT_TRUE(lines("audit.log").empty());
}

TEST_F(LogTest, SecurityEventsAreInBothFilesWhichArePrivate) {
  Log log(folder.get(), 1 << 20, clock);
  log.audit("strange_file", {{"agent", "a"}});
  EXPECT_EQ(lines("audit.log"), lines("relay.log"));
  EXPECT_EQ(lines("audit.log").at(0)["event"], "strange_file");
  EXPECT_EQ((*find_host_file(dir.file("audit.log")))->st_mode & 07777, 0600U);
}

TEST_F(LogTest, ANewLogAppendsToTheOldLines) {
  { Log(folder.get(), 1 << 20, clock).note(Severity::kInfo, "one"); }
  Log(folder.get(), 1 << 20, clock).note(Severity::kInfo, "two");
  EXPECT_EQ(lines("relay.log").size(), 2U);
}

TEST_F(LogTest, AFullFileIsRotatedAndNoLineIsCutOrLost) {
  Log log(folder.get(), 1000, clock);
  for (int i = 0; i < 15; ++i) log.note(Severity::kInfo, "x", {{"number", i}});
  std::vector<Json> old = lines("relay.log.1");
  std::vector<Json> now = lines("relay.log");
  EXPECT_FALSE(old.empty());
  EXPECT_FALSE(now.empty());
  EXPECT_LE((*find_host_file(dir.file("relay.log")))->st_size, 1000);
  EXPECT_LE((*find_host_file(dir.file("relay.log.1")))->st_size, 1000);
  EXPECT_EQ(now.back()["number"], 14);
  EXPECT_EQ(now.front()["number"].get<int>(), old.back()["number"].get<int>() + 1);
}

TEST_F(LogTest, NewOptionsCountFromTheNextLineOn) {
  Log log(folder.get(), 1 << 20, clock);
  log.note(Severity::kDebug, "unheard");
  log.set_options(100, {Severity::kDebug, 2});
  log.note(Severity::kDebug, "heard", {{"text", std::string(60, 'x')}});
  log.note(Severity::kInfo, "rotates", {{"text", std::string(60, 'x')}});
  ASSERT_EQ(lines("relay.log").size(), 1U);
  EXPECT_EQ(lines("relay.log")[0]["event"], "rotates");
  EXPECT_EQ(lines("relay.log.1").at(0)["event"], "heard");
}

TEST_F(LogTest, AFileThatCannotBeWrittenStopsNothing) {
  ASSERT_EQ(::mkdir(dir.file("relay.log").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("/dev/full", dir.file("audit.log").c_str()), 0);
  Log log(folder.get(), 1000, clock);
  log.audit("x", {{"a", 1}});
  ASSERT_EQ(::rmdir(dir.file("relay.log").c_str()), 0);
  log.note(Severity::kInfo, "y");
  EXPECT_EQ(lines("relay.log").at(0)["event"], "y");
}

}  // namespace
}  // namespace warren::relay
