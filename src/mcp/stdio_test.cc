#include "mcp/stdio.h"

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "os/fd.h"
#include "testing/matchers.h"

namespace warren::mcp {
namespace {

TEST(McpStdio, AClientThatHasClosedItsSideAndDoesNotReadIsGone) {
  SystemClock clock;
  auto agent = Agent::open({.id_or_path = ":memory:"}, clock).value();
  auto names = AgentNamespace::open(*agent, {}, clock).value();
  auto view = (*names)->view({.agent = names->agent_id(), .space = Space::kUser, .door = "mcp", .session = {}});
  Service service(*agent, *names, *view, clock,
                  {.tools = select_tools(std::nullopt, {}).value(), .version = "0", .session = {}});
  int input[2];
  int output[2];
  ASSERT_EQ(::pipe2(input, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(output, O_CLOEXEC), 0);
  Fd input_end(input[0]);
  Fd client_writes(input[1]);
  Fd client_reads(output[0]);
  Fd output_end(output[1]);
  ASSERT_GT(::fcntl(output_end.get(), F_SETPIPE_SZ, 4096), 0);
  // The first answer alone fills the output.
  std::string lines =
      R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}})"
      "\n"
      R"({"jsonrpc":"2.0","id":2,"method":"tools/list"})"
      "\n";
  for (int i = 3; i < 300; ++i) lines += fmt::format("{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}}\n", i);
  ASSERT_EQ(::write(client_writes.get(), lines.data(), lines.size()), static_cast<ssize_t>(lines.size()));
  client_writes = Fd();
  EXPECT_OK(serve_stdio(
      service,
      {.input = input_end.get(), .output = output_end.get(), .unread_patience = std::chrono::milliseconds(20)}));
}

}  // namespace
}  // namespace warren::mcp
