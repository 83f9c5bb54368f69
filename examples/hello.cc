// A first agent in C++: writes a note, some state and a tool call, and reads the note back.
//
//   cmake: find_package(warren REQUIRED), target_link_libraries(hello PRIVATE warren::warren)
//   else:  g++ hello.cc $(pkg-config --cflags --libs warren)
#include <cstdio>

#include <warren/agent.h>

namespace {

warren::Status run(const char* path) {
  auto agent = WARREN_TRY(warren::Agent::open({.path = path}));

  WARREN_TRY(agent->files().write_file("/notes/first.md", "Hello from C++.\n"));
  WARREN_TRY(agent->kv().set("runs", "1"));

  std::int64_t call = WARREN_TRY(agent->tools().start("greet", R"({"who": "world"})"));
  WARREN_TRY(agent->tools().succeed(call, R"("greeted")"));

  // Either both of these happen, or neither.
  auto unit = WARREN_TRY(agent->begin_unit());
  WARREN_TRY(agent->files().rename("/notes/first.md", "/notes/kept.md"));
  WARREN_TRY(agent->kv().set("kept", "true"));
  WARREN_TRY(unit->commit());

  std::string note = WARREN_TRY(agent->files().read_file("/notes/kept.md"));
  std::fputs(note.c_str(), stdout);
  return warren::Ok{};
}

}  // namespace

int main(int argc, char** argv) {
  warren::Status done = run(argc > 1 ? argv[1] : "hello.db");
  if (done.ok()) return 0;
  std::fprintf(stderr, "hello: %s\n", done.error().message().c_str());
  return 1;
}
