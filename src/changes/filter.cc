#include "changes/filter.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/path.h"
#include "changes/upper/tree_finder.h"
#include "text/glob.h"

namespace warren {

namespace {

bool matches_any(const std::vector<Glob>& globs, std::string_view path) {
  return std::any_of(globs.begin(), globs.end(), [&](const Glob& glob) { return glob.matches(path); });
}

// "a/../b" → "a/b" without what ".." removes; nullopt if it leads above the top.
std::optional<std::string> joined_components(std::string_view above, std::string_view path) {
  std::vector<std::string_view> parts;
  for (std::string_view text : {above, path}) {
    while (!text.empty()) {
      std::string_view part = text.substr(0, text.find('/'));
      text.remove_prefix(std::min(text.size(), part.size() + 1));
      if (part.empty() || part == ".") continue;
      if (part == ".." && parts.empty()) return std::nullopt;
      if (part == "..") parts.pop_back();
      else parts.push_back(part);
    }
  }
  std::string whole;
  for (std::string_view part : parts) (whole += '/') += part;
  return whole.empty() ? "/" : whole;
}

// "../project/src" from the base "/home/project" itself → "/src"; nullopt if it does not lead back into the base.
std::optional<std::string> from_outside(const std::string& base, const std::string& here, std::string_view pattern) {
  std::optional<std::string> on_host = joined_components(here, pattern);
  if (!on_host || !is_at_or_below(*on_host, base)) return std::nullopt;
  return *on_host == base ? "/" : on_host->substr(base.size());
}

}  // namespace

ChangeFilter filter_of(const std::vector<std::string>& patterns, const std::vector<std::string>& excluded) {
  if (patterns.empty() && excluded.empty()) return {};
  std::vector<Glob> wanted;
  std::vector<Glob> left_out;
  for (const std::string& pattern : patterns) wanted.emplace_back(pattern);
  for (const std::string& pattern : excluded) {
    bool is_anywhere = pattern.find('/') == pattern.npos;
    left_out.emplace_back(is_anywhere ? "**/" + pattern : pattern);
    left_out.emplace_back((is_anywhere ? "**/" : "") + pattern + "/**");
  }
  return [wanted = std::move(wanted), left_out = std::move(left_out)](std::string_view path) {
    return (wanted.empty() || matches_any(wanted, path)) && !matches_any(left_out, path);
  };
}

Result<std::vector<std::string>> resolve_patterns(const std::vector<std::string>& patterns, const std::string& base,
                                                  const std::string& here) {
  bool is_inside = base != "/" && is_at_or_below(here, base);
  std::string above = is_inside ? here.substr(base.size()) : "";
  std::vector<std::string> resolved;
  for (const std::string& pattern : patterns) {
    bool is_on_host = base != "/" && pattern.starts_with('/') && is_at_or_below(pattern, base);
    if (is_on_host) {
      resolved.push_back(pattern == base ? "/" : pattern.substr(base.size()));
      continue;
    }
    if (!is_inside || pattern.starts_with('/')) {
      resolved.push_back(pattern);
      continue;
    }
    if (above.find_first_of("*?[\\") != above.npos) {
      return Error(Code::kInvalid,
                   fmt::format("{}: the current directory has a character of patterns in its name", quote(pattern)),
                   "give the path from the top of the base, with a leading '/'");
    }
    std::optional<std::string> whole = joined_components(above, pattern);
    if (!whole) whole = from_outside(base, here, pattern);
    if (!whole) return Error(Code::kInvalid, fmt::format("{} is outside of the base {}", quote(pattern), quote(base)));
    resolved.push_back(*std::move(whole));
  }
  return resolved;
}

namespace {

constexpr std::string_view kSpecialBytes = "*?[\\";  // of patterns

bool is_name_of(const TreeChange& change, const std::string& path) {
  return change.path == path || (change.kind == TreeChangeKind::kRenamed && change.base_path == path);
}

std::string escaped(std::string_view path) {
  std::string pattern;
  for (char byte : path) {
    if (kSpecialBytes.find(byte) != kSpecialBytes.npos) pattern += '\\';
    pattern += byte;
  }
  return pattern;
}

}  // namespace

std::vector<std::string> with_exact_names(std::vector<std::string> patterns, const std::vector<TreeChange>& changes) {
  std::vector<std::string> meant;
  for (std::string& pattern : patterns) {
    std::optional<std::string> path = joined_components("", pattern);
    bool has_special = pattern.find_first_of(kSpecialBytes) != pattern.npos;
    bool is_exact = path && has_special && std::any_of(changes.begin(), changes.end(), [&](const TreeChange& change) {
                      return is_name_of(change, *path);
                    });
    if (!is_exact) {
      meant.push_back(std::move(pattern));
      continue;
    }
    meant.push_back(escaped(*path));
    meant.push_back(escaped(*path) + "/**");
  }
  return meant;
}

std::unordered_set<std::string> names_in(const std::vector<std::string>& patterns) {
  std::unordered_set<std::string> names;
  for (const std::string& pattern : patterns) {
    std::optional<std::string> name = joined_components("", pattern);
    if (name) names.insert(*std::move(name));
  }
  return names;
}

Status check_paths(const AgentOverlay& overlay, const std::vector<std::string>& patterns,
                   const std::vector<TreeChange>& changes) {
  TreeFinder merged(overlay.merged);
  TreeFinder base(overlay.base);
  for (const std::string& pattern : patterns) {
    Glob glob(pattern);
    Status matched = check_patterns({pattern}, changes);
    if (matched.ok()) continue;
    bool is_everything = pattern == "**" || pattern == "/**";  // which may be nothing
    if (is_everything) continue;
    if (!glob.is_plain()) return matched;
    std::string path = WARREN_TRY(normalise_path(pattern));
    bool is_there = WARREN_TRY(merged.find(path))
    .has_value() || WARREN_TRY(base.find(path))
    .has_value();
    if (!is_there)
      return Error(Code::kNotFound, fmt::format("no changes match {}, and no file has that path", quote(pattern)));
  }
  return Ok{};
}

Status check_patterns(const std::vector<std::string>& patterns, const std::vector<TreeChange>& changes) {
  for (const std::string& pattern : patterns) {
    Glob glob(pattern);
    std::string path = joined_components("", pattern).value_or("");
    bool is_used = std::any_of(changes.begin(), changes.end(), [&](const TreeChange& change) {
      return glob.matches(change.path) || glob.matches(change.base_path) || is_name_of(change, path);
    });
    if (!is_used) return Error(Code::kNotFound, fmt::format("no changes match {}", quote(pattern)));
  }
  return Ok{};
}

}  // namespace warren
