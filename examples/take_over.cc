// Reviews what a session of `warren run` has changed, and takes it over: everything but what runs by itself.
//
//   take_over [SESSION]: the newest one if none is named
#include <cstdio>

#include <warren/changes.h>

namespace {

const char* word(warren::ChangeKind kind) {
  switch (kind) {
    case warren::ChangeKind::kDeleted: return "deleted";
    case warren::ChangeKind::kModified: return "modified";
    case warren::ChangeKind::kRenamed: return "renamed";
    case warren::ChangeKind::kAdded: return "added";
  }
  return "changed";
}

warren::Result<std::string> newest_session() {
  std::vector<warren::Session> sessions = WARREN_TRY(warren::list_sessions());
  if (sessions.empty()) return warren::Error(warren::Code::kNotFound, "there are no sessions");
  return "session:" + sessions.front().id;
}

warren::Status run(int argc, char** argv) {
  std::string id = argc > 1 ? argv[1] : "";
  if (id.empty()) id = WARREN_TRY(newest_session());
  auto changes = WARREN_TRY(warren::Changes::open({.id = id}));

  warren::ApplyOptions options;
  std::vector<warren::Change> all = WARREN_TRY(changes->list());
  for (const warren::Change& change : all) {
    std::printf("%s %s\n", word(change.kind), change.path.c_str());
    for (const std::string& remark : change.remarks) std::printf("  %s\n", remark.c_str());
    if (!change.remarks.empty()) options.excluded.push_back(change.path);
  }

  options.on_conflict = warren::OnConflict::kMerge;
  warren::ApplyResult done = WARREN_TRY(changes->apply(options));
  for (const warren::ChangeConflict& one : done.conflicts) {
    std::printf("conflict: %s: %s\n", one.path.c_str(), one.why.c_str());
  }
  std::printf("%zu applied to %s\n", done.applied.size(), changes->base().c_str());
  return warren::Ok{};
}

}  // namespace

int main(int argc, char** argv) {
  warren::Status done = run(argc, argv);
  if (done.ok()) return 0;
  std::fprintf(stderr, "take_over: %s\n", done.error().message().c_str());
  return 1;
}
