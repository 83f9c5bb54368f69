// What may be done with a path of the namespace, before any policy: the table of the specification's section 3.3.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "vfs/caller.h"

namespace warren {

// A set of operations.
class Rights {
 public:
  enum Operation : std::uint8_t {
    kRead = 1,       // the content of a file, the extended attributes of a node
    kList = 2,       // the names in a directory
    kOverwrite = 4,  // content that exists; attributes; a name, by renaming within one place
    kAppend = 8,     // at the end of a file
    kCreate = 16,    // a name
    kDelete = 32,    // a name
  };

  constexpr Rights() = default;
  constexpr Rights(unsigned bits) : bits_(static_cast<std::uint8_t>(bits)) {}  // NOLINT: a set of Operations
  bool operator==(const Rights&) const = default;

  constexpr bool has(Operation operation) const { return (bits_ & operation) != 0; }
  constexpr Rights operator&(Rights other) const { return bits_ & other.bits_; }
  constexpr Rights operator|(Rights other) const { return static_cast<unsigned>(bits_ | other.bits_); }
  constexpr Rights without(Rights other) const { return bits_ & ~static_cast<unsigned>(other.bits_); }
  constexpr bool is_empty() const { return bits_ == 0; }

 private:
  std::uint8_t bits_ = 0;
};

inline constexpr Rights kWriteRights = Rights::kOverwrite | Rights::kAppend | Rights::kCreate;
inline constexpr Rights kAllRights = kWriteRights | Rights(Rights::kRead | Rights::kList | Rights::kDelete);

// "read", "list", "overwrite", "append", "create", "delete".
std::string_view name_of(Rights::Operation operation);
// An operation as policies and commands spell it. "write" is overwrite, append and create; "*" is all. kInvalid lists
// the names.
Result<Rights> parse_operation(std::string_view name);

// A region of the namespace that has rights of its own.
enum class Region : std::uint8_t { kPlain, kEpisodic, kPolicy, kAudit, kIpc, kInbox, kOutbox };

// `path` is normalised. Whole names decide: "/policyX" is plain.
Region region_of(std::string_view path);
std::string_view name_of(Region region);  // "/mem/episodic"
Rights rights_in(Region region, Space space);
// Of another agent, before what it was granted: never the policy, the trail or the inbox, and an outbox only to read
// (section 7.3).
Rights peer_rights_in(Region region);

}  // namespace warren
