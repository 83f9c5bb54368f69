#include "host/served_agents.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/locate.h"
#include "base/path.h"
#include "os/host_files.h"

namespace warren {
namespace {

constexpr std::string_view kHostDoor = "host";

}  // namespace

Result<std::unique_ptr<ServedAgent>> ServedAgent::open(const std::string& path, const std::vector<MountSpec>& mounts,
                                                       Clock& clock) {
  std::unique_ptr<ServedAgent> made(new ServedAgent);
  AgentOptions options{.id_or_path = path, .layers = Layers::kOwn};
  Result<std::unique_ptr<Agent>> agent = Agent::open(options, clock);
  if (!agent.ok() && (agent.error().code() == Code::kReadOnly || agent.error().code() == Code::kDenied)) {
    options.mode = OpenMode::kReadOnly;
    agent = Agent::open(options, clock);
  }
  made->agent_ = WARREN_TRY(std::move(agent));
  made->names_ = WARREN_TRY(AgentNamespace::open(*made->agent_, {.mounts = mounts}, clock));
  return made;
}

std::shared_ptr<GuardFs> ServedAgent::own_view() {
  std::lock_guard lock(mutex_);
  if (!own_) {
    own_ = (*names_)->view(
        {.agent = names_->agent_id(), .space = Space::kUser, .door = std::string(kHostDoor), .session = {}});
  }
  return own_;
}

std::shared_ptr<GuardFs> ServedAgent::peer_view(const std::string& peer, std::uint64_t generation,
                                                const Grants& grants) {
  std::lock_guard lock(mutex_);
  View& view = peers_[peer];
  if (!view.fs || view.generation != generation) {
    view.generation = generation;
    view.fs = (*names_)->view({.agent = peer,
                               .space = Space::kUser,
                               .door = std::string(kHostDoor),
                               .session = {},
                               .grants = std::make_shared<const Grants>(grants)});
  }
  return view.fs;
}

ServedAgents::ServedAgents(std::string folder, std::vector<std::string> only, MountsOf mounts, Clock& clock)
    : folder_(std::move(folder)), only_(std::move(only)), mounts_(std::move(mounts)), clock_(clock) {}

std::string ServedAgents::path_of(std::string_view id) const { return fmt::format("{}/{}.db", folder_, id); }

bool ServedAgents::is_served(std::string_view id) const {
  if (!is_agent_id(id)) return false;
  if (!only_.empty() && std::ranges::find(only_, id) == only_.end()) return false;
  Result<std::optional<struct stat>> there = find_host_file(path_of(id));
  return there.ok() && *there && S_ISREG((*there)->st_mode);
}

Result<std::shared_ptr<ServedAgent>> ServedAgents::get(std::string_view id) {
  if (!is_served(id)) return Error(Code::kNotFound, fmt::format("this host has no agent {}", quote(id)));
  std::shared_ptr<Slot> slot;
  {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Slot>& found = slots_[std::string(id)];
    if (!found) found = std::make_shared<Slot>();
    slot = found;
  }
  std::lock_guard lock(slot->mutex);
  if (!slot->agent) {
    std::string path = path_of(id);
    std::vector<MountSpec> mounts;
    if (mounts_) mounts = WARREN_TRY(mounts_(path));
    std::unique_ptr<ServedAgent> opened = WARREN_TRY(ServedAgent::open(path, mounts, clock_));
    slot->agent = std::move(opened);
  }
  return slot->agent;
}

std::size_t ServedAgents::open_count() const {
  std::lock_guard lock(mutex_);
  return slots_.size();
}

}  // namespace warren
