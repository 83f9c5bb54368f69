#include "vfs/mount_spec.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "backends/open_backend.h"
#include "base/path.h"
#include "base/percent.h"

namespace warren {
namespace {

// What an agent must not be without, or what a mount would hide.
constexpr std::array<std::string_view, 3> kNotMountable{"/policy", "/audit", "/agent"};

// A password that is written out would be seen in `ps`, in shell histories and in copies of the file.
Status check_no_password(std::string_view address) {
  for (std::string_view password : passwords_in(address)) {
    if (password.empty() || (password.starts_with("${") && password.find('}') == password.size() - 1)) continue;
    return Error(Code::kInvalid, "the address of the backend has a password in it, where others can see it",
                 "put it into an environment variable and write ${NAME} in its place, in single quotes for the shell");
  }
  return Ok{};
}

Result<std::string> text_of(const Json& table, std::string_view key) {
  auto value = table.find(std::string(key));
  if (value == table.end()) return std::string();
  if (!value->is_string()) return Error(Code::kInvalid, fmt::format("{} must be a text", quote(key)));
  return value->get<std::string>();
}

Result<MountSpec> parse_entry(const Json& table, const std::string& directory) {
  if (!table.is_object()) return Error(Code::kInvalid, "it must be a table: [[mount]]");
  for (const auto& [key, value] : table.items()) {
    if (key == "path" || key == "backend" || key == "password_env") continue;
    return Error(Code::kInvalid, fmt::format("{} is not a known key", quote(key)),
                 "the keys are path, backend and password_env");
  }
  std::string path = WARREN_TRY(text_of(table, "path"));
  if (path.empty()) return Error(Code::kInvalid, "\"path\" is missing");
  std::string backend = WARREN_TRY(text_of(table, "backend"));
  MountSpec spec = WARREN_TRY(make_mount(path, std::move(backend), directory));
  spec.password_env = WARREN_TRY(text_of(table, "password_env"));
  if (!spec.password_env.empty() && !is_service_address(spec.backend)) {
    return Error(Code::kInvalid, "\"password_env\" is for the address of a service, such as redis://host");
  }
  return spec;
}

}  // namespace

Result<std::string> parse_mount_point(std::string_view path) {
  if (!path.starts_with('/')) {
    return Error(Code::kInvalid, fmt::format("the mount point {} does not begin with a slash", quote(path)));
  }
  std::string normal = WARREN_TRY(normalise_path(path));
  auto names = WARREN_TRY(split_path(normal));
  if (names.empty()) return Error(Code::kInvalid, "nothing can be mounted on /: the agent's own files are there");
  if (std::find(names.begin(), names.end(), "..") != names.end()) {
    return Error(Code::kInvalid, fmt::format("the mount point {} must not contain '..'", quote(path)));
  }
  std::string top = fmt::format("/{}", names.front());
  if (std::find(kNotMountable.begin(), kNotMountable.end(), top) != kNotMountable.end()) {
    return Error(Code::kInvalid, fmt::format("nothing can be mounted on {}: {} belongs to the agent itself",
                                             quote(normal), quote(top)));
  }
  return normal;
}

Result<MountSpec> make_mount(std::string_view path, std::string backend, const std::string& directory) {
  std::string point = WARREN_TRY(parse_mount_point(path));
  MountSpec spec{.path = std::move(point), .backend = {}, .password_env = {}, .directory = directory};
  if (backend.empty()) {
    return Error(Code::kInvalid, fmt::format("the mount on {} lacks its backend", quote(spec.path)),
                 fmt::format("known: {}", known_blob_schemes()));
  }
  WARREN_TRY(check_no_password(backend).within("mount on " + quote(spec.path)));
  spec.backend = std::move(backend);
  return spec;
}

Result<MountSpec> parse_mount(std::string_view text, const std::string& directory) {
  std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return Error(Code::kInvalid, "a mount is written as PATH=BACKEND",
                 fmt::format("for example /mem/notes=sqlite:notes.db; known backends: {}", known_blob_schemes()));
  }
  return make_mount(text.substr(0, equals), std::string(text.substr(equals + 1)), directory);
}

Result<std::vector<MountSpec>> parse_mount_table(const Json& document, const std::string& directory) {
  std::vector<MountSpec> mounts;
  for (const auto& [key, value] : document.items()) {
    if (key != "mount" || !value.is_array()) {
      return Error(Code::kInvalid, fmt::format("{} is not known here", quote(key)),
                   "the file consists of tables [[mount]] with path and backend");
    }
    for (std::size_t i = 0; i < value.size(); ++i) {
      MountSpec spec = WARREN_TRY(parse_entry(value[i], directory).within(fmt::format("mount {}", i + 1)));
      mounts.push_back(std::move(spec));
    }
  }
  WARREN_TRY(check_no_duplicates(mounts));
  return mounts;
}

Status check_no_duplicates(const std::vector<MountSpec>& mounts) {
  std::set<std::string> paths;
  for (const MountSpec& mount : mounts) {
    if (paths.insert(mount.path).second) continue;
    return Error(Code::kInvalid, fmt::format("two backends are mounted on {}", quote(mount.path)));
  }
  return Ok{};
}

Result<std::string> expand_address(const std::string& address, const Variables& variables) {
  if (!is_service_address(address)) return address;
  std::string expanded;
  std::string_view rest = address;
  while (true) {
    std::size_t begin = rest.find("${");
    expanded += rest.substr(0, begin);
    if (begin == std::string_view::npos) return expanded;
    std::size_t end = rest.find('}', begin);
    if (end == std::string_view::npos) return Error(Code::kInvalid, "\"${\" lacks its \"}\" in the address");
    std::string_view name = rest.substr(begin + 2, end - begin - 2);
    std::optional<std::string> value = variables(name);
    if (!value) return Error(Code::kInvalid, fmt::format("the environment variable {} is not set", quote(name)));
    expanded += encode_percent(*value);
    rest.remove_prefix(end + 1);
  }
}

}  // namespace warren
