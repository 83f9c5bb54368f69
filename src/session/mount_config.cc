#include "session/mount_config.h"

#include <algorithm>

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/sessions.h"
#include "base/path.h"
#include "os/files/host_files.h"
#include "session/run_preferences.h"
#include "toml/toml.h"

namespace warren {
namespace {

constexpr std::size_t kMountsFileBytes = std::size_t{1} << 20;

// The file decides which programs run, so nobody else may write it.
Result<std::vector<MountSpec>> read_mounts_file(const std::string& path) {
  std::optional<struct stat> there = WARREN_TRY(find_host_file(path));
  if (!there) return Error(Code::kNotFound, fmt::format("there is no file {}", quote(path)));
  bool is_ours = there->st_uid == ::geteuid() || there->st_uid == 0;
  if (!is_ours || (there->st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Error(Code::kDenied, fmt::format("{} can be written by others, and decides what is mounted", quote(path)),
                 fmt::format("make it yours alone: chmod go-w {}", path));
  }
  std::string text = WARREN_TRY(read_host_file(path, kMountsFileBytes).within(quote(path)));
  Json document = WARREN_TRY(parse_toml(text).within(quote(path)));
  std::string whole = WARREN_TRY(canonical_host_path(path));
  return parse_mount_table(document, std::string(directory_of(whole))).within(quote(path));
}

Result<std::vector<MountSpec>> parse_mounts(const std::vector<std::string>& texts, const std::string& directory) {
  std::vector<MountSpec> mounts;
  for (const std::string& text : texts) mounts.push_back(WARREN_TRY(parse_mount(text, directory)));
  WARREN_TRY(check_no_duplicates(mounts));
  return mounts;
}

// Mounts of `above` replace those of `below` on the same path.
std::vector<MountSpec> merged(std::vector<MountSpec> below, const std::vector<MountSpec>& above) {
  for (const MountSpec& mount : above) {
    std::erase_if(below, [&](const MountSpec& one) { return one.path == mount.path; });
    below.push_back(mount);
  }
  return below;
}

}  // namespace

Result<std::string> user_mounts_file(const std::string& agent) {
  return config_file(fmt::format("mounts/{}.toml", agent));
}

Result<std::vector<MountSpec>> load_mounts(const MountSources& sources) {
  std::vector<MountSpec> mounts;
  if (sources.preferred_file) mounts = WARREN_TRY(read_mounts_file(*sources.preferred_file));
  if (!sources.preferred.empty()) {
    std::string file = WARREN_TRY(preferences_file());
    std::string whole = WARREN_TRY(canonical_host_path(file));
    std::vector<MountSpec> preferred = WARREN_TRY(parse_mounts(sources.preferred, std::string(directory_of(whole)))
                                                      .within(fmt::format("{}: mount", quote(file))));
    mounts = merged(std::move(mounts), preferred);
  }
  if (check_name(sources.agent).ok()) {
    std::string path = WARREN_TRY(user_mounts_file(sources.agent));
    Result<std::optional<struct stat>> there = find_host_file(path);
    if (there.ok() && *there) {
      std::vector<MountSpec> of_agent = WARREN_TRY(read_mounts_file(path));
      mounts = merged(std::move(mounts), of_agent);
    }
  }
  if (sources.file) {
    std::vector<MountSpec> of_file = WARREN_TRY(read_mounts_file(*sources.file));
    mounts = merged(std::move(mounts), of_file);
  }
  std::string here = WARREN_TRY(canonical_host_path("."));
  std::vector<MountSpec> given = WARREN_TRY(parse_mounts(sources.arguments, here).within("--mount"));
  return merged(std::move(mounts), given);
}

}  // namespace warren
