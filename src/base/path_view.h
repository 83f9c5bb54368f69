// Which names below a directory are shown: a tree of rules by name.
//
// Each directory either shows every name except some, or hides every name except some. The deepest rule on the way to a
// path decides. Rules are added with outer paths before inner ones, then the view is only read.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace warren {

class PathView {
 public:
  enum class Others { kShown, kHidden };

  // What is shown in one directory.
  struct Rule {
    bool is_shown = true;            // the directory or file itself
    bool is_refused = false;         // hidden, and nobody may create it
    Others others = Others::kShown;  // names without a rule of their own
    std::map<std::string, Rule, std::less<>> names;
    std::optional<std::set<std::string, std::less<>>> known;  // if set, no other name without a rule is shown
  };

  explicit PathView(Others others) { root_.others = others; }

  // Relative paths, "a/b", with outer ones before inner ones. A path that is shown in a hidden directory makes that
  // directory visible, with nothing else in it.
  void show(std::string_view path);
  void show_empty(std::string_view path);  // the node, but nothing in it
  void hide(std::string_view path);
  // Hides a path that nobody may create either; not below another such path.
  void refuse(std::string_view path);

  // Names that are hidden in every directory, except where a rule names them. A directory that has one of `usual` in it
  // is to be frozen as it is: secrets are replaced there.
  void hide_names(std::function<bool(std::string_view)> hides, std::vector<std::string> usual) {
    hides_ = std::move(hides);
    usual_ = std::move(usual);
  }
  const std::vector<std::string>& usual_secrets() const { return usual_; }

  // Calls `names` for each directory in which single names are hidden, with its path ("" is the root); names other than
  // the returned ones then stay hidden. Without a result the directory stays as it is.
  using ListNames = std::function<std::optional<std::set<std::string, std::less<>>>(const std::string& path)>;
  void freeze(const ListNames& names);

  const Rule& root() const { return root_; }
  // The rule for a name in the directory of `dir`; null if it is hidden.
  const Rule* find(const Rule& dir, std::string_view name) const;
  bool shows(std::string_view path) const;
  bool shows_all(std::string_view path) const;  // and everything below it that has no secret name
  static bool refuses(const Rule& dir, std::string_view name);

 private:
  Rule& make(std::string_view path);
  static void freeze_below(Rule& rule, const std::string& path, const ListNames& names);

  Rule root_;
  Rule everything_;
  std::function<bool(std::string_view)> hides_;
  std::vector<std::string> usual_;
};

}  // namespace warren
