// An agent's memory in C++: its namespace, with the rights that the agent itself has.
//
//   cmake: find_package(warren REQUIRED), target_link_libraries(memory PRIVATE warren::warren)
//   else:  g++ memory.cc $(pkg-config --cflags --libs warren)
#include <chrono>
#include <cstdio>

#include <warren/agent.h>

namespace {

warren::Status run(const char* path) {
  auto agent = WARREN_TRY(warren::Agent::open({.path = path}));
  warren::Vfs vfs = agent->vfs();

  // Working memory lasts as long as the object; an answer from elsewhere is good for ten minutes.
  WARREN_TRY(vfs.write("/mem/working/task.json", R"({"query": "What is a warren?"})"));
  WARREN_TRY(vfs.write("/state/weather.json", R"({"rain": true})", {.time_to_live = std::chrono::minutes(10)}));

  // What happened is only ever added to.
  WARREN_TRY(vfs.append("/mem/episodic/session.jsonl", R"({"answer": "A place with many rabbits."})"));
  if (vfs.remove("/mem/episodic/session.jsonl").ok()) std::puts("this is not printed");

  // The rules are for the agent to read, and for its operator to change.
  warren::Status refused = vfs.write("/policy/rules.json", "{}");
  std::printf("%s\n", refused.ok() ? "this is not printed either" : refused.error().message().c_str());

  std::string episode = WARREN_TRY(vfs.read("/mem/episodic/session.jsonl"));
  std::fputs(episode.c_str(), stdout);
  return warren::Ok{};
}

}  // namespace

int main(int argc, char** argv) {
  warren::Status done = run(argc > 1 ? argv[1] : "memory.db");
  if (done.ok()) return 0;
  std::fprintf(stderr, "memory: %s\n", done.error().message().c_str());
  return 1;
}
