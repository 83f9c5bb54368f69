// The set-up of tests that call tools: an empty agent with its namespace, seen by a model.
#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "agent/agent.h"
#include "agent/agent_namespace.h"
#include "base/clock.h"
#include "store/store.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"
#include "tools/tool.h"
#include "vfs/namespace.h"

namespace warren {

class ToolCase : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = dir_.path() + "/a.db";
    ASSERT_OK(Store::open(path, {.mode = OpenMode::kCreate}, clock_));
    agent_ = Agent::open({.id_or_path = path}, clock_).value();
    names_ = AgentNamespace::open(*agent_, {}, clock_).value();
    view_ = (*names_)->view({.agent = names_->agent_id(), .space = Space::kUser, .door = "mcp", .session = {}});
  }

  // Of a call; a test adds what it is about.
  ToolContext context() {
    return {.agent = *agent_, .names = *names_, .view = *view_, .clock = clock_, .session = "s"};
  }

  SystemClock clock_;
  testing::TempDir dir_;
  std::unique_ptr<Agent> agent_;
  std::unique_ptr<AgentNamespace> names_;
  std::unique_ptr<NamespaceView> view_;
};

}  // namespace warren
