// An agent for fault tests: its initial content, operations on it, and its state as text.
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

// One operation of each kind. Each works on a new agent from make_world, and so do all of them in order.
std::vector<Operation> operations();

// Creates a closed agent file at `path`, with a few nodes of each kind. All of its files may be encrypted.
enum class Files { kPlain, kEncrypted };
Status make_world(const std::string& path, Clock& clock, Files files = Files::kPlain);

// For opening it: on this disk, with the key.
StoreOptions world_options(const char* vfs);

// Everything that a user can see, and the number of journal rows: agents with the same text are equal.
Result<std::string> state_of(Store& store);

// Opens the agent on a healthy disk and describes it: its state, or what is wrong with it.
std::string state_after_restart(const std::string& path, Clock& clock);

}  // namespace warren::testing
