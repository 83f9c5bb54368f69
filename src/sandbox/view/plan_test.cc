#include "sandbox/view/plan.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;
using Kind = Plan::Kind;

// A home with secrets and caches, and a project in it.
class PlanTest : public ::testing::Test {
 protected:
  PlanTest() {
    root_ = std::filesystem::canonical(dir_.path()).string();
    home_ = root_ + "/home";
    base_ = home_ + "/project";
    for (const char* path : {"home/project", "home/.ssh", "home/.cache", "home/.local/share/keyrings",
                             "home/.local/bin", "home/.config/gh", "home/.agentfs/run/s", "other"}) {
      std::filesystem::create_directories(root_ + "/" + path);
    }
    std::ofstream(home_ + "/.netrc") << "x";
    std::ofstream(home_ + "/.ssh/config") << "x";
    options_ = {.base = base_, .homes = {home_}, .guarded = {home_ + "/.agentfs"}};
  }

  Plan plan() {
    Result<Plan> made = make_plan(options_);
    if (!made.ok()) ADD_FAILURE() << made.error().message();
    return made.ok() ? *made : Plan();
  }

  std::optional<Kind> kind_of(const std::string& path) {
    for (const Plan::Place& place : plan().places) {
      if (place.path == path) return place.kind;
    }
    return std::nullopt;
  }

  // "INSIDE", or "INSIDE>OUTSIDE" where they differ.
  std::vector<std::string> sign_ins() {
    std::vector<std::string> all;
    const Plan made = plan();
    for (const Plan::Home::SignIn& one : made.home->sign_ins) {
      all.push_back(one.inside == one.outside ? one.inside : one.inside + ">" + one.outside);
    }
    return all;
  }

  std::optional<Code> error() { return error_of(make_plan(options_)); }

  testing::TempDir dir_;
  std::string root_;
  std::string home_;
  std::string base_;
  PlanOptions options_;
};

TEST(IsWithin, GoesByWholeComponents) {
  EXPECT_TRUE(is_within("/a/b", "/a"));
  EXPECT_TRUE(is_within("/a", "/a"));
  EXPECT_TRUE(is_within("/a", "/"));
  EXPECT_FALSE(is_within("/ab", "/a"));
  EXPECT_FALSE(is_within("/a", "/a/b"));
}

TEST_F(PlanTest, NoAllowedDirectoryContainsAPlaceOfTheOperator) {
  std::filesystem::create_directories(home_ + "/.config/warren");
  std::filesystem::create_directories(root_ + "/dot/keys");
  std::filesystem::create_symlink(root_ + "/dot/keys", root_ + "/other/keys");
  options_.operator_places = {home_ + "/.config/warren", root_ + "/dot/keys", root_ + "/other/keys"};
  EXPECT_EQ(kind_of(home_ + "/.config/warren"), Kind::kHidden);
  EXPECT_EQ(kind_of(root_ + "/dot/keys"), Kind::kHidden);
  EXPECT_EQ(kind_of(root_ + "/other/keys"), std::nullopt);
  for (const std::string& path : {home_, home_ + "/.config", home_ + "/.config/warren", root_ + "/dot",
                                  root_ + "/other", root_ + "/other/keys"}) {
    options_.allow = {path};
    EXPECT_EQ(error(), Code::kInvalid) << path;
  }
  options_.allow = {home_ + "/.config/gh"};
  EXPECT_EQ(error(), std::nullopt);
  options_.allow = {};
  options_.base = root_ + "/dot/keys";
  EXPECT_EQ(error(), Code::kInvalid);
}

TEST_F(PlanTest, TheAllowedDirectoryAroundAPathIsFoundUnlessAnotherPlaceIsNearer) {
  std::filesystem::create_directories(home_ + "/work/secret/deep");
  options_.allow = {home_ + "/work"};
  options_.hide = {home_ + "/work/secret"};
  Plan made = plan();
  const Plan::Place* around = made.find_allowed_around(home_ + "/work/secret");
  ASSERT_NE(around, nullptr);
  EXPECT_EQ(around->path, home_ + "/work");
  EXPECT_EQ(made.find_allowed_around(home_ + "/work/secret/deep"), nullptr);
  EXPECT_EQ(made.find_allowed_around(home_ + "/.ssh"), nullptr);
}

TEST_F(PlanTest, TheHomeIsALayerAndSecretsAreHidden) {
  EXPECT_EQ(plan().base, base_);
  EXPECT_EQ(kind_of(home_ + "/.ssh"), Kind::kHidden);
  EXPECT_EQ(kind_of(home_ + "/.netrc"), Kind::kHidden);
  EXPECT_EQ(kind_of(home_ + "/.config/gh"), Kind::kHidden);
  EXPECT_EQ(kind_of(home_ + "/.local/share/keyrings"), Kind::kHidden);
  EXPECT_EQ(kind_of(home_ + "/.agentfs"), Kind::kHidden);
  EXPECT_EQ(kind_of(home_), Kind::kHome);
  EXPECT_EQ(kind_of(home_ + "/.cache"), std::nullopt);
  EXPECT_EQ(plan().paths_of(Kind::kAllowed), std::vector<std::string>());
  EXPECT_EQ(kind_of("/tmp"), Kind::kScratch);
}

TEST_F(PlanTest, OfTheHomeOnlyToolsAndSettingsAreShown) {
  std::filesystem::create_directories(home_ + "/.cargo/bin");
  std::ofstream(home_ + "/notes") << "x";
  Plan made = plan();
  ASSERT_TRUE(made.home);
  const PathView& view = *made.home->shown.view;
  EXPECT_TRUE(view.shows(".gitconfig"));
  EXPECT_TRUE(view.shows(".cargo/bin/later"));  // its directory has no hidden names
  EXPECT_FALSE(view.shows(".cargo/later"));     // this one has
  EXPECT_TRUE(view.shows("project"));
  EXPECT_FALSE(view.shows("project/file"));  // the base is mounted there
  EXPECT_FALSE(view.shows("notes"));
  EXPECT_FALSE(view.shows(".ssh"));
  EXPECT_FALSE(view.shows(".cargo/credentials.toml"));
  EXPECT_FALSE(view.shows(".agentfs"));
  EXPECT_TRUE(PathView::refuses(view.root(), ".agentfs"));
  EXPECT_EQ(made.home->shown.hidden_entries.size(), 4U);  // .agentfs .netrc .ssh notes
  options_.home_view = HomeView::kAll;
  made = plan();
  EXPECT_TRUE(made.home->shown.view->shows("notes"));
  EXPECT_FALSE(made.home->shown.view->shows("later"));
  EXPECT_FALSE(made.home->shown.view->shows(".netrc"));
}

TEST_F(PlanTest, ReadingAndAllowingOpenTheViewOfTheHome) {
  options_.read = {home_ + "/.ssh/config"};
  options_.allow = {home_ + "/.cache"};
  const Plan made = plan();
  EXPECT_TRUE(made.home->shown.view->shows(".ssh/config"));
  EXPECT_FALSE(made.home->shown.view->shows(".ssh/id"));
  EXPECT_TRUE(made.home->shown.view->shows(".cache"));
  EXPECT_FALSE(made.home->shown.view->shows(".cache/x"));
  EXPECT_EQ(kind_of(home_ + "/.cache"), Kind::kAllowed);
}

TEST_F(PlanTest, AHomeThatTheUserDecidedAboutHasNoLayer) {
  options_.allow = {home_};
  EXPECT_FALSE(plan().home);
  options_.allow = {};
  options_.hide = {home_};
  EXPECT_FALSE(plan().home);
  options_.hide = {};
  options_.base = home_;
  EXPECT_FALSE(plan().home);
  options_.base = root_;
  EXPECT_FALSE(plan().home);
  options_.base = base_;
  options_.read = {home_};
  EXPECT_EQ(plan().home->view, HomeView::kAll);
}

TEST_F(PlanTest, SignInsAreWrittenThroughUnlessTheyAreAllowedOrRefused) {
  std::vector<std::string> all = sign_ins();
  EXPECT_NE(std::find(all.begin(), all.end(), ".claude/.credentials.json"), all.end());
  std::filesystem::create_directories(home_ + "/.claude");
  options_.allow = {home_ + "/.claude"};
  EXPECT_EQ(sign_ins().size(), all.size() - 1);
  options_.default_allows = DefaultAllows::kNone;
  EXPECT_TRUE(sign_ins().empty());
}

TEST_F(PlanTest, ALinkedSignInIsWrittenToAFileOfItsNameInTheHomeOnly) {
  namespace files = std::filesystem;
  for (const char* dir : {"/.codex", "/.qwen", "/dotfiles/codex", "/dotfiles/claude", "/.ssh"}) {
    files::create_directories(home_ + dir);
  }
  for (const char* file : {"/dotfiles/codex/auth.json", "/dotfiles/settings.json"}) std::ofstream(home_ + file) << "{}";
  files::create_symlink("../dotfiles/codex/auth.json", home_ + "/.codex/auth.json");
  files::create_directory_symlink("dotfiles/claude", home_ + "/.claude");  // the file itself is not there yet
  const Plan made = plan();
  std::vector<std::string> written = sign_ins();
  for (const char* one :
       {".codex/auth.json>dotfiles/codex/auth.json", "dotfiles/codex/auth.json",
        ".claude/.credentials.json>dotfiles/claude/.credentials.json", "dotfiles/claude/.credentials.json"}) {
    EXPECT_NE(std::find(written.begin(), written.end(), one), written.end()) << one;
  }
  EXPECT_TRUE(made.home->kept_sign_ins.empty());
  EXPECT_TRUE(made.home->shown.view->shows("dotfiles/codex/auth.json"));
  EXPECT_FALSE(made.home->shown.view->shows("dotfiles/settings.json"));

  std::ofstream(root_ + "/auth.json") << "{}";
  std::ofstream(base_ + "/auth.json") << "{}";
  for (const std::string& target : {home_ + "/dotfiles/settings.json", root_ + "/auth.json", base_ + "/auth.json",
                                    home_ + "/nowhere/auth.json", home_ + "/.ssh/auth.json"}) {
    std::ofstream(home_ + "/.ssh/auth.json") << "{}";
    files::remove(home_ + "/.codex/auth.json");
    files::create_symlink(target, home_ + "/.codex/auth.json");
    const Plan other = plan();
    ASSERT_EQ(other.home->kept_sign_ins.size(), 1U) << target;
    EXPECT_EQ(other.home->kept_sign_ins[0].name, ".codex/auth.json");
    EXPECT_NE(other.home->kept_sign_ins[0].why.find("link"), std::string::npos);
    for (const Plan::Home::SignIn& one : other.home->sign_ins) EXPECT_NE(one.inside, ".codex/auth.json") << target;
  }
}

TEST_F(PlanTest, AnotherHomeOfTheUserIsHiddenAsAWhole) {
  options_.homes = {root_ + "/other", home_};
  EXPECT_EQ(kind_of(root_ + "/other"), Kind::kHome);
  EXPECT_EQ(kind_of(home_), Kind::kHidden);
  options_.read = {home_};
  EXPECT_NE(kind_of(home_), Kind::kHidden);
}

TEST_F(PlanTest, ALinkInThePlaceOfASecretDoesNotHideTheSystem) {
  for (const char* target : {"/usr", "/", "/proc", "/tmp"}) {
    std::filesystem::remove(home_ + "/.gnupg");
    std::filesystem::create_directory_symlink(target, home_ + "/.gnupg");
    EXPECT_NE(kind_of(target), Kind::kHidden) << target;
  }
  std::filesystem::remove(home_ + "/.gnupg");
  std::filesystem::create_directory_symlink(root_, home_ + "/.gnupg");
  EXPECT_NE(kind_of(root_), Kind::kHidden);
}

TEST_F(PlanTest, WhatLiesInsideAnotherComesAfterIt) {
  options_.allow = {home_};
  std::vector<Plan::Place> places = plan().places;
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(places[j].path != places[i].path && is_within(places[j].path, places[i].path))
          << places[j].path << " before " << places[i].path;
    }
  }
}

TEST_F(PlanTest, AgentFsAllowsAllOfLocal) {
  options_.default_allows = DefaultAllows::kAgentFs;
  EXPECT_EQ(kind_of(home_ + "/.local"), Kind::kAllowed);
  options_.default_allows = DefaultAllows::kNone;
  EXPECT_EQ(kind_of(home_ + "/.local"), std::nullopt);
  EXPECT_EQ(kind_of(home_ + "/.cache"), std::nullopt);
}

TEST_F(PlanTest, AHiddenPathThatIsAskedForIsNotHidden) {
  options_.read = {home_ + "/.ssh"};
  EXPECT_NE(kind_of(home_ + "/.ssh"), Kind::kHidden);
  options_.read = {home_ + "/.config"};
  EXPECT_NE(kind_of(home_ + "/.config/gh"), Kind::kHidden);
  EXPECT_EQ(kind_of(home_ + "/.ssh"), Kind::kHidden);
}

TEST_F(PlanTest, APathInAHiddenOneIsPutBack) {
  options_.read = {home_ + "/.ssh/config"};
  EXPECT_EQ(kind_of(home_ + "/.ssh"), Kind::kHidden);
  EXPECT_EQ(kind_of(home_ + "/.ssh/config"), Kind::kReadable);
  EXPECT_EQ(kind_of(root_ + "/other"), std::nullopt);
}

TEST_F(PlanTest, AskingForTheHomeIsNoWordAboutItsSecrets) {
  options_.allow = {home_};
  EXPECT_EQ(kind_of(home_), Kind::kAllowed);
  EXPECT_EQ(kind_of(home_ + "/.ssh"), Kind::kHidden);
  EXPECT_EQ(kind_of(home_ + "/.agentfs"), Kind::kHidden);
}

TEST_F(PlanTest, LinksAreFollowedToWhatTheyMean) {
  std::filesystem::create_directory_symlink(root_ + "/other", home_ + "/.aws");
  EXPECT_EQ(kind_of(root_ + "/other"), Kind::kHidden);
  std::filesystem::create_directory_symlink(home_ + "/.agentfs", home_ + "/.npm");
  EXPECT_EQ(kind_of(home_ + "/.agentfs"), Kind::kHidden);
  options_.allow = {home_ + "/.npm"};
  EXPECT_EQ(error(), Code::kInvalid);
}

TEST_F(PlanTest, WhatMakesNoSenseIsRefused) {
  auto refuses = [&](Code code, PlanOptions options) {
    options_ = std::move(options);
    EXPECT_EQ(error(), code);
  };
  PlanOptions good = options_;
  auto with = [&](auto change) {
    PlanOptions changed = good;
    change(changed);
    return changed;
  };
  refuses(Code::kInvalid, with([](PlanOptions& o) { o.base = "/"; }));
  refuses(Code::kInvalid, with([](PlanOptions& o) { o.base = "/proc"; }));
  refuses(Code::kInvalid, with([](PlanOptions& o) { o.base = ""; }));
  refuses(Code::kNotFound, with([&](PlanOptions& o) { o.base = root_ + "/none"; }));
  refuses(Code::kNotDirectory, with([&](PlanOptions& o) { o.base = home_ + "/.netrc"; }));
  refuses(Code::kInvalid, with([&](PlanOptions& o) { o.base = home_ + "/.agentfs/run"; }));
  refuses(Code::kInvalid, with([&](PlanOptions& o) { o.allow = {base_}; }));
  refuses(Code::kInvalid, with([&](PlanOptions& o) { o.hide = {base_}; }));
  refuses(Code::kInvalid, with([&](PlanOptions& o) { o.read = {home_ + "/.agentfs/run/s"}; }));
  refuses(Code::kNotFound, with([&](PlanOptions& o) { o.hide = {root_ + "/none"}; }));
}

TEST_F(PlanTest, ADirectoryOfSecretsIsListedWhereItShowsAndNobodyMayWriteIntoIt) {
  std::vector<std::string> none;
  EXPECT_EQ(plan().paths_of(Kind::kListed), none);  // it is in /tmp, which is private inside
  options_.homes = {root_ + "/other", home_};       // not the one that has a layer
  options_.home_view = HomeView::kAll;
  options_.read = {home_};
  EXPECT_EQ(plan().paths_of(Kind::kListed),
            (std::vector{home_, home_ + "/.cache", home_ + "/.config", home_ + "/.local", home_ + "/.local/share"}));
  std::vector<Plan::Place> places = plan().places;
  auto at = [&](Kind kind) {
    return std::find_if(places.begin(), places.end(),
                        [&](const Plan::Place& place) { return place.path == home_ && place.kind == kind; });
  };
  EXPECT_LT(at(Kind::kReadable), at(Kind::kListed));
  options_.read.clear();
  options_.allow = {home_};
  EXPECT_EQ(plan().paths_of(Kind::kListed), none);
  options_.allow.clear();
  options_.base = home_;
  EXPECT_EQ(plan().paths_of(Kind::kListed), none);
}

TEST_F(PlanTest, SecretsThatAreNotThereYetAreNamed) {
  options_.homes = {root_ + "/other", home_};
  options_.home_view = HomeView::kAll;
  options_.read = {home_};
  std::vector<std::string> absent = plan().absent;
  auto has = [&](const std::string& name) {
    return std::find(absent.begin(), absent.end(), home_ + name) != absent.end();
  };
  EXPECT_TRUE(has("/.aws"));
  EXPECT_TRUE(has("/.config/gcloud"));
  EXPECT_TRUE(has("/.terraform.d"));  // its future content is not searched in this run
  EXPECT_FALSE(has("/.ssh"));
  EXPECT_FALSE(has("/.config"));
  options_.allow = {home_};
  EXPECT_TRUE(plan().absent.empty());
}

TEST_F(PlanTest, TheSameTwiceIsTheSame) {
  options_.allow = {root_ + "/other", root_ + "/./other/", root_ + "/home/../other"};
  std::vector<std::string> allowed = plan().paths_of(Kind::kAllowed);
  EXPECT_EQ(std::count(allowed.begin(), allowed.end(), root_ + "/other"), 1);
}

}  // namespace
}  // namespace warren
