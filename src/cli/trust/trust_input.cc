#include "cli/trust/trust_input.h"

#include <sys/stat.h>

#include <fmt/format.h>

#include "agent/sessions.h"
#include "base/ascii.h"
#include "base/path.h"
#include "os/files/host_files.h"
#include "trust/key_file.h"

namespace warren::cli {
namespace {

constexpr std::size_t kKeyTextBytes = std::size_t{4} << 10;

}  // namespace

Result<TrustFile> operator_trust(Context& context) {
  std::string folder = context.environment("XDG_CONFIG_HOME").value_or("");
  if (!folder.starts_with('/')) folder = WARREN_TRY(home_directory())
  +"/.config";
  return TrustFile(folder + "/warren/trust");
}

Result<Ed25519Public> read_public_key(const std::string& what) {
  std::string text = what;
  if (!what.starts_with(kEd25519Prefix)) text = WARREN_TRY(read_host_file(what, kKeyTextBytes));
  std::string_view key_text = trimmed(text, kWhitespace);
  if (std::optional<Ed25519Public> key = Ed25519Public::parse(key_text)) return *key;
  if (key_text.starts_with("-----BEGIN")) {
    Ed25519Private key = WARREN_TRY(Ed25519Private::parse_pem(key_text).within(quote(what)));
    return key.public_key();
  }
  return Error(Code::kInvalid, fmt::format("{} is not an Ed25519 public key", quote(what)),
               "give ed25519:… as `warren trust keygen` prints it, or a file that contains that");
}

Result<Ed25519Private> read_private_key(const std::string& file) { return read_key_file(file); }

}  // namespace warren::cli
