#include "session/embed_config.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/sessions.h"
#include "base/path.h"
#include "embed/embed_settings.h"
#include "os/files/host_files.h"
#include "toml/toml.h"

namespace warren {
namespace {

constexpr std::size_t kEmbedFileBytes = std::size_t{64} << 10;

Result<EmbedderOptions> read_embed_file() {
  const std::string path = WARREN_TRY(config_file("embed.toml"));
  std::optional<struct stat> there = WARREN_TRY(find_host_file(path));
  if (!there) return EmbedderOptions{};
  const bool is_ours = there->st_uid == ::geteuid() || there->st_uid == 0;
  if (!is_ours || (there->st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Error(Code::kDenied,
                 fmt::format("{} can be written by others, and decides where texts are sent", quote(path)),
                 fmt::format("make it yours alone: chmod go-w {}", path));
  }
  std::string text = WARREN_TRY(read_host_file(path, kEmbedFileBytes).within(quote(path)));
  Json table = WARREN_TRY(parse_toml(text).within(quote(path)));
  return parse_embed_table(table).within(quote(path));
}

}  // namespace

Result<EmbedderOptions> embedder_options(const EnvironmentLookup& environment) {
  const std::string word = environment("WARREN_EMBED").value_or("");
  EmbedderOptions options =
      WARREN_TRY(word.empty() ? read_embed_file() : parse_embed_word(word).within("WARREN_EMBED"));
  options.key = environment("WARREN_EMBED_KEY").value_or("");
  return options;
}

}  // namespace warren
