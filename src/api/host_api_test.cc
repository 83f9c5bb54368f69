// The library as a client of a host.
#include <sys/eventfd.h>

#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <warren/v1/host.h>

#include "base/clock.h"
#include "host/host.h"
#include "os/files/host_files.h"
#include "store/store.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"
#include "trust/key_file.h"

namespace warren {
namespace {

using ::testing::ElementsAre;
using testing::error_of;

class HostedVfsTest : public ::testing::Test {
 protected:
  HostedVfsTest() {
    if (const char* given = std::getenv("XDG_RUNTIME_DIR")) runtime_before_ = given;
    ::setenv("XDG_RUNTIME_DIR", dir_.path().c_str(), 1);
    EXPECT_OK(make_host_dirs(dir_.file("agents"), 0700));
    EXPECT_OK(TrustFile(dir_.file("trust")).change([&](TrustState& state) {
      return state.add_key(issuer_.public_key(), {});
    }));
    for (const char* agent : {"owner", "peer"}) {
      Ed25519Private key = Ed25519Private::generate();
      EXPECT_OK(write_key_files(dir_.file(agent), key));
      Manifest manifest;
      manifest.identity = agent;
      manifest.key = key.public_key();
      manifest.issued_at = clock_.now().seconds;
      manifest.expires_at = manifest.issued_at + 1000;
      manifest.level = TrustLevel::kTrusted;
      manifest.scopes = {"outbox:read"};
      manifest.sign(issuer_);
      EXPECT_OK(TrustFile(dir_.file("trust")).change([&](TrustState& state) -> Status {
        WARREN_TRY(state.accept(manifest, manifest.issued_at));
        return Ok{};
      }));
      StoreOptions fresh{.mode = OpenMode::kCreate};
      EXPECT_OK(Store::open(dir_.file("agents/" + std::string(agent) + ".db"), fresh, clock_));
    }
    Result<std::unique_ptr<Host>> host = Host::open(
        {.socket = dir_.file("s"), .folder = dir_.file("agents"), .trust_folder = dir_.file("trust")}, clock_);
    EXPECT_OK(host);
    host_ = std::move(host).take_value();
    thread_ = std::thread([this] { EXPECT_OK(host_->serve(stop_.get())); });
  }
  ~HostedVfsTest() override {
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
    host_.reset();
    if (runtime_before_) ::setenv("XDG_RUNTIME_DIR", runtime_before_->c_str(), 1);
    else ::unsetenv("XDG_RUNTIME_DIR");
  }

  Result<std::unique_ptr<v1::HostedVfs>> connect(const std::string& agent, const std::string& key) {
    return v1::HostedVfs::connect({.socket = dir_.file("s"), .agent = agent, .key_file = dir_.file(key)});
  }

  testing::TempDir dir_;
  std::optional<std::string> runtime_before_;
  SystemClock clock_;
  Ed25519Private issuer_ = Ed25519Private::generate();
  Fd stop_{::eventfd(0, EFD_CLOEXEC)};
  std::unique_ptr<Host> host_;
  std::thread thread_;
};

TEST_F(HostedVfsTest, S7_3_TwoAgentsThroughTheLibrary) {
  auto owner = connect("owner", "owner").take_value();
  auto peer = connect("peer", "peer").take_value();
  ASSERT_OK(owner->write("/ipc/outbox/result.json", R"({"answer": 42})"));
  EXPECT_EQ(*peer->read("/agent/owner/ipc/outbox/result.json"), R"({"answer": 42})");
  EXPECT_THAT(*peer->list("/agent/owner/ipc/outbox"), ElementsAre("result.json"));
  EXPECT_THAT(*peer->list("/agent"), ElementsAre("owner", "peer"));
  EXPECT_EQ(error_of(peer->read("/agent/owner/mem/working/x")), Code::kNotFound);
  EXPECT_EQ(error_of(peer->write("/agent/owner/ipc/outbox/result.json", "{}")), Code::kNotFound);
  EXPECT_EQ(error_of(connect("owner", "peer")), Code::kDenied);
  EXPECT_EQ(error_of(connect("nobody", "peer")), Code::kDenied);
  EXPECT_EQ(error_of(connect("peer", "peer.pub")), Code::kDenied);  // open to others
}

TEST_F(HostedVfsTest, AnAgentsOwnNamespace) {
  auto vfs = connect("owner", "owner").take_value();
  ASSERT_OK(vfs->write("/mem/working/a", "one", {.time_to_live = std::chrono::hours(1)}));
  ASSERT_OK(vfs->append("/mem/episodic/log.jsonl", R"({"n": 1})"));
  EXPECT_EQ(*vfs->read("/mem/episodic/log.jsonl"), "{\"n\":1}\n");
  EXPECT_TRUE(*vfs->exists("/mem/working/a"));
  EXPECT_EQ(vfs->stat("/mem/working/a")->attributes.size, 3U);
  EXPECT_TRUE(vfs->stat("/mem/working/a")->expires_at_ms.has_value());
  EXPECT_EQ(error_of(vfs->write("/mem/working/bad.json", "{")), Code::kInvalid);
  EXPECT_EQ(error_of(vfs->write("/policy/x", "")), Code::kDenied);
  EXPECT_EQ(error_of(vfs->write("/x", "", {.time_to_live = std::chrono::milliseconds(0)})), Code::kInvalid);
  ASSERT_OK(vfs->remove("/mem/working/a"));
  EXPECT_EQ(error_of(vfs->remove("/mem/working/a")), Code::kNotFound);
  EXPECT_OK(vfs->remove("/mem/working/a", {.force = v1::Force::kYes}));
  ASSERT_OK(vfs->write("/mem/semantic/cat.json", R"({"text": "cat", "embedding": [1, 0], "metadata": {"legs": 4}})"));
  Result<std::vector<v1::VfsMatch>> found =
      vfs->query("/mem/semantic", {.embedding = {1, 0}, .top_k = 3, .filter = R"({"legs": 4})"});
  ASSERT_OK(found);
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(found->front().path, "/mem/semantic/cat.json");
  EXPECT_EQ(found->front().metadata, R"({"legs":4})");
}

}  // namespace
}  // namespace warren
