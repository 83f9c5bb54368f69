// What the inside of a sandbox looks like, worked out from what the user asked for.
//
// Everything of the host is read-only inside. On top of that: the base is copy-on-write, scratch
// directories are private and empty, allowed paths are the host's own and writable, hidden paths show
// nothing, readable ones are put back where something above them is hidden. docs/design/sandbox.md.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace warren {

enum class DefaultAllows {
  kNone,
  kWarren,   // caches and data of programs, but not ~/.local/bin: what is put there runs outside later
  kAgentFs,  // all of ~/.local, as AgentFS has it
};

struct PlanOptions {
  std::string base;  // as the user typed it, and so are these:
  std::vector<std::string> allow;
  std::vector<std::string> read;
  std::vector<std::string> hide;
  DefaultAllows default_allows = DefaultAllows::kWarren;
  std::vector<std::string> homes;    // directories that hold a user's secrets; the first one is $HOME
  std::vector<std::string> guarded;  // hidden whatever is asked: where agent files are
  bool has_network = true;
};

struct Plan {
  enum class Kind {
    kScratch,
    kHidden,
    kAllowed,
    kReadable,
    kBase,
    kListed,  // a directory with something hidden in it, or to be: it shows name by name (sandbox/listed_dir.h)
  };
  struct Place {
    std::string path;  // canonical
    Kind kind = Kind::kHidden;
    bool is_directory = true;
  };

  std::string base;           // canonical
  std::vector<Place> places;  // what lies inside another comes after it; a kListed one may have the path of another
  std::vector<std::string> absent;  // what would be hidden if it were there: in a listed directory it never shows
  bool has_network = true;

  std::vector<std::string> paths_of(Kind kind) const;
};

// kInvalid, kNotFound, kNotDirectory: the message names the path and the option it came with.
Result<Plan> make_plan(const PlanOptions& options);

// Whether `path` is `dir` or below it. Of canonical paths.
bool is_within(const std::string& path, const std::string& dir);

}  // namespace warren
