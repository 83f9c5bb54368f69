#include "session/user_homes.h"

#include <string_view>

#include <pwd.h>
#include <unistd.h>

namespace warren {

std::vector<std::string> homes_of_user(const std::string& home) {
  std::vector<std::string> homes{home};
  const passwd* user = ::getpwuid(::geteuid());
  bool has_another = user != nullptr && user->pw_dir != nullptr && *user->pw_dir == '/' && user->pw_dir != home;
  if (has_another && std::string_view(user->pw_dir) != "/") homes.emplace_back(user->pw_dir);
  return homes;
}

std::vector<std::string> homes_of_others() {
  constexpr uid_t kFirstPerson = 1000;
  std::vector<std::string> homes;
  ::setpwent();
  while (const passwd* user = ::getpwent()) {
    bool is_other = user->pw_uid >= kFirstPerson && user->pw_uid != ::geteuid() && user->pw_dir != nullptr;
    if (is_other && *user->pw_dir == '/' && std::string_view(user->pw_dir) != "/") homes.emplace_back(user->pw_dir);
  }
  ::endpwent();
  return homes;
}

}  // namespace warren
