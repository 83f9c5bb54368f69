#include "embed/model_folder.h"

#include <cstdlib>

#include <fmt/format.h>

#include "base/path.h"
#include "os/files/host_files.h"

namespace warren {

std::vector<std::string> model_places() {
  std::vector<std::string> places;
  const char* given = std::getenv("WARREN_MODELS");  // NOLINT(concurrency-mt-unsafe): nothing changes the environment
  if (given != nullptr && *given != '\0') places.emplace_back(given);
  Result<std::string> program = canonical_host_path("/proc/self/exe");
  if (!program.ok()) return places;
  for (std::string& place : model_places_of(*program)) places.push_back(std::move(place));
  return places;
}

std::vector<std::string> model_places_of(const std::string& program) {
  std::vector<std::string> places{std::string(directory_of(directory_of(program))) + "/share/warren/models"};
#if defined(WARREN_DEV_MODELS)
  if (program.starts_with(WARREN_DEV_BUILD "/")) places.emplace_back(WARREN_DEV_MODELS);
#endif
  return places;
}

Result<std::string> find_model_folder(const std::string& name, const std::vector<std::string>& places) {
  if (name.find('/') != std::string::npos) return name;
  const std::string wanted = name.empty() ? std::string(kDefaultModel) : name;
  WARREN_TRY(check_name(wanted).within("the model's name"));
  std::string searched;
  for (const std::string& place : places) {
    const std::string folder = place + "/" + wanted;
    std::optional<struct stat> there = WARREN_TRY(find_host_file(folder + "/config.json"));
    if (there) return folder;
    searched += fmt::format("{}{}", searched.empty() ? "" : ", ", quote(place));
  }
  return Error(Code::kNotFound, fmt::format("the model {} is not installed in {}", quote(wanted), searched),
               "set WARREN_MODELS to the folder that has it; docs/context.md says where to get it");
}

}  // namespace warren
