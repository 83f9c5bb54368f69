#include "embed/model_identity.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/path.h"
#include "crypto/digest.h"
#include "embed/model_folder.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::string_view kDefaultDigest = "da962274ab4b";
constexpr std::size_t kDigestDigits = 12;
constexpr std::size_t kSettingsBytes = std::size_t{64} << 20;
constexpr std::uint64_t kSamples = 256;
constexpr std::size_t kSampleBytes = 4096;
constexpr std::string_view kSettings[] = {
    "config.json",           "tokenizer_config.json",     "modules.json",
    "1_Pooling/config.json", "sentence_bert_config.json", "config_sentence_transformers.json"};

void add_model_part(Sha256& digest, std::string_view name, std::string_view content) {
  digest.update(as_bytes(fmt::format("{} {}\n", name, content.size())));
  digest.update(as_bytes(content));
}

Result<bool> add_model_file(Sha256& digest, const std::string& folder, std::string_view name) {
  std::string path = fmt::format("{}/{}", folder, name);
  if (!WARREN_TRY(find_host_file(path))) return false;
  std::string content = WARREN_TRY(read_host_file(path, kSettingsBytes));
  add_model_part(digest, name, content);
  return true;
}

// The beginning, with the header, the end, and places in between at even distances.
Status add_model_weights(Sha256& digest, const std::string& folder) {
  std::string path = folder + "/model.safetensors";
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return system_error(errno, fmt::format("open {}", quote(path)));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return system_error(errno, fmt::format("look at {}", quote(path)));
  auto size = static_cast<std::uint64_t>(info.st_size);
  add_model_part(digest, "weights", std::to_string(size));
  std::string sample(kSampleBytes, '\0');
  std::uint64_t last = size > kSampleBytes ? size - kSampleBytes : 0;
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    auto at = static_cast<off_t>(last / (kSamples - 1) * i);
    ssize_t count = ::pread(file.get(), sample.data(), sample.size(), at);
    if (count < 0) return system_error(errno, fmt::format("read {}", quote(path)));
    digest.update(as_bytes(std::string_view(sample).substr(0, static_cast<std::size_t>(count))));
  }
  return Ok{};
}

}  // namespace

Result<std::string> identity_of_model(const std::string& folder) {
  Sha256 digest;
  for (std::string_view name : kSettings) WARREN_TRY(add_model_file(digest, folder, name));
  bool has_lines = WARREN_TRY(add_model_file(digest, folder, "vocab.txt"));
  if (!has_lines) WARREN_TRY(add_model_file(digest, folder, "tokenizer.json"));
  WARREN_TRY(add_model_weights(digest, folder));
  Sha256::Value value = digest.finish();
  std::string digits = hex_of(value).substr(0, kDigestDigits);
  std::string name(base_name(folder));
  if (name == kDefaultModel && digits == kDefaultDigest) return name;
  return fmt::format("{}@{}", name, digits);
}

std::string folder_of_identity(const std::string& identity) {
  std::size_t mark = identity.size() > kDigestDigits ? identity.size() - kDigestDigits - 1 : 0;
  return mark > 0 && identity[mark] == '@' ? identity.substr(0, mark) : identity;
}

}  // namespace warren
