// The layer over the user's home that only runs see: an agent file whose base is the part of the home that a run shows.
// It lasts from run to run, and several runs may use it at once. docs/design/session.md, The home layer.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "changes/upper/open_overlay.h"
#include "os/fd.h"
#include "sandbox/view/plan.h"

namespace warren {

enum class HomeLayerScope {
  kShared,   // one for all runs of the user
  kProject,  // one for each base
};

// ~/.agentfs/home/shared.db, or a name that is made from the base's path. The file need not exist.
Result<std::string> home_layer_file(HomeLayerScope scope, const std::string& base);

// Removes the layer and everything in it. False if there is none; kBusy while a run uses it.
Result<bool> remove_home_layer(const std::string& file);

class HomeLayer {
 public:
  // Creates the file if it is missing. `hidden`: as in AgentOptions. The plan must have a home, and outlive this.
  static Result<std::unique_ptr<HomeLayer>> open(const std::string& file, const Plan& plan,
                                                 const std::vector<std::string>& hidden, Clock& clock);

  FileSystem& fs() { return opened_->agent->fs(); }

  // Copies sign-in files that this run changed in the layer to the home itself; at rest: those that are as they were at
  // the last call. Cheap if nothing changed.
  enum class WhenToWrite { kAtRest, kNow };
  void write_sign_ins(WhenToWrite when);

  // Call when nothing uses fs() any more. Writes the last sign-ins, and drops them from the layer, so that the home's
  // own files show again. Returns the error of Agent::close.
  Status close();

 private:
  HomeLayer(std::string file, const Plan& plan, std::vector<std::string> hidden, Clock& clock)
      : file_(std::move(file)), plan_(plan), hidden_(std::move(hidden)), clock_(clock) {}
  Status take_lock();
  Status open_agent();
  Status make_mount_points();
  bool is_only_user();
  std::optional<Attributes> find_own(const std::string& name);
  bool is_removed(const std::string& name);
  Status write_sign_in(const Plan::Home::SignIn& one, std::uint64_t size);
  void note_sign_ins();
  Status drop_sign_ins();

  std::string file_;
  const Plan& plan_;
  std::vector<std::string> hidden_;
  Clock& clock_;
  Fd lock_;  // shared among the runs that use the layer
  std::unique_ptr<OverlayAgent> opened_;
  std::map<std::string, Attributes> written_;  // sign-in files, as they were in the layer when they were written
  std::map<std::string, Attributes> seen_;     // as they were at the last look
};

}  // namespace warren
