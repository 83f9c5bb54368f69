// An agent to break: what it holds before, what can be done to it, and all of its state as text.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/store.h"
#include "testing/fake_clock.h"

namespace warren::testing {

struct Operation {
  const char* name;
  std::function<Status(Store&)> run;
};

// One of each kind of change. Each works on the agent that make_world makes, and all of them in order.
std::vector<Operation> operations();

// A closed agent file with a few of everything, in `path`.
Status make_world(const std::string& path, Clock& clock);

// Everything a user can see, and how many journal rows there are: two agents are alike if this is.
Result<std::string> state_of(Store& store);

// Opens the agent on a healthy disk and describes it: its state, or what is wrong with it.
std::string state_after_restart(const std::string& path, Clock& clock);

}  // namespace warren::testing
