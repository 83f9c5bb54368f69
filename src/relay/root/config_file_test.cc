#include "relay/root/config_file.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include "os/files/host_files.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::relay {
namespace {

class ConfigFileTest : public ::testing::Test {
 protected:
  void write(std::string_view text) { ASSERT_OK(replace_host_file(root->path() + "/config.json", text, 0600)); }

  ::warren::testing::TempDir dir;
  std::unique_ptr<Root> root = std::move(Root::open(dir.file("r"), MakeRoot::kYes)).value();
};

TEST_F(ConfigFileTest, AChangeIsSeenThroughTheSameReferenceAndReportedOnce) {
  write(R"({"rate_per_second": 5})");
  auto file = std::move(ConfigFile::open(*root)).value();
  const Config& config = file->now();
  EXPECT_EQ(config.rate_per_second, 5);
  EXPECT_FALSE(file->reread());
  write(R"({"rate_per_second": 6, "lead": "boss"})");
  auto change = file->reread();
  ASSERT_TRUE(change);
  EXPECT_FALSE(change->error);
  EXPECT_TRUE(change->postponed.empty());
  EXPECT_EQ(config.rate_per_second, 6);
  EXPECT_EQ(config.lead, "boss");
  EXPECT_FALSE(file->reread());
}

TEST_F(ConfigFileTest, ABadFileChangesNothingAndAGoodOneEndsTheError) {
  write(R"({"rate_per_second": 5})");
  auto file = std::move(ConfigFile::open(*root)).value();
  write(R"({"rate_per_secnd": 6})");
  auto change = file->reread();
  ASSERT_TRUE(change && change->error);
  EXPECT_NE(change->error->message().find("'rate_per_secnd'"), std::string::npos);
  EXPECT_EQ(file->now().rate_per_second, 5);
  EXPECT_FALSE(file->reread());  // reported already
  write("{");
  change = file->reread();
  EXPECT_TRUE(change && change->error);
  write(R"({"rate_per_second": 5})");  // as it was
  change = file->reread();
  ASSERT_TRUE(change);
  EXPECT_FALSE(change->error);
}

TEST_F(ConfigFileTest, WhatIsFixedAtTheStartIsPostponed) {
  auto file = std::move(ConfigFile::open(*root)).value();
  write(R"({"metrics": 9464, "ledger": "postgres://u@h/d", "archive_days": 3})");
  auto change = file->reread();
  ASSERT_TRUE(change);
  EXPECT_EQ(change->postponed, (std::vector<std::string>{"ledger", "metrics"}));
  EXPECT_EQ(file->now().metrics, "");
  EXPECT_EQ(file->now().ledger, "");
  EXPECT_EQ(file->now().archive_days, 3);
}

TEST_F(ConfigFileTest, ALinkIsRefusedAsWhatItIs) {
  ASSERT_OK(replace_host_file(dir.file("elsewhere"), "{}", 0600));
  std::string config = root->path() + "/config.json";
  ASSERT_EQ(::unlink(config.c_str()), 0);
  ASSERT_EQ(::symlink(dir.file("elsewhere").c_str(), config.c_str()), 0);
  Result<std::unique_ptr<ConfigFile>> file = ConfigFile::open(*root);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code(), Code::kInvalid);
  EXPECT_EQ(file.error().message(), "config.json is a symbolic link, and must be a regular file");
}

TEST_F(ConfigFileTest, AMissingFileChangesNothing) {
  write(R"({"rate_per_second": 5})");
  auto file = std::move(ConfigFile::open(*root)).value();
  ASSERT_EQ(::unlink((root->path() + "/config.json").c_str()), 0);
  EXPECT_FALSE(file->reread());
  EXPECT_EQ(file->now().rate_per_second, 5);
}

TEST_F(ConfigFileTest, AFaultIsGoneWithTheFileThatHasIt) {
  write(R"({"rate_per_second": 5})");
  auto file = std::move(ConfigFile::open(*root)).value();
  write(R"({"leed": "x"})");
  std::optional<ConfigFile::Change> change = file->reread();
  ASSERT_TRUE(change && change->error);
  std::string remark = config_refusal(*change->error);
  ASSERT_EQ(::unlink((root->path() + "/config.json").c_str()), 0);
  EXPECT_EQ(current_config_remark(*root, remark), "");
  change = file->reread();
  ASSERT_TRUE(change);
  EXPECT_TRUE(change->is_removed);
  EXPECT_FALSE(change->error);
  EXPECT_EQ(file->now().rate_per_second, 5);
  EXPECT_FALSE(file->reread());
}

}  // namespace
}  // namespace warren::relay
