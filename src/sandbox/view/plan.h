// The layout of the inside of a sandbox, derived from the user's options.
//
// Everything of the host is read-only inside, except: the base and the user's home are copy-on-write, of the home only
// a part is shown, scratch directories are private and empty, allowed paths are the host's own and writable, hidden
// paths show nothing, and readable ones are visible again inside something hidden. docs/design/sandbox.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sandbox/view/home_view.h"

namespace warren {

enum class DefaultAllows {
  kNone,
  kSignIns,  // the files that hold the sign-in of known agents
  kAgentFs,  // these, and the directories that AgentFS allows: ~/.cache, ~/.claude, ~/.local and others
};

struct PlanOptions {
  std::string base;  // as the user typed it, like the following:
  std::vector<std::string> allow;
  std::vector<std::string> read;
  std::vector<std::string> hide;
  DefaultAllows default_allows = DefaultAllows::kSignIns;
  HomeView home_view = HomeView::kTools;
  std::vector<std::string> homes;            // directories that hold a user's secrets; the first one is $HOME
  std::vector<std::string> homes_of_others;  // hidden
  std::vector<std::string> guarded;          // always hidden: directories of agent files
  // Keys and the operator's settings, and links that lead to them: always hidden, and no allowed directory may contain
  // one, since the command could move the directories between.
  std::vector<std::string> operator_places;
  std::string namespace_id;  // whose namespace is mounted; "": none
  bool has_network = true;
  bool is_root = false;  // hides /home, /root, and what only root can read
};

struct Plan {
  enum class Kind {
    kScratch,
    kHidden,
    kAllowed,
    kReadable,
    kBase,
    kHome,    // the user's home, copy-on-write in a layer of its own
    kListed,  // a directory with hidden entries, present or future, shown entry by entry (sandbox/view/listed_dir.h)
  };
  struct Place {
    std::string path;  // canonical
    Kind kind = Kind::kHidden;
    bool is_directory = true;
  };

  // The home as a layer of its own. Not if it is in the base, or if --allow or --hide names it.
  struct Home {
    std::string path;  // canonical
    HomeView view = HomeView::kTools;
    MadeHomeView shown;

    // A file of the layer that is also written outside. Both paths are relative to the home; they differ if the user
    // has a link there.
    struct SignIn {
      std::string inside;
      std::string outside;
    };
    std::vector<SignIn> sign_ins;
    struct KeptSignIn {
      std::string name;
      std::string why;
    };
    std::vector<KeptSignIn> kept_sign_ins;  // which stay in the layer, because of where a link leads
  };

  std::string base;  // canonical
  std::optional<Home> home;
  std::vector<Place> places;        // inner ones after outer ones; a kListed one may share its path with another
  std::vector<std::string> absent;  // hidden paths that do not exist yet: they never show in a listed directory
  bool has_network = true;
  bool has_proxy = false;  // without the network: programs inside reach a proxy outside
  // Where the agent's namespace is mounted: "/agent/ID", or "/run/agent/ID" on a host that has an /agent of its own.
  std::optional<std::string> namespace_path;
  std::optional<std::uint64_t> processes_max;
  std::optional<std::uint64_t> scratch_bytes;  // of each scratch directory

  std::vector<std::string> paths_of(Kind kind) const;
  bool is_in_home(const std::string& path) const;  // in the layer of the home, and not in the base
  bool is_served(const std::string& path) const;   // in the base or in the layer of the home
  // The allowed directory around the path, where the host's own files are; null if another place is nearer.
  const Place* find_allowed_around(const std::string& path) const;
  std::size_t filesystems() const;  // how many are served: the base, the home's layer, the namespace
  bool needs_own_root() const;      // for a directory in "/" that the host does not have
};

// kInvalid, kNotFound, kNotDirectory: the message names the path and its option.
Result<Plan> make_plan(const PlanOptions& options);

// Whether `path` is `dir` or below it. Both must be canonical.
bool is_within(const std::string& path, const std::string& dir);

}  // namespace warren
