#include "cli/vfs/hosted.h"

#include <fmt/format.h>

#include "cli/trust/trust_input.h"
#include "os/user.h"

namespace warren::cli {

std::vector<Option> hosted_options() {
  return {
      {.name = "host",
       .value = "SOCKET",
       .help = "through the host at this socket, as the agent ID; /agent/OTHER/PATH is what OTHER shares",
       .suggest = Suggest::kHostFiles},
      {.name = "key", .value = "FILE", .help = "with --host: the agent's private key", .suggest = Suggest::kHostFiles},
      {.name = "host-user", .value = "USER", .help = "with --host: who runs it, if neither you nor root"}};
}

Result<std::unique_ptr<HostClient>> connect_host(const Arguments& args) {
  for (std::string_view option : {"mount", "mounts", "as-agent"}) {
    if (!args.has(option)) continue;
    return Error(Code::kInvalid, fmt::format("--{} cannot be used with --host", option),
                 "the host decides what is mounted, and its clients have the agent's own rights");
  }
  if (!args.has("key")) {
    return Error(Code::kInvalid, "--host needs --key FILE, by which the agent proves who it is",
                 "`warren trust keygen FILE` makes one");
  }
  Ed25519Private key = WARREN_TRY(read_private_key(args.get("key")).within("--key"));
  HostClientOptions options{.socket = args.get("host"), .agent = args.get("ID")};
  if (std::optional<std::string> user = args.find("host-user")) {
    HostUser found = WARREN_TRY(find_host_user(*user).within("--host-user"));
    options.host_user = found.uid;
  }
  return HostClient::connect(options, key);
}

}  // namespace warren::cli
