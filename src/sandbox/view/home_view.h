// Builds the view of the user's home that a run gets, under the layer that keeps the run's own changes to it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/path_view.h"

namespace warren {

enum class HomeView {
  kTools,  // only tools and settings without secrets (sandbox/view/home_rules.h)
  kAll,    // everything but secrets
};

struct HomeViewOptions {
  std::string home;  // canonical; all paths are below it
  HomeView view = HomeView::kTools;
  std::vector<std::string> opened;        // shown on request, with everything in it
  std::vector<std::string> hidden;        // hidden on request
  std::vector<std::string> mount_points;  // something is mounted there: shown, but empty
  std::vector<std::string> guarded;       // hidden whatever was requested, and not to be created
};

struct MadeHomeView {
  std::shared_ptr<const PathView> view;     // shared with the filesystem that uses it
  std::vector<std::string> hidden_entries;  // names in the home itself that it does not show
};

// Reads directories of the home. One that cannot be read shows nothing new.
MadeHomeView make_home_view(const HomeViewOptions& options);

// "a/b" for "/home/u/a/b"; "" for the home itself.
std::string path_in_home(const std::string& path, const std::string& home);

}  // namespace warren
