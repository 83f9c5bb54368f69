// A view of another agent (Caller::grants): what it was not granted does not exist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fs/memory/memory_fs.h"
#include "fs/path_ops.h"
#include "fs/tree_ops.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "vfs/grants.h"
#include "vfs/guard_fs.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

using ::testing::ElementsAre;
using testing::error_of;

constexpr Rights kReading = Rights::kRead | Rights::kList;

TEST(Grants, HoldForWholeNamesAndWhatIsBelow) {
  Grants grants;
  EXPECT_TRUE(grants.is_empty());
  grants.add("/mem/a", kReading);
  grants.add("/mem/a/b", Rights::kDelete);
  EXPECT_EQ(grants.at("/mem/a"), kReading);
  EXPECT_EQ(grants.at("/mem/a/b/c"), kReading | Rights(Rights::kDelete));
  EXPECT_TRUE(grants.at("/mem/ab").is_empty());
  EXPECT_TRUE(grants.at("/mem").is_empty());
  EXPECT_TRUE(grants.leads_through("/"));
  EXPECT_TRUE(grants.leads_through("/mem"));
  EXPECT_FALSE(grants.leads_through("/me"));
  EXPECT_FALSE(grants.leads_through("/mem/b"));
}

class PeerTest : public ::testing::Test {
 protected:
  PeerTest() {
    space_ = Namespace::open(own_, working_, {.agent = "owner"}, clock_).take_value();
    for (const char* path : {"/mem/semantic/secret", "/mem/semantic/public/one", "/mem/semantic/public/two"}) {
      EXPECT_OK(write_file(own_, path, as_bytes("x")));
    }
  }

  std::unique_ptr<NamespaceView> peer(std::vector<std::pair<std::string, Rights>> granted) {
    Grants grants;
    for (auto& [path, rights] : granted) grants.add(path, rights);
    return space_->view({.agent = "peer",
                         .space = Space::kUser,
                         .door = "test",
                         .session = {},
                         .grants = std::make_shared<const Grants>(std::move(grants))});
  }

  testing::FakeClock clock_;
  MemoryFs own_{clock_};
  MemoryFs working_{clock_};
  std::unique_ptr<Namespace> space_;
};

TEST_F(PeerTest, S6_1_WhatWasNotGrantedDoesNotExist) {
  auto view = peer({{"/mem/semantic/public", kReading}});
  EXPECT_EQ(*read_file(*view, "/mem/semantic/public/one"), "x");
  EXPECT_THAT(*read_dir(*view, "/mem/semantic/public"), ElementsAre("one", "two"));
  for (const char* path : {"/mem/semantic/secret", "/mem/semantic/missing", "/state", "/policy", "/mem/working"}) {
    EXPECT_EQ(error_of(stat(*view, path)), Code::kNotFound) << path;
    EXPECT_EQ(error_of(read_file(*view, path)), Code::kNotFound) << path;
    EXPECT_EQ(error_of(write_file(*view, path, as_bytes("y"))), Code::kNotFound) << path;
  }
  // Directories on the way are walked through, and not listed.
  EXPECT_EQ(error_of(read_dir(*view, "/mem/semantic")), Code::kNotFound);
  EXPECT_EQ(error_of(read_dir(*view, "/")), Code::kNotFound);
  Attributes dir = *stat(*view, "/mem/semantic");
  EXPECT_FALSE(*view->has_rights(dir.inode));
  EXPECT_TRUE(*view->has_rights(stat(*view, "/mem/semantic/public")->inode));
  EXPECT_EQ(error_of(write_file(*view, "/mem/semantic/public/one", as_bytes("y"))), Code::kNotFound);
  EXPECT_EQ(error_of(unlink(*view, "/mem/semantic/public/one")), Code::kNotFound);
  EXPECT_EQ(error_of(rename(*view, "/mem/semantic/public/one", "/mem/semantic/public/three")), Code::kNotFound);
}

TEST_F(PeerTest, S6_1_ANumberDoesNotLeadToAHiddenNode) {
  auto view = peer({{"/mem/semantic/public", kReading}});
  EXPECT_OK(stat(*view, "/mem/semantic/public"));
  Attributes secret = *stat(own_, "/mem/semantic/secret");
  EXPECT_FALSE(view->get_attributes(secret.inode).ok());
  std::string out(4, '\0');
  EXPECT_FALSE(view->read(secret.inode, 0, as_mutable_bytes(out)).ok());
}

TEST_F(PeerTest, S6_1_ThePolicyNarrowsWhatWasGranted) {
  auto view = peer({{"/mem/semantic", kAllRights}});
  EXPECT_OK(write_file(*view, "/mem/semantic/new", as_bytes("n")));
  clock_.advance_ns(1'000);
  ASSERT_OK(LivePolicy::replace(own_, R"({"version": 1, "rules": [
      {"agent": "peer", "space": "peer", "path": "/mem/semantic/secret", "effect": "deny"},
      {"space": "peer", "operation": "write", "path": "/mem/semantic/public", "effect": "deny"},
      {"agent": "other", "space": "peer", "path": "/", "effect": "deny"}]})",
                                "test", clock_));
  EXPECT_THAT(*read_dir(*view, "/mem/semantic"), ElementsAre("new", "public"));
  EXPECT_EQ(error_of(read_file(*view, "/mem/semantic/secret")), Code::kNotFound);
  EXPECT_OK(read_file(*view, "/mem/semantic/public/one"));
  EXPECT_EQ(error_of(write_file(*view, "/mem/semantic/public/one", as_bytes("y"))), Code::kNotFound);
  auto owner = space_->view({.agent = "owner", .space = Space::kUser, .door = "test", .session = {}});
  EXPECT_OK(write_file(*owner, "/mem/semantic/public/one", as_bytes("y")));
  EXPECT_OK(read_file(*owner, "/mem/semantic/secret"));
}

TEST_F(PeerTest, S6_1_RemovingATreeEndsWhereSomethingIsRefusedOrHidden) {
  constexpr RemoveOptions kWhole{.recursive = Recursive::kYes};
  auto reader = peer({{"/mem/semantic/public", kReading}});
  EXPECT_EQ(error_of(remove(*reader, "/mem/semantic/public", kWhole)), Code::kNotFound);
  auto writer = peer({{"/mem/semantic/public", Rights::kAppend | Rights::kCreate}});
  EXPECT_EQ(error_of(remove(*writer, "/mem/semantic/public", kWhole)), Code::kNotFound);
  EXPECT_THAT(*read_dir(own_, "/mem/semantic/public"), ElementsAre("one", "two"));
  clock_.advance_ns(1'000);
  ASSERT_OK(LivePolicy::replace(own_, R"({"version": 1, "rules": [
      {"space": "peer", "path": "/mem/semantic/public/two", "effect": "deny"}]})",
                                "test", clock_));
  auto remover = peer({{"/mem/semantic/public", kReading | Rights(Rights::kDelete)}});
  EXPECT_EQ(error_of(remove(*remover, "/mem/semantic/public", kWhole)), Code::kNotEmpty);
  EXPECT_TRUE(*exists(own_, "/mem/semantic/public/two"));
}

TEST_F(PeerTest, S6_1_RulesForTheAgentHoldForOthersToo) {
  clock_.advance_ns(1'000);
  ASSERT_OK(LivePolicy::replace(
      own_, R"({"version": 1, "rules": [{"space": "user", "operation": "write", "path": "/", "effect": "deny"}]})",
      "test", clock_));
  auto view = peer({{"/", kAllRights}});
  EXPECT_EQ(error_of(write_file(*view, "/mem/semantic/new", as_bytes("n"))), Code::kNotFound);
}

TEST_F(PeerTest, S7_3_APeerReadsTheOutboxAndNeverWritesIt) {
  ASSERT_OK(write_file(own_, "/ipc/outbox/result", as_bytes("42")));
  ASSERT_OK(write_file(own_, "/ipc/inbox/mail", as_bytes("m")));
  auto view = peer({{"/", kAllRights}});
  EXPECT_EQ(*read_file(*view, "/ipc/outbox/result"), "42");
  EXPECT_THAT(*read_dir(*view, "/ipc/outbox"), ElementsAre("result"));
  EXPECT_EQ(error_of(write_file(*view, "/ipc/outbox/result", as_bytes("43"))), Code::kNotFound);
  EXPECT_EQ(error_of(write_file(*view, "/ipc/outbox/new", as_bytes("43"))), Code::kNotFound);
  EXPECT_EQ(error_of(unlink(*view, "/ipc/outbox/result")), Code::kNotFound);
  EXPECT_EQ(error_of(read_file(*view, "/ipc/inbox/mail")), Code::kNotFound);
  EXPECT_EQ(error_of(read_dir(*view, "/policy")), Code::kNotFound);
  EXPECT_THAT(*read_dir(*view, "/"), ElementsAre("ipc", "mem", "state"));
  EXPECT_THAT(*read_dir(*view, "/ipc"), ElementsAre("outbox"));
}

}  // namespace
}  // namespace warren
