#include "sandbox/view/home_view.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/path.h"
#include "os/files/host_files.h"
#include "sandbox/view/home_rules.h"
#include "sandbox/view/plan.h"

namespace warren {
namespace {

constexpr int kLinksMax = 8;

using Names = std::set<std::string, std::less<>>;

std::optional<Names> list_home_dir(const std::string& path) {
  Result<Fd> dir = open_host_dir(path);
  if (!dir.ok()) return std::nullopt;
  Result<std::vector<HostEntry>> entries = list_host_dir(dir->get());
  if (!entries.ok()) return std::nullopt;
  Names names;
  for (const HostEntry& entry : *entries) names.insert(entry.name);
  return names;
}

// What editors and people call a copy of a file that they are about to change, and log rotation an old one.
constexpr std::array<std::string_view, 8> kCopySuffixes{"~", ".bak", ".backup", ".old", ".orig", ".save", ".swp", ".1"};

class HomeViewBuilder {
 public:
  explicit HomeViewBuilder(const HomeViewOptions& options) : options_(options) {}

  MadeHomeView make() {
    bool shows_all = options_.view == HomeView::kAll;
    auto view = std::make_shared<PathView>(shows_all ? PathView::Others::kShown : PathView::Others::kHidden);
    if (!shows_all) {
      for (std::string_view name : home_tools()) show_with_links(std::string(name));
    }
    for (std::string_view name : home_secrets()) {
      if (is_opened(std::string(name))) continue;
      add(std::string(name), Action::kHide);
      for (std::string_view suffix : kCopySuffixes) add(fmt::format("{}{}", name, suffix), Action::kHide);
    }
    for (const std::string& path : options_.hidden) add(in_home(path), Action::kHide);
    for (const std::string& path : options_.opened) add(in_home(path), Action::kShow);
    for (const std::string& path : options_.mount_points) add(in_home(path), Action::kShowEmpty);
    for (const std::string& path : options_.guarded) {
      bool is_below = std::any_of(options_.guarded.begin(), options_.guarded.end(),
                                  [&](const std::string& other) { return path != other && is_within(path, other); });
      if (!is_below) add(in_home(path), Action::kRefuse);
    }
    apply(*view);
    view->hide_names(is_secret_name, {".env", ".env.local", ".envrc"});
    view->freeze([&](const std::string& path) { return list_home_dir(join_path(options_.home, path)); });
    MadeHomeView made;
    for (const std::string& name : list_home_dir(options_.home).value_or(Names())) {
      if (!view->shows(name)) made.hidden_entries.push_back(name);
    }
    made.view = std::move(view);
    return made;
  }

 private:
  enum class Action { kShow, kShowEmpty, kHide, kRefuse };
  struct Step {
    std::string path;
    Action action;
  };

  std::string in_home(const std::string& path) const { return path_in_home(path, options_.home); }

  // Naming the whole home does not open the secrets in it.
  bool is_opened(const std::string& name) const {
    return std::any_of(options_.opened.begin(), options_.opened.end(), [&](const std::string& path) {
      return path != options_.home && is_within(join_path(options_.home, name), path);
    });
  }

  void add(std::string path, Action action) {
    if (!path.empty()) steps_.push_back({std::move(path), action});
  }

  // Settings are often links into a repository of them, which is not shown as a whole.
  void show_with_links(const std::string& name) {
    add(name, Action::kShow);
    std::string path = join_path(options_.home, name);
    for (int links = 0; links < kLinksMax; ++links) {
      Result<std::optional<struct stat>> there = find_host_link(path);
      if (!there.ok() || !*there) return;
      if (!S_ISLNK((*there)->st_mode)) break;
      std::string parent(directory_of(path));
      Result<Fd> dir = open_host_dir(parent);
      if (!dir.ok()) return;
      Result<std::string> target = read_host_link_below(dir->get(), base_name(path));
      if (!target.ok()) return;
      std::string whole = target->starts_with('/') ? *target : join_path(parent, *target);
      Result<std::string> canonical = canonical_host_path(std::string(directory_of(whole)));
      if (!canonical.ok()) return;
      path = join_path(*canonical, base_name(whole));
      show_target(path);
    }
    Result<std::string> canonical = canonical_host_path(path);
    if (canonical.ok()) show_target(*canonical);
  }

  void show_target(const std::string& path) {
    if (path == options_.home || !is_within(path, options_.home)) return;
    bool is_secret = std::any_of(home_secrets().begin(), home_secrets().end(), [&](std::string_view secret) {
      std::string hidden = join_path(options_.home, secret);
      return is_within(path, hidden) || is_within(hidden, path);
    });
    bool is_tool = std::find(home_tools().begin(), home_tools().end(), in_home(path)) != home_tools().end();
    if (!is_secret && !is_tool) add(in_home(path), Action::kShow);
  }

  // Outer paths first; of two steps for one path the last one counts. Nothing is shown below a mount point.
  void apply(PathView& view) {
    auto depth = [](const Step& step) { return std::count(step.path.begin(), step.path.end(), '/'); };
    std::stable_sort(steps_.begin(), steps_.end(), [&](const Step& a, const Step& b) { return depth(a) < depth(b); });
    for (const Step& step : steps_) {
      std::string path = join_path(options_.home, step.path);
      bool is_below_mount = std::any_of(options_.mount_points.begin(), options_.mount_points.end(),
                                        [&](const std::string& at) { return path != at && is_within(path, at); });
      if (is_below_mount && step.action != Action::kShowEmpty) continue;
      switch (step.action) {
        case Action::kShow: view.show(step.path); break;
        case Action::kShowEmpty: view.show_empty(step.path); break;
        case Action::kHide: view.hide(step.path); break;
        case Action::kRefuse: view.refuse(step.path); break;
      }
    }
  }

  const HomeViewOptions& options_;
  std::vector<Step> steps_;
};

}  // namespace

MadeHomeView make_home_view(const HomeViewOptions& options) { return HomeViewBuilder(options).make(); }

std::string path_in_home(const std::string& path, const std::string& home) {
  return path.size() > home.size() ? path.substr(home.size() + 1) : std::string();
}

}  // namespace warren
