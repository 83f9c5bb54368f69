// A backend of your own in C++: a store in the program, mounted at /mem/notes of an agent's namespace.
//
//   cmake: find_package(warren REQUIRED), target_link_libraries(own_backend PRIVATE warren::warren)
//   else:  g++ own_backend.cc $(pkg-config --cflags --libs warren)
#include <cstdio>
#include <map>
#include <mutex>

#include <warren/agent.h>

namespace {

// Values in a map. A real one would ask a service; what it promises is the same (warren/v1/blob_store.h).
class Notes final : public warren::BlobStore {
 public:
  std::string name() const override { return "notes of this program"; }
  warren::BlobAbilities abilities() const override { return {.conditional_puts = true, .lasts = false}; }

  warren::Result<std::optional<warren::Blob>> get(std::string_view key) override {
    std::lock_guard lock(mutex_);
    auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

  warren::Result<warren::BlobInfo> put(std::string_view key, std::string_view content,
                                       const warren::PutOptions& options) override {
    std::lock_guard lock(mutex_);
    auto found = values_.find(key);
    bool exists = found != values_.end();
    if (options.if_absent && exists) return warren::Error(warren::Code::kExists, "it has a value");
    if (options.if_match && (!exists || found->second.info.version != *options.if_match)) {
      return warren::Error(warren::Code::kConflict, "another writer was faster");
    }
    warren::BlobInfo info{.key = std::string(key), .size = content.size(), .version = std::to_string(++last_version_)};
    values_.insert_or_assign(std::string(key), warren::Blob{.info = info, .content = std::string(content)});
    return info;
  }

  warren::Result<bool> remove(std::string_view key) override {
    std::lock_guard lock(mutex_);
    return values_.erase(std::string(key)) > 0;
  }

  warren::Result<std::vector<warren::BlobInfo>> list(std::string_view prefix, std::string_view from,
                                                     std::size_t limit) override {
    std::lock_guard lock(mutex_);
    std::vector<warren::BlobInfo> found;
    for (auto it = values_.lower_bound(from < prefix ? prefix : from); it != values_.end(); ++it) {
      if (!it->first.starts_with(prefix) || found.size() == limit) break;
      found.push_back(it->second.info);
    }
    return found;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, warren::Blob, std::less<>> values_;
  std::uint64_t last_version_ = 0;
};

warren::Status run(const char* path) {
  auto notes = std::make_shared<Notes>();
  auto agent = WARREN_TRY(warren::Agent::open({.path = path, .mounts = {{.path = "/mem/notes", .store = notes}}}));
  warren::Vfs vfs = agent->vfs();
  WARREN_TRY(vfs.write("/mem/notes/2026/today.md", "It rains.\n"));
  WARREN_TRY(vfs.append("/mem/notes/2026/today.md", "It still rains.\n"));

  std::optional<warren::Blob> stored = WARREN_TRY(notes->get("2026/today.md"));
  if (stored) std::fputs(stored->content.c_str(), stdout);
  std::vector<std::string> names = WARREN_TRY(vfs.list("/mem/notes/2026"));
  for (const std::string& name : names) std::puts(name.c_str());
  return warren::Ok{};
}

}  // namespace

int main(int argc, char** argv) {
  warren::Status done = run(argc > 1 ? argv[1] : "own_backend.db");
  if (done.ok()) return 0;
  std::fprintf(stderr, "own_backend: %s\n", done.error().message().c_str());
  return 1;
}
