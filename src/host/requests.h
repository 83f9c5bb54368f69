// What a host does for an agent that has proven who it is: decides whose namespace a path is in, whether the agent may
// go there, and runs the operation on that view.
//
// To an agent, another agent's names that it may not use, names that do not exist and agents that do not exist are the
// same: one error, decided before anything of the other agent is looked at.
#pragma once

#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/clock.h"
#include "base/result.h"
#include "crypto/ed25519.h"
#include "host/frame.h"
#include "host/served_agents.h"
#include "trust/trust_file.h"
#include "vfs/grants.h"

namespace warren {

// Who is asking.
struct HostClientIdentity {
  std::string agent;
  Ed25519Public key;  // that it has proven to have
};

// Thread-safe. Everything given to it outlives it.
class Requests {
 public:
  Requests(ServedAgents& agents, LiveTrust& trust, int threshold, Clock& clock)
      : agents_(agents), trust_(trust), threshold_(threshold), clock_(clock) {}

  // Whether this signature of the challenge proves it. kDenied is the same for an unknown agent, a wrong key and a
  // manifest that is not valid any more, and takes as long.
  Result<HostClientIdentity> identify(std::string_view agent, const Ed25519Signature& signature,
                                      std::string_view challenge);
  // Fails once trust in the client was withdrawn or has ended, or while trust cannot be read.
  Status check_standing(const HostClientIdentity& client);
  Result<Frame> run(const HostClientIdentity& client, const Frame& request);

 private:
  struct Target {
    std::string agent;  // "": the list of agents, /agent
    std::string path;
  };
  Result<LiveTrust::Current> trusted_now();  // kUnavailable without a reason
  Result<Target> find_target(const HostClientIdentity& client, std::string_view path) const;
  Result<Frame> run_own(const std::string& op, const Target& target, const Frame& request);
  Result<Frame> run_as_peer(const HostClientIdentity& client, const std::string& op, const Target& target,
                            const Frame& request);
  Status record(const HostClientIdentity& client, const std::string& op, const Target& target,
                const Result<Frame>& answer);
  Result<Frame> list_agents(const HostClientIdentity& client, const std::string& op);

  ServedAgents& agents_;
  LiveTrust& trust_;
  const int threshold_;
  Clock& clock_;
};

// The rights that scopes give.
Grants grants_of(const std::vector<Scope>& scopes);

// What a client signs to prove that it is an agent, to a host of this user: one of another user cannot pass the proof
// on.
std::string challenge_bytes(std::string_view challenge, std::string_view agent, uid_t host_user);

}  // namespace warren
