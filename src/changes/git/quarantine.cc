#include "changes/git/quarantine.h"

#include <algorithm>
#include <chrono>
#include <unordered_set>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "changes/apply/stage.h"
#include "changes/git/git_refs.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "os/files/host_tree.h"

namespace warren {
namespace {

constexpr std::string_view kObjects = "/.git/objects/";
constexpr std::size_t kShallowBytes = std::size_t{16} << 20;

bool is_hex(std::string_view text, std::size_t size) {
  return text.size() == size && std::all_of(text.begin(), text.end(), is_lower_hex_digit);
}

// Below "objects/"; "" for a change that is no object.
std::string object_name_of(const TreeChange& change) {
  bool is_there = change.after && change.after->is_file() && change.path.starts_with(kObjects);
  std::string name = is_there ? change.path.substr(kObjects.size()) : std::string();
  return object_file_of(name) == ObjectFile::kNone ? std::string() : name;
}

// Loose objects that the base's repository has, by name: "ab/cdef…". After a merge, it has most of them.
Result<std::unordered_set<std::string>> list_known(Git& base, const std::vector<TreeChange>& all) {
  std::unordered_set<std::string> known;
  std::string ids;
  for (const TreeChange& change : all) {
    std::string name = object_name_of(change);
    if (object_file_of(name) == ObjectFile::kLoose) ids += name.erase(2, 1) + "\n";
  }
  if (ids.empty()) return known;
  std::string found = WARREN_TRY(base.ask_with({"cat-file", "--batch-check=%(objectname)"}, ids));
  for_each_line(found, [&](std::string_view line) {
    if (is_object_id(line)) known.insert(std::string(line).insert(2, "/"));  // otherwise it is missing
  });
  return known;
}

class ObjectCopy {
 public:
  ObjectCopy(const AgentOverlay& overlay, HostTree& host, const Git& base, const std::string& path,
             std::unordered_set<std::string> known)
      : overlay_(overlay), host_(host), deadline_(base.deadline()), git_(path), known_(std::move(known)) {
    git_.set_deadline(std::min(deadline_, std::chrono::steady_clock::now() + limits::kGitTime));  // for all packs
  }

  Status add(const TreeChange& change) {
    std::string name = object_name_of(change);
    if (name.empty() || known_.contains(name)) return Ok{};
    ObjectFile what = object_file_of(name);
    bytes_ += change.after->size;
    if (++count_ > limits::kGitObjects || bytes_ > limits::kGitObjectBytes || change.after->size > bytes_)
      return Error(Code::kTooLarge, "the agent's commits have too many or too large objects",
                   "--no-commits applies the changes as files");
    return what == ObjectFile::kLoose ? add_loose(change.path, name) : add_pack(change.path);
  }

 private:
  Status add_loose(const std::string& path, const std::string& name) {
    std::string dir = "/objects/" + name.substr(0, 2);
    if (!WARREN_TRY(host_.find(dir))) WARREN_TRY(host_.make_dir(dir, 0700));
    return copy(path, "/objects/" + name);
  }

  // Git indexes it again, and so looks at each object in it.
  Status add_pack(const std::string& path) {
    std::string draft = fmt::format("/incoming-{}", count_);
    WARREN_TRY(copy(path, draft));
    Fd pack = WARREN_TRY(host_.open_file(draft, O_RDONLY));
    Captured done = WARREN_TRY(git_.run({"index-pack", "--stdin", "--fix-thin", "--strict"}, pack.get()));
    if (done.status != 0) {
      return Error(Code::kCorrupt,
                   fmt::format("the agent's pack {} is invalid: {}", quote(path), trimmed(done.errors, kWhitespace)));
    }
    return host_.remove_file(draft);
  }

  Status copy(const std::string& from, const std::string& to) {
    if (std::chrono::steady_clock::now() > deadline_)
      return Error(Code::kTimeout, "copying the agent's commits takes too long",
                   "--no-commits applies the changes as files");
    Fd fd = WARREN_TRY(host_.create_file(to));
    WARREN_TRY(Stager(overlay_, host_, {}).write_content(from, fd.get()));
    return Ok{};
  }

  const AgentOverlay& overlay_;
  HostTree& host_;
  Git::Deadline deadline_;
  Git git_;
  std::unordered_set<std::string> known_;
  std::size_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

// The objects of the base's repository, and where its history was cut off.
Status borrow(Git& base, const std::string& path) {
  std::string objects = WARREN_TRY(base.ask({"rev-parse", "--path-format=absolute", "--git-path", "objects"}));
  WARREN_TRY(replace_host_file(path + "/objects/info/alternates", alternates_text(objects), 0600));
  std::string shallow = WARREN_TRY(base.ask({"rev-parse", "--path-format=absolute", "--git-path", "shallow"}));
  Result<std::string> cut = read_host_file(shallow, kShallowBytes);
  if (!cut.ok()) return cut.error().code() == Code::kNotFound ? Status(Ok{}) : Status(std::move(cut).error());
  return replace_host_file(path + "/shallow", *cut, 0600);
}

}  // namespace

ObjectFile object_file_of(std::string_view name) {
  std::size_t slash = name.find('/');
  if (slash == name.npos) return ObjectFile::kNone;
  std::string_view dir = name.substr(0, slash);
  std::string_view file = name.substr(slash + 1);
  bool is_loose = is_hex(dir, 2) && (is_hex(file, 38) || is_hex(file, 62));
  if (is_loose) return ObjectFile::kLoose;
  constexpr std::string_view kPrefix = "pack-";
  constexpr std::string_view kSuffix = ".pack";
  if (dir != "pack" || !file.starts_with(kPrefix) || !file.ends_with(kSuffix)) return ObjectFile::kNone;
  file = file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size());
  return is_hex(file, 40) || is_hex(file, 64) ? ObjectFile::kPack : ObjectFile::kNone;
}

Status make_quarantine(const AgentOverlay& overlay, const std::vector<TreeChange>& all, Git& base,
                       const std::string& path) {
  std::string format = WARREN_TRY(base.ask({"rev-parse", "--show-object-format"}));
  WARREN_TRY(make_host_dirs(path, 0700));
  Git git(path);
  WARREN_TRY(git.ask({"init", "--quiet", "--bare", "--template=", "--object-format=" + format, path}));
  // Git compares each object with ten others to write a pack, and holds all of them for that.
  WARREN_TRY(git.ask({"config", "pack.window", "0"}));
  WARREN_TRY(git.ask({"config", "core.bigFileThreshold", limits::kGitStreamedAbove}));
  WARREN_TRY(make_host_dirs(path + "/objects/info", 0700));
  WARREN_TRY(borrow(base, path));
  auto host = WARREN_TRY(HostTree::open(path));
  std::unordered_set<std::string> known = WARREN_TRY(list_known(base, all));
  ObjectCopy copy(overlay, *host, base, path, std::move(known));
  for (const TreeChange& change : all) WARREN_TRY(copy.add(change));
  return Ok{};
}

Result<std::optional<ScratchDir>> borrow_commit(const AgentOverlay& overlay, const std::vector<TreeChange>& all,
                                                const std::string& commit, Git& base) {
  std::optional<ScratchDir> none;
  if (WARREN_TRY(has_commit(base, commit))) return none;
  ScratchDir scratch = WARREN_TRY(ScratchDir::make("commit"));
  std::string path = scratch.path() + "/quarantine";
  WARREN_TRY(make_quarantine(overlay, all, base, path));
  base.borrow_objects(path + "/objects");
  return std::optional(std::move(scratch));
}

}  // namespace warren
