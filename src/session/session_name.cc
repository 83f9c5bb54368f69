#include "session/session_name.h"

#include <array>
#include <random>

#include <fmt/format.h>

#include "agent/sessions.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr int kFreeNameTries = 100;

std::string random_uuid() {
  std::random_device random;
  std::array<std::uint32_t, 4> words{random(), random(), random(), random()};
  words[1] = (words[1] & 0xffff0fffU) | 0x4000U;      // version 4
  words[2] = (words[2] & 0x3fffffffU) | 0x80000000U;  // the usual variant
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:04x}{:08x}", words[0], words[1] >> 16, words[1] & 0xffff,
                     words[2] >> 16, words[2] & 0xffff, words[3]);
}

// Short enough to type, and easy to distinguish from others.
std::string random_name() {
  constexpr std::array kHow{"amber",  "brave",  "calm",  "clever", "crisp",  "eager",  "fair",  "fleet",
                            "gentle", "happy",  "keen",  "lively", "lucky",  "mellow", "merry", "nimble",
                            "noble",  "plucky", "proud", "quick",  "quiet",  "rapid",  "royal", "sharp",
                            "shy",    "silver", "smart", "snug",   "steady", "swift",  "warm",  "witty"};
  constexpr std::array kWho{"badger", "beaver", "bison", "crane", "deer",  "dove", "falcon", "ferret",
                            "finch",  "fox",    "goose", "hare",  "heron", "ibex", "jay",    "lark",
                            "lynx",   "marten", "mole",  "moose", "mouse", "newt", "otter",  "owl",
                            "rabbit", "raven",  "robin", "seal",  "stoat", "swan", "vole",   "wren"};
  std::random_device random;
  return fmt::format("{}-{}-{:04x}", kHow[random() % kHow.size()], kWho[random() % kWho.size()], random() & 0xffff);
}

}  // namespace

Result<std::string> new_session_id(SessionNaming naming) {
  for (int tries = 0; tries < kFreeNameTries; ++tries) {
    std::string id = naming == SessionNaming::kUuid ? random_uuid() : random_name();
    std::string path = WARREN_TRY(path_of_session(id));
    if (!WARREN_TRY(find_host_link(path))) return id;
  }
  return Error(Code::kExists, "cannot find a free name for the session", "choose one with --session ID");
}

}  // namespace warren
