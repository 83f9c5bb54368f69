// Backends mounted in a namespace, as an operator writes them: "/mem/notes=sqlite:notes.db", or in TOML:
//
//   [[mount]]
//   path = "/mem/episodic"
//   backend = "redis://user@cache:6379/0"
//   password_env = "REDIS_PASSWORD"
//
// Passwords are not written in either, because arguments and files are seen by others: "${NAME}" in the address of a
// service and `password_env` name the environment variable that has it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace warren {

struct MountSpec {
  std::string path;                          // normalised
  std::string backend;                       // as written, so without passwords
  std::string password_env;                  // may be empty
  std::string directory;                     // absolute: where relative paths and programs are found
  std::optional<std::string> password = {};  // of a program that has it at hand; instead of password_env
};

using Variables = std::function<std::optional<std::string>(std::string_view name)>;

// kInvalid says what is wrong, without repeating an address that may have a password.
Result<MountSpec> parse_mount(std::string_view text, const std::string& directory);
Result<std::vector<MountSpec>> parse_mount_table(const Json& document, const std::string& directory);

// The same from its parts.
Result<MountSpec> make_mount(std::string_view path, std::string backend, const std::string& directory);
// Normalised. kInvalid for a path where nothing can be mounted.
Result<std::string> parse_mount_point(std::string_view path);

// kInvalid for two mounts on one path.
Status check_no_duplicates(const std::vector<MountSpec>& mounts);

// The address with "${NAME}" replaced, percent-encoded. Only services have these: the address of a program is left
// alone. kInvalid for a variable that is not set.
Result<std::string> expand_address(const std::string& address, const Variables& variables);

}  // namespace warren
