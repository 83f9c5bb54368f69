#include "cli/mount/mount_helper.h"

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren::cli {
namespace {

using testing::error_of;
using Words = std::vector<std::string>;

Result<Words> words_of(const Words& given) { return mount_words(given); }

TEST(MountHelper, IsRecognisedByItsName) {
  EXPECT_TRUE(is_mount_helper("mount.warren"));
  EXPECT_TRUE(is_mount_helper("mount.fuse.warren"));
  for (const char* other : {"warren", "agentfs", "mount", "mount.warren2"}) EXPECT_FALSE(is_mount_helper(other));
}

TEST(MountHelper, PassesOnSourceAndDirectory) {
  EXPECT_EQ(words_of({"/a.db", "/mnt"}).value(), (Words{"mount", "--", "/a.db", "/mnt"}));
}

TEST(MountHelper, TranslatesSupportedOptions) {
  EXPECT_EQ(
      words_of({"/a.db", "/mnt", "-o", "ro,allow_other,auto_unmount,uid=5,gid=6"}).value(),
      (Words{"mount", "--allow-other", "--auto-unmount", "--uid=5", "--gid=6", "--read-only", "--", "/a.db", "/mnt"}));
  EXPECT_EQ(words_of({"/a.db", "/mnt", "-o", "noexec,sync,dirsync,passthrough"}).value(),
            (Words{"mount", "--passthrough", "--no-exec", "--sync", "--", "/a.db", "/mnt"}));
  EXPECT_EQ(words_of({"-oallow_root", "/a.db", "/mnt"}).value(),
            (Words{"mount", "--allow-root", "--", "/a.db", "/mnt"}));
}

TEST(MountHelper, IgnoresOptionsOfMountItself) {
  EXPECT_EQ(words_of({"/a.db", "/mnt", "-s", "-n", "-v", "-t", "fuse.warren", "-o",
                      "rw,nofail,noauto,_netdev,x-systemd.automount,comment=a", "-o", "defaults,,nosuid"})
                .value(),
            (Words{"mount", "--", "/a.db", "/mnt"}));
}

TEST(MountHelper, OfAPairTheLastOneCounts) {
  EXPECT_EQ(words_of({"/a.db", "/mnt", "-o", "ro,noexec,rw,exec"}).value(), (Words{"mount", "--", "/a.db", "/mnt"}));
  EXPECT_EQ(words_of({"/a.db", "/mnt", "-o", "sync,async"}).value(), (Words{"mount", "--", "/a.db", "/mnt"}));
  EXPECT_EQ(words_of({"/a.db", "/mnt", "-o", "exec,rw", "-o", "noexec,ro"}).value(),
            (Words{"mount", "--read-only", "--no-exec", "--", "/a.db", "/mnt"}));
}

TEST(MountHelper, TakesTheCommonOptionsOfFstab) {
  EXPECT_EQ(words_of({"/a.db", "/mnt", "-o",
                      "user,user=alice,users,owner,group,strictatime,lazytime,relatime,noatime,nodiratime,suid,dev,"
                      "default_permissions,fsname=notes,subtype=warren,x-mount.mkdir,X-any,uhelper=udisks2"})
                .value(),
            (Words{"mount", "--", "/a.db", "/mnt"}));
}

TEST(MountHelper, RefusesToRemount) {
  EXPECT_EQ(error_of(words_of({"/a.db", "/mnt", "-o", "remount,ro"})), Code::kInvalid);
}

TEST(MountHelper, NamesAnUnknownOption) {
  Result<Words> refused = words_of({"/a.db", "/mnt", "-o", "ro,data=journal"});
  ASSERT_EQ(error_of(refused), Code::kInvalid);
  EXPECT_NE(refused.error().message().find("'data=journal'"), std::string::npos) << refused.error().message();
  EXPECT_FALSE(refused.error().hint().empty());
}

TEST(MountHelper, TakesExactlySourceAndDirectory) {
  EXPECT_EQ(error_of(words_of({})), Code::kInvalid);
  EXPECT_EQ(error_of(words_of({"/a.db"})), Code::kInvalid);
  EXPECT_EQ(error_of(words_of({"/a.db", "-o", "ro"})), Code::kInvalid);
  EXPECT_EQ(error_of(words_of({"/a.db", "/mnt", "/more"})), Code::kInvalid);
}

}  // namespace
}  // namespace warren::cli
