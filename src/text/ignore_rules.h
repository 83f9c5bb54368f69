// Which files a folder's .gitignore leaves out, by git's rules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/glob.h"

namespace warren {

enum class Ignore { kUndecided, kYes, kNo };

// The patterns of one file. A value.
class IgnoreRules {
 public:
  IgnoreRules() = default;
  // A line is a pattern. '#' begins a comment, '!' takes a path back in, a '/' at the end means directories only, and
  // one before that binds the pattern to the folder of the file. Blanks at the end do not count unless escaped.
  explicit IgnoreRules(std::string_view text);

  // The last pattern that matches decides. `path` is relative to the folder of the file.
  enum class Kind { kFile, kDirectory };
  Ignore judge(std::string_view path, Kind kind) const;
  bool is_empty() const { return rules_.empty(); }

 private:
  struct Rule {
    Glob glob;
    bool is_negated = false;
    bool is_for_directories = false;
  };
  std::vector<Rule> rules_;
};

// The rules of a folder and of those above it, for a walk. The innermost file that decides wins.
class IgnoreStack {
 public:
  // Rules of the folder at `dir` ("" for the top, "a/b" below it). Later ones of the same folder win.
  void add(std::string_view dir, IgnoreRules rules);
  // Whether a path below the top is left out. Whoever asks does not ask for what is in a directory that is: it is left
  // out.
  bool is_ignored(std::string_view path, IgnoreRules::Kind kind) const;

 private:
  struct Level {
    std::string dir;
    IgnoreRules rules;
  };
  std::vector<Level> levels_;
};

}  // namespace warren
