#include "host/served_agents.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/locate.h"
#include "base/path.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::string_view kHostDoor = "host";

}  // namespace

Result<std::unique_ptr<HostedAgent>> HostedAgent::open(const std::string& path, const AgentNamespaceOptions& options,
                                                       Clock& clock) {
  std::unique_ptr<HostedAgent> made(new HostedAgent);
  AgentOptions file{.id_or_path = path, .layers = Layers::kOwn};
  Result<std::unique_ptr<Agent>> agent = Agent::open(file, clock);
  if (!agent.ok() && (agent.error().code() == Code::kReadOnly || agent.error().code() == Code::kDenied)) {
    file.mode = OpenMode::kReadOnly;
    agent = Agent::open(file, clock);
  }
  made->agent_ = WARREN_TRY(std::move(agent));
  made->names_ = WARREN_TRY(AgentNamespace::open(*made->agent_, options, clock));
  return made;
}

std::shared_ptr<NamespaceView> HostedAgent::own_view() {
  std::lock_guard lock(mutex_);
  if (!own_) {
    own_ = (*names_)->view(
        {.agent = names_->agent_id(), .space = Space::kUser, .door = std::string(kHostDoor), .session = {}});
  }
  return own_;
}

std::shared_ptr<NamespaceView> HostedAgent::peer_view(const std::string& peer, std::uint64_t generation,
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

ServedAgents::ServedAgents(std::string folder, std::vector<std::string> only, NamespaceOf namespace_of, Clock& clock)
    : folder_(std::move(folder)), only_(std::move(only)), namespace_of_(std::move(namespace_of)), clock_(clock) {}

std::string ServedAgents::path_of(std::string_view id) const { return fmt::format("{}/{}.db", folder_, id); }

std::optional<ServedAgents::FileIdentity> ServedAgents::find_file(std::string_view id) const {
  if (!is_agent_id(id)) return std::nullopt;
  if (!only_.empty() && std::ranges::find(only_, id) == only_.end()) return std::nullopt;
  Result<std::optional<struct stat>> there = find_host_file(path_of(id));
  if (!there.ok() || !*there || !S_ISREG((*there)->st_mode)) return std::nullopt;
  return FileIdentity{.device = (*there)->st_dev, .inode = (*there)->st_ino};
}

std::shared_ptr<ServedAgents::Slot> ServedAgents::slot_of(std::string_view id) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<Slot>& found = slots_[std::string(id)];
  if (!found) found = std::make_shared<Slot>();
  return found;
}

std::shared_ptr<ServedAgents::Slot> ServedAgents::take_slot(std::string_view id) {
  std::lock_guard lock(mutex_);
  auto found = slots_.find(id);
  if (found == slots_.end()) return nullptr;
  std::shared_ptr<Slot> slot = std::move(found->second);
  slots_.erase(found);
  return slot;
}

Result<std::shared_ptr<HostedAgent>> ServedAgents::get(std::string_view id) {
  std::optional<FileIdentity> file = find_file(id);
  if (!file) {
    take_slot(id);
    return Error(Code::kNotFound, fmt::format("this host has no agent {}", quote(id)));
  }
  std::shared_ptr<Slot> slot = slot_of(id);
  std::lock_guard lock(slot->mutex);
  file = find_file(id);  // now: it may have been replaced while we waited
  if (!file) return Error(Code::kNotFound, fmt::format("this host has no agent {}", quote(id)));
  if (slot->agent && slot->file != *file) slot->agent.reset();
  if (!slot->agent) {
    std::string path = path_of(id);
    AgentNamespaceOptions options;
    if (namespace_of_) options = WARREN_TRY(namespace_of_(path));
    slot->agent = WARREN_TRY(HostedAgent::open(path, options, clock_));
    slot->file = *file;
  }
  return slot->agent;
}

std::size_t ServedAgents::open_count() const {
  std::lock_guard lock(mutex_);
  return slots_.size();
}

std::vector<std::string> ServedAgents::list_open() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& [id, slot] : slots_) ids.push_back(id);
  return ids;
}

}  // namespace warren
