// The layout of the inside of a sandbox, derived from the user's options.
//
// Everything of the host is read-only inside, except: the base is copy-on-write, scratch directories are private and
// empty, allowed paths are the host's own and writable, hidden paths show nothing, and readable ones are visible again
// inside something hidden. docs/design/sandbox.md.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace warren {

enum class DefaultAllows {
  kNone,
  kWarren,   // caches and data of programs, but not ~/.local/bin: programs put there run outside later
  kAgentFs,  // all of ~/.local, like AgentFS
};

struct PlanOptions {
  std::string base;  // as the user typed it, like the following:
  std::vector<std::string> allow;
  std::vector<std::string> read;
  std::vector<std::string> hide;
  DefaultAllows default_allows = DefaultAllows::kWarren;
  std::vector<std::string> homes;    // directories that hold a user's secrets; the first one is $HOME
  std::vector<std::string> guarded;  // always hidden: directories of agent files
  bool has_network = true;
};

struct Plan {
  enum class Kind {
    kScratch,
    kHidden,
    kAllowed,
    kReadable,
    kBase,
    kListed,  // a directory with hidden entries, present or future, shown entry by entry (sandbox/listed_dir.h)
  };
  struct Place {
    std::string path;  // canonical
    Kind kind = Kind::kHidden;
    bool is_directory = true;
  };

  std::string base;                 // canonical
  std::vector<Place> places;        // inner ones after outer ones; a kListed one may share its path with another
  std::vector<std::string> absent;  // hidden paths that do not exist yet: they never show in a listed directory
  bool has_network = true;
  bool has_proxy = false;  // without the network: programs inside reach a proxy outside

  std::vector<std::string> paths_of(Kind kind) const;
};

// kInvalid, kNotFound, kNotDirectory: the message names the path and its option.
Result<Plan> make_plan(const PlanOptions& options);

// Whether `path` is `dir` or below it. Both must be canonical.
bool is_within(const std::string& path, const std::string& dir);

}  // namespace warren
