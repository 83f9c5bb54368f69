// The public API for sessions and changes.
#include <warren/v1/agent.h>
#include <warren/v1/changes.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "os/files/host_files.h"
#include "store/overlay/overlay_schema.h"
#include "store/store.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;

class ChangesApi : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("HOME", dir.file("home").c_str(), 1);
    std::filesystem::create_directories(dir.file("home"));
    std::filesystem::create_directories(base + "/d");
    put(base + "/f", "one\ntwo\nthree\nfour\nfive\n");
    put(base + "/d/x", "x\n");
    SystemClock clock;
    auto store = Store::open(path, {.mode = OpenMode::kCreate}, clock).value();
    ASSERT_OK(make_overlay(*store, base));
  }
  void TearDown() override { ::setenv("HOME", old_home.c_str(), 1); }

  static void put(const std::string& file, std::string_view text) { std::ofstream(file) << text; }
  static std::string get(const std::string& file) {
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  void change(const std::string& file, std::string_view text) {
    auto agent = v1::Agent::open({.path = path}).value();
    ASSERT_OK(agent->files().write_file(file, text));
  }
  std::unique_ptr<v1::Changes> open() { return v1::Changes::open({.id = path}).value(); }
  v1::ApplyOptions trusting() { return {.trusted_base = base}; }

  testing::TempDir dir;
  std::string base = canonical_host_path(dir.path()).value() + "/base";
  std::string path = dir.file("a.db");
  std::string old_home = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
};

TEST_F(ChangesApi, AFileThatGitHasNotMergedInTheSessionIsAConflict) {
  std::filesystem::create_directories(base + "/.git/objects");
  put(base + "/.git/HEAD", "ref: refs/heads/main\n");
  std::string entry = std::string(60, 'x') + '\x10' + '\1' + "f" + '\0';  // stage 1
  std::string index = std::string("DIRC\0\0\0\2\0\0\0\1", 12) + entry;
  change("/f", "<<<<<<<\n");
  change("/.git/index", index);
  auto changes = open();
  v1::ApplyResult result = changes->apply(trusting()).value();
  ASSERT_EQ(result.conflicts.size(), 1U);
  EXPECT_EQ(result.conflicts[0].path, "/f");
  EXPECT_EQ(get(base + "/f"), "one\ntwo\nthree\nfour\nfive\n");
  v1::ApplyOptions taking = trusting();
  taking.on_conflict = v1::OnConflict::kTakeAgent;
  EXPECT_TRUE(changes->apply(taking).value().conflicts.empty());
  EXPECT_EQ(get(base + "/f"), "<<<<<<<\n");
}

TEST_F(ChangesApi, ListsWhatDiffers) {
  {
    auto agent = v1::Agent::open({.path = path}).value();
    ASSERT_OK(agent->files().write_file("/f", "changed"));
    ASSERT_OK(agent->files().write_file("/new/n", "12345"));
    ASSERT_OK(agent->files().remove("/d/x"));
  }
  auto changes = open();
  EXPECT_EQ(changes->base(), base);
  std::vector<v1::Change> all = changes->list().value();
  std::vector<std::pair<v1::ChangeKind, std::string>> found;
  for (const v1::Change& one : all) found.emplace_back(one.kind, one.path);
  EXPECT_THAT(found, ::testing::ElementsAre(
                         std::pair(v1::ChangeKind::kDeleted, "/d/x"), std::pair(v1::ChangeKind::kModified, "/f"),
                         std::pair(v1::ChangeKind::kAdded, "/new"), std::pair(v1::ChangeKind::kAdded, "/new/n")));
  EXPECT_EQ(all[2].type, v1::NodeType::kDirectory);
  EXPECT_EQ(all[3].size_bytes, 5U);
  EXPECT_TRUE(all[1].is_content_changed);
  EXPECT_EQ(changes->list({.paths = {"new"}}).value().size(), 2U);
  EXPECT_EQ(changes->list({.paths = {"/new"}, .excluded = {"n"}}).value().size(), 1U);
  EXPECT_EQ(error_of(changes->list({.paths = {"nwe"}})), Code::kNotFound);
  std::string patch = changes->patch({.paths = {"f"}}).value();
  EXPECT_THAT(patch, ::testing::HasSubstr("+changed"));
  EXPECT_THAT(patch, ::testing::Not(::testing::HasSubstr("12345")));
}

TEST_F(ChangesApi, AppliesOnlyToABaseThatSomebodyAgreedTo) {
  change("/f", "changed");
  auto changes = open();
  EXPECT_EQ(error_of(changes->apply()), Code::kDenied);
  EXPECT_EQ(error_of(changes->apply({.trusted_base = dir.path()})), Code::kDenied);
  EXPECT_EQ(get(base + "/f"), "one\ntwo\nthree\nfour\nfive\n");
  v1::ApplyResult done = changes->apply(trusting()).value();
  EXPECT_EQ(done.applied.size(), 1U);
  EXPECT_TRUE(done.can_be_undone);
  EXPECT_EQ(get(base + "/f"), "changed");
  EXPECT_TRUE(changes->list().value().empty());
  change("/f", "again");
  ASSERT_OK(changes->apply());  // agreed to already
  EXPECT_EQ(get(base + "/f"), "again");
  EXPECT_TRUE(changes->apply().value().applied.empty());
}

TEST_F(ChangesApi, ARehearsalWritesNothing) {
  change("/f", "changed");
  v1::ApplyOptions options = trusting();
  options.rehearse = v1::Rehearse::kYes;
  EXPECT_EQ(open()->apply(options).value().applied.size(), 1U);
  EXPECT_EQ(get(base + "/f"), "one\ntwo\nthree\nfour\nfive\n");
  EXPECT_EQ(open()->list().value().size(), 1U);
  EXPECT_EQ(error_of(open()->apply()), Code::kDenied);  // nor did it agree to the base
}

TEST_F(ChangesApi, ConflictsStopMergeMarkOrAreOverwritten) {
  change("/f", "ONE\ntwo\nthree\nfour\nfive\n");
  put(base + "/f", "one\ntwo\nthree\nfour\nFIVE\n");
  v1::ApplyOptions options = trusting();
  v1::ApplyResult stopped = open()->apply(options).value();
  ASSERT_EQ(stopped.conflicts.size(), 1U);
  EXPECT_EQ(stopped.conflicts[0].path, "/f");
  EXPECT_TRUE(stopped.applied.empty());
  options.on_conflict = v1::OnConflict::kMerge;
  v1::ApplyResult merged = open()->apply(options).value();
  EXPECT_THAT(merged.merged, ::testing::ElementsAre("/f"));
  EXPECT_EQ(get(base + "/f"), "ONE\ntwo\nthree\nfour\nFIVE\n");

  change("/f", "1\ntwo\nthree\nfour\nFIVE\n");
  put(base + "/f", "uno\ntwo\nthree\nfour\nFIVE\n");
  EXPECT_EQ(open()->apply(options).value().conflicts.size(), 1U);  // the same line
  options.on_conflict = v1::OnConflict::kMark;
  v1::ApplyResult marked = open()->apply(options).value();
  EXPECT_THAT(marked.marked, ::testing::ElementsAre("/f"));
  EXPECT_THAT(get(base + "/f"), ::testing::HasSubstr("<<<<<<<"));

  change("/d/x", "agent\n");
  put(base + "/d/x", "base\n");
  options.on_conflict = v1::OnConflict::kTakeAgent;
  ASSERT_OK(open()->apply(options));
  EXPECT_EQ(get(base + "/d/x"), "agent\n");
}

TEST_F(ChangesApi, FilesThatRunByThemselvesNeedConsent) {
  change("/.envrc", "rm -rf /\n");
  v1::ApplyOptions options = trusting();
  EXPECT_FALSE(open()->list().value()[0].remarks.empty());
  EXPECT_EQ(error_of(open()->apply(options)), Code::kDenied);
  EXPECT_FALSE(std::filesystem::exists(base + "/.envrc"));
  options.self_running = v1::SelfRunning::kApply;
  ASSERT_OK(open()->apply(options));
  EXPECT_TRUE(std::filesystem::exists(base + "/.envrc"));
}

TEST_F(ChangesApi, WhatIsDiscardedShowsTheBaseAgain) {
  change("/f", "changed");
  change("/d/x", "changed");
  std::vector<v1::Change> dropped = open()->discard({.paths = {"f"}}).value();
  ASSERT_EQ(dropped.size(), 1U);
  EXPECT_EQ(dropped[0].path, "/f");
  EXPECT_EQ(v1::Agent::open({.path = path}).value()->files().read_file("/f").value(), "one\ntwo\nthree\nfour\nfive\n");
  EXPECT_EQ(error_of(open()->discard({.paths = {"f"}})), Code::kNotFound);
  EXPECT_EQ(open()->discard().value().size(), 1U);
}

TEST_F(ChangesApi, AnAgentWithoutABaseHasNoChanges) {
  std::string plain = dir.file("plain.db");
  ASSERT_OK(v1::Agent::open({.path = plain}));
  EXPECT_EQ(error_of(v1::Changes::open({.id = plain})), Code::kInvalid);
  EXPECT_EQ(error_of(v1::Changes::open({.id = dir.file("missing.db")})), Code::kNotFound);
}

TEST_F(ChangesApi, SessionsAreListedRenamedAndDeleted) {
  EXPECT_TRUE(v1::list_sessions().value().empty());
  std::string session = dir.file("home/.agentfs/run/fix");
  std::filesystem::create_directories(session);
  std::filesystem::rename(path, session + "/delta.db");
  put(session + "/base_path", base);
  std::vector<v1::Session> all = v1::list_sessions().value();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].id, "fix");
  EXPECT_EQ(all[0].base, base);
  EXPECT_FALSE(all[0].is_running);
  ASSERT_OK(v1::Agent::open({.path = all[0].file}).value()->files().write_file("/f", "changed"));
  EXPECT_EQ(v1::Changes::open({.id = "session:fix"}).value()->list().value().size(), 1U);
  ASSERT_OK(v1::rename_session("fix", "done"));
  EXPECT_EQ(error_of(v1::rename_session("fix", "done")), Code::kNotFound);
  ASSERT_OK(v1::delete_session("done"));
  EXPECT_TRUE(v1::list_sessions().value().empty());
}

}  // namespace
}  // namespace warren
