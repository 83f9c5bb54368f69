// A store whose file is encrypted: the parts that open the file again must have its key.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fs/path_ops.h"
#include "store/files/sqlite_fs.h"
#include "store/fsck/fsck.h"
#include "store/info.h"
#include "store/migrate.h"
#include "store/store.h"
#include "store/tables/kv.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

constexpr std::string_view kHidden = "nobody may read this";

class EncryptedStoreTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<Store>> open(StoreOptions options) {
    options.key = key_;
    options.find_key = find_key();
    return Store::open(file_, options, clock_);
  }

  KeyFinder find_key() {
    return [key = key_](std::string_view) -> Result<SharedDatabaseKey> { return key; };
  }

  // With grouped commits the keeper checkpoints on a connection of its own.
  void fill() {
    auto store = open({.mode = OpenMode::kCreate, .durability = Durability::kProcess, .commits = Commits::kGrouped});
    ASSERT_OK(store);
    std::string content;
    while (content.size() < 300'000) content += kHidden;
    for (int i = 0; i < 40; ++i) {
      ASSERT_OK(write_file((*store)->fs(), fmt::format("/file-{}", i), as_bytes(content)));
    }
    ASSERT_OK((*store)->database().sync());
    EXPECT_FALSE(is_readable(file_ + "-wal"));
    ASSERT_OK((*store)->close());
  }

  static bool is_readable(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream content;
    content << file.rdbuf();
    return content.str().find(kHidden) != std::string::npos || content.str().find("fs_inode") != std::string::npos;
  }

  testing::TempDir dir_;
  testing::FakeClock clock_;
  std::string file_ = dir_.file("a.db");
  SharedDatabaseKey key_ = std::make_shared<const DatabaseKey>(std::string(32, 'k'), std::string(16, 's'));
};

TEST_F(EncryptedStoreTest, WhatAMountWroteIsReadAgainAndIsNowhereReadable) {
  fill();
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    EXPECT_FALSE(is_readable(entry.path())) << entry.path();
  }
  auto store = open({.mode = OpenMode::kReadOnly});
  ASSERT_OK(store);
  EXPECT_TRUE(read_file((*store)->fs(), "/file-39").value().starts_with(kHidden));
  EXPECT_TRUE(describe_agent(**store).value().is_encrypted);
}

TEST_F(EncryptedStoreTest, CheckingRepairingMigratingAndBackingUpNeedTheKeyAndWorkWithIt) {
  fill();
  EXPECT_EQ(error_of(Store::open(file_, {}, clock_)), Code::kDenied);
  EXPECT_EQ(error_of(check_agent(file_, clock_)), Code::kDenied);
  EXPECT_EQ(error_of(repair_agent(file_, clock_)), Code::kDenied);
  EXPECT_EQ(error_of(migrate_agent(file_, DryRun::kYes)), Code::kDenied);
  EXPECT_TRUE(check_agent(file_, clock_, find_key()).value().clean());
  EXPECT_TRUE(migrate_agent(file_, DryRun::kNo, find_key()).value().steps.empty());
  ASSERT_OK(open({}).value()->backup_to(dir_.file("copy.db")));
  EXPECT_FALSE(is_readable(dir_.file("copy.db")));
  EXPECT_TRUE(check_agent(dir_.file("copy.db"), clock_, find_key()).value().clean());
}

TEST_F(EncryptedStoreTest, ARepairMakesAnEncryptedBackup) {
  fill();
  ASSERT_OK(open({}).value()->database().execute("DELETE FROM fs_dentry WHERE name = 'file-7'"));
  Result<RepairReport> repaired = repair_agent(file_, clock_, find_key());
  ASSERT_OK(repaired);
  EXPECT_TRUE(repaired->after.clean());
  ASSERT_FALSE(repaired->backup_path.empty());
  EXPECT_FALSE(is_readable(repaired->backup_path));
}

}  // namespace
}  // namespace warren
