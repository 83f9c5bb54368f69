// A policy: rules that narrow what callers may do in a namespace. docs/manual.md describes the JSON.
//
// The rights of a path (vfs/rights.h) are the ceiling: a rule cannot allow what they refuse. Of the rules that match
// caller, operation and path, the first decides; without one, the default does.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/glob.h"
#include "vfs/caller.h"
#include "vfs/rights.h"

namespace warren {

enum class Effect { kAllow, kDeny };

struct Rule {
  std::string agent_text = "*";
  Glob agent{"**"};
  std::optional<Space> space;  // nullopt: both
  bool is_for_peers = false;   // only for other agents, which are in user space
  Rights operations = kAllRights;
  std::string path_text;
  Glob path{"/"};
  Effect effect = Effect::kDeny;
  std::string reason;    // for whoever is refused; may be empty
  std::size_t line = 0;  // where it begins in the text
};

struct PolicyLimits {
  std::optional<std::uint64_t> file_bytes;          // no file grows beyond this
  std::optional<std::uint64_t> changes_per_second;  // of one caller in one process
};

// What decided, for messages and `warren policy explain`.
struct Verdict {
  Effect effect = Effect::kAllow;
  std::optional<Region> region;     // its rights decided
  std::optional<std::size_t> rule;  // or this rule; neither: the default
};

// A value; safe to read from several threads.
class Policy {
 public:
  static constexpr std::size_t kBytesMax = std::size_t{1} << 20;
  static constexpr std::size_t kRulesMax = 1000;

  Policy() = default;  // allows everything

  // kInvalid says what is wrong and where. Unknown members are errors: a misspelt rule would protect nothing.
  static Result<Policy> parse(std::string_view text);

  Rights rights(const Caller& caller, std::string_view path) const;
  Verdict judge(const Caller& caller, Rights::Operation operation, std::string_view path) const;

  // Equal for two directories below which the same relative paths have the same rights, for every caller: what one
  // contains can then be moved to the other.
  std::string below(std::string_view dir) const;

  // The rules, by index, that never decide because rules before them match whatever they match. Not all such rules are
  // recognised: patterns are compared as text.
  std::vector<std::size_t> idle_rules() const;

  const std::vector<Rule>& rules() const { return rules_; }
  const PolicyLimits& limits() const { return limits_; }
  Effect fallback() const { return fallback_; }

 private:
  std::vector<Rule> rules_;
  PolicyLimits limits_;
  Effect fallback_ = Effect::kAllow;
};

}  // namespace warren
