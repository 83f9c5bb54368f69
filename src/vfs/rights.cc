#include "vfs/rights.h"

#include <array>

#include <fmt/format.h>

#include "base/path.h"

namespace warren {
namespace {

struct Named {
  std::string_view name;
  Rights rights;
};
constexpr std::array<Named, 8> kOperations{{{"read", Rights::kRead},
                                            {"list", Rights::kList},
                                            {"overwrite", Rights::kOverwrite},
                                            {"append", Rights::kAppend},
                                            {"create", Rights::kCreate},
                                            {"delete", Rights::kDelete},
                                            {"write", kWriteRights},
                                            {"*", kAllRights}}};

struct Row {
  Region region;
  std::string_view path;
  Rights user;
  Rights kernel;
  Rights peer;
};
constexpr Rights kLook = Rights::kRead | Rights::kList;
// The inner of two regions comes first.
constexpr std::array<Row, 6> kRows{{
    {Region::kEpisodic, "/mem/episodic", kLook | Rights(Rights::kAppend | Rights::kCreate),
     kLook | Rights(Rights::kAppend | Rights::kCreate), kLook | Rights(Rights::kAppend | Rights::kCreate)},
    {Region::kPolicy, "/policy", kLook, kAllRights, {}},
    {Region::kAudit, "/audit", kLook, kLook | Rights(Rights::kAppend | Rights::kCreate), {}},
    {Region::kInbox, "/ipc/inbox", kLook | Rights(Rights::kDelete), kWriteRights, {}},
    {Region::kOutbox, "/ipc/outbox", kWriteRights, kLook | Rights(Rights::kDelete), kLook},
    {Region::kIpc, "/ipc", kLook, kLook, kLook},
}};

bool is_within(std::string_view path, std::string_view top) {
  return path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/');
}

}  // namespace

std::string_view name_of(Rights::Operation operation) {
  for (const Named& named : kOperations) {
    if (named.rights == Rights(operation)) return named.name;
  }
  return "?";
}

Result<Rights> parse_operation(std::string_view name) {
  std::string names;
  for (const Named& named : kOperations) {
    if (named.name == name) return named.rights;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", named.name);
  }
  return Error(Code::kInvalid, fmt::format("no operation {}; it is one of {}", quote(name), names));
}

Region region_of(std::string_view path) {
  for (const Row& row : kRows) {
    if (is_within(path, row.path)) return row.region;
  }
  return Region::kPlain;
}

std::string_view name_of(Region region) {
  for (const Row& row : kRows) {
    if (row.region == region) return row.path;
  }
  return "/";
}

Rights rights_in(Region region, Space space) {
  for (const Row& row : kRows) {
    if (row.region == region) return space == Space::kUser ? row.user : row.kernel;
  }
  return kAllRights;
}

Rights peer_rights_in(Region region) {
  for (const Row& row : kRows) {
    if (row.region == region) return row.peer;
  }
  return kAllRights;
}

}  // namespace warren
