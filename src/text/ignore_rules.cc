#include "text/ignore_rules.h"

#include <algorithm>

namespace warren {
namespace {

std::string_view without_blanks_at_end(std::string_view line) {
  while (line.ends_with(' ') && !line.ends_with("\\ ")) line.remove_suffix(1);
  return line;
}

}  // namespace

IgnoreRules::IgnoreRules(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty()) {
    std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = without_blanks_at_end(line);
    if (line.empty() || line.front() == '#') continue;
    bool is_negated = line.front() == '!';
    if (is_negated) line.remove_prefix(1);
    bool is_for_directories = line.ends_with('/');
    if (is_for_directories) line.remove_suffix(1);
    if (line.empty()) continue;
    bool is_bound = line.find('/') != line.npos;
    std::string pattern = is_bound ? std::string(line) : "**/" + std::string(line);
    rules_.push_back({.glob = Glob(pattern), .is_negated = is_negated, .is_for_directories = is_for_directories});
  }
}

Ignore IgnoreRules::judge(std::string_view path, Kind kind) const {
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (rule->is_for_directories && kind != Kind::kDirectory) continue;
    if (rule->glob.matches(path)) return rule->is_negated ? Ignore::kNo : Ignore::kYes;
  }
  return Ignore::kUndecided;
}

void IgnoreStack::add(std::string_view dir, IgnoreRules rules) {
  if (!rules.is_empty()) levels_.push_back({.dir = std::string(dir), .rules = std::move(rules)});
}

bool IgnoreStack::is_ignored(std::string_view path, IgnoreRules::Kind kind) const {
  std::size_t deepest = 0;
  Ignore verdict = Ignore::kUndecided;
  for (const Level& level : levels_) {
    bool is_above = level.dir.empty() ||
                    (path.starts_with(level.dir) && path.size() > level.dir.size() && path[level.dir.size()] == '/');
    if (!is_above || level.dir.size() < deepest) continue;
    std::string_view relative = level.dir.empty() ? path : path.substr(level.dir.size() + 1);
    Ignore said = level.rules.judge(relative, kind);
    if (said == Ignore::kUndecided) continue;
    verdict = said;
    deepest = level.dir.size();
  }
  return verdict == Ignore::kYes;
}

}  // namespace warren
