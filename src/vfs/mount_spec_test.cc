#include "vfs/mount_spec.h"

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren {
namespace {

using ::warren::testing::error_of;

TEST(MountSpec, IsAPathAndABackend) {
  Result<MountSpec> spec = parse_mount("/mem/./notes/=exec:./backend --a=b", "/here");
  ASSERT_OK(spec);
  EXPECT_EQ(spec->path, "/mem/notes");
  EXPECT_EQ(spec->backend, "exec:./backend --a=b");
  EXPECT_EQ(spec->directory, "/here");
  EXPECT_OK(parse_mount("/policyX=memory:", "/")) << "mount points are whole components";
}

TEST(MountSpec, RefusesPlacesThatBelongToTheAgent) {
  for (const char* bad :
       {"/policy=memory:", "/policy/x=memory:", "/audit=memory:", "//audit/./y=memory:", "/=memory:",
        "/agent/x=memory:", "mem=memory:", "=memory:", "/mem/../policy=memory:", "/mem/working", "/mem=", ""}) {
    EXPECT_EQ(error_of(parse_mount(bad, "/")), Code::kInvalid) << bad;
  }
}

TEST(MountSpec, RefusesAPasswordThatIsWrittenOut) {
  Result<MountSpec> spec = parse_mount("/mem/x=redis://user:geheim@host", "/");
  ASSERT_EQ(error_of(spec), Code::kInvalid);
  EXPECT_EQ((spec.error().message() + spec.error().hint()).find("geheim"), std::string::npos);
  EXPECT_OK(parse_mount("/mem/x=redis://user:${PASSWORD}@host", "/"));
  for (const char* bad : {"/x=postgres://u@h/db?password=geheim", "/x=redis+sentinel://h/n?sentinel_password=geheim",
                          "/x=postgres://h/db?prefix=a&p%61ssword=geheim", "/x=postgres://h?sslPassword=geheim#x",
                          "/x=postgres://u:@h/db?password=${A}geheim", "/x=postgres://h/db?%zz=geheim"}) {
    EXPECT_EQ(error_of(parse_mount(bad, "/")), Code::kInvalid) << bad;
  }
  EXPECT_OK(parse_mount("/mem/x=postgres://u@h/db?password=${PASSWORD}&prefix=a", "/"));
  EXPECT_OK(parse_mount("/mem/x=redis://h/0?prefix=a:b@c", "/"));
  EXPECT_OK(parse_mount("/mem/x=redis://user@host", "/"));
  EXPECT_OK(parse_mount("/mem/x=exec:./a --login a:b@c", "/"));
}

TEST(MountSpec, VariablesAreReplacedInAddressesOfServices) {
  Variables variables = [](std::string_view name) -> std::optional<std::string> {
    if (name == "SECRET") return "p@ss/word";
    return std::nullopt;
  };
  EXPECT_EQ(expand_address("redis://u:${SECRET}@h/0", variables).value(), "redis://u:p%40ss%2Fword@h/0");
  EXPECT_EQ(expand_address("exec:echo ${SECRET}", variables).value(), "exec:echo ${SECRET}");
  EXPECT_EQ(error_of(expand_address("redis://u:${OTHER}@h", variables)), Code::kInvalid);
  EXPECT_EQ(error_of(expand_address("redis://u:${SECRET@h", variables)), Code::kInvalid);
}

TEST(MountSpec, ATableHasPathAndBackend) {
  Json good = parse_json(R"({"mount": [{"path": "/a", "backend": "memory:"},
                                       {"path": "/b", "backend": "redis://h", "password_env": "P"}]})")
                  .value();
  Result<std::vector<MountSpec>> mounts = parse_mount_table(good, "/dir");
  ASSERT_OK(mounts);
  ASSERT_EQ(mounts->size(), 2U);
  EXPECT_EQ((*mounts)[1].password_env, "P");
  for (const char* bad : {R"({"mounts": []})", R"({"mount": {"path": "/a"}})", R"({"mount": [{"path": "/a"}]})",
                          R"({"mount": [{"backend": "memory:"}]})", R"({"mount": [{"path": 1, "backend": "memory:"}]})",
                          R"({"mount": [{"path": "/a", "backend": "memory:", "pasword_env": "X"}]})",
                          R"({"mount": [{"path": "/a", "backend": "memory:", "password_env": "X"}]})",
                          R"({"mount": [{"path": "/a", "backend": "memory:"}, {"path": "/a/", "backend": "memory:"}]})",
                          R"({"mount": [3]})"}) {
    EXPECT_EQ(error_of(parse_mount_table(parse_json(bad).value(), "/")), Code::kInvalid) << bad;
  }
}

}  // namespace
}  // namespace warren
