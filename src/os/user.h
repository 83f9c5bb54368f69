// Users of this machine.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "base/result.h"

namespace warren {

struct HostUser {
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // all of them, `gid` included
  std::string name;           // empty if the user is known by number only
  std::string home;           // likewise
  std::string shell;          // likewise
};

// By name, or by number: UID or UID:GID. A number without an entry in the user database is accepted; its group is the
// same number. kNotFound: there is no user of that name.
Result<HostUser> find_host_user(const std::string& user);

}  // namespace warren
