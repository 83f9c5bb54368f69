// Files of the machine.
#include <cerrno>

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/path.h"
#include "drives/ingest.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/host_files.h"

namespace warren {
namespace {

constexpr std::size_t kIgnoreFileBytes = std::size_t{1} << 20;
constexpr std::string_view kIgnoreFiles[] = {".gitignore", ".warrenignore"};  // the second wins

Result<std::string> read_below(int dir, std::string_view name, std::uint64_t size_bytes_max) {
  Fd file = WARREN_TRY(open_host_file_below(dir, name));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return system_error(errno, "look at it");
  if (static_cast<std::uint64_t>(info.st_size) > size_bytes_max) {
    return Error(Code::kTooLarge,
                 fmt::format("it has {} bytes; items are added up to {}", info.st_size, size_bytes_max));
  }
  std::string content(static_cast<std::size_t>(info.st_size) + 1, '\0');  // one more shows that it has grown
  std::size_t count = WARREN_TRY(read_full(file.get(), as_mutable_bytes(content)));
  content.resize(std::min(count, static_cast<std::size_t>(info.st_size)));
  return content;
}

std::string below_path(std::string_view dir, std::string_view name) {
  return dir.empty() ? std::string(name) : fmt::format("{}/{}", dir, name);
}

// The repository that a folder is in, or the folder itself.
std::string repository_of(const std::string& folder) {
  for (std::string at = folder; at.size() > 1; at = std::string(directory_of(at))) {
    Result<std::optional<struct stat>> found = find_host_link(at + "/.git");
    if (found.ok() && *found) return at;
  }
  return folder;
}

IgnoreRules rules_in(const std::string& file) {
  Result<std::string> text = read_host_file(file, kIgnoreFileBytes);
  return text.ok() ? IgnoreRules(*text) : IgnoreRules();
}

}  // namespace

// A folder that is walked. Patterns are bound to the repository that it is in.
struct Ingest::Folder {
  Fd root;
  std::string host_path;  // absolute
  Ref top;
  std::string prefix;  // from the repository to the folder; "" if they are the same
  IgnoreStack ignored;
};

bool Ingest::is_wanted(std::string_view relative) const {
  return include_.is_empty() || include_.judge(relative, IgnoreRules::Kind::kFile) == Ignore::kYes;
}

Status Ingest::add_path(const std::string& host_path) {
  std::string whole = WARREN_TRY(canonical_host_path(host_path));
  std::optional<struct stat> info = WARREN_TRY(find_host_file(whole));
  if (!info) return Error(Code::kNotFound, fmt::format("no {}", quote(host_path)));
  bool is_disk = options_.drive.empty() || options_.drive == "disk";
  Ref ref = WARREN_TRY(make_ref(is_disk ? "disk" : options_.drive, is_disk ? whole : std::string(base_name(whole))));
  if (S_ISDIR(info->st_mode)) return add_folder(whole, ref);
  if (!S_ISREG(info->st_mode)) {
    return Error(Code::kInvalid, fmt::format("{} is neither a file nor a folder", quote(host_path)));
  }
  Fd dir = WARREN_TRY(open_host_dir(std::string(directory_of(whole))));
  return add_file(dir.get(), base_name(whole), whole, ref);
}

Status Ingest::add_file(int dir, std::string_view name, const std::string& host_path, const Ref& ref) {
  Result<std::string> content = read_below(dir, name, kAddedFileBytes);
  if (!content.ok()) {
    fail(host_path, content.error());
    return Ok{};
  }
  return queue_content(ref, host_path, *std::move(content), "");
}

Status Ingest::add_folder(const std::string& host_path, const Ref& top) {
  std::string repository = repository_of(host_path);
  Folder folder {
    .root = WARREN_TRY(open_host_dir(host_path))
    , .host_path = host_path, .top = top
  };
  if (repository != host_path) folder.prefix = host_path.substr(repository.size() + 1);
  folder.ignored.add("", rules_in(repository + "/.git/info/exclude"));
  // Of the folders above; those inside are read on the way.
  for (std::size_t at = 0; !folder.prefix.empty() && at != std::string::npos;) {
    std::string dir = folder.prefix.substr(0, at);
    for (std::string_view file : kIgnoreFiles) {
      folder.ignored.add(dir, rules_in(fmt::format("{}/{}", below_path(repository, dir), file)));
    }
    at = folder.prefix.find('/', at == 0 ? 0 : at + 1);
  }
  std::vector<std::string> left{""};
  while (!left.empty()) {
    std::string relative = std::move(left.back());
    left.pop_back();
    Status visited = visit_folder(folder, relative, left);
    if (!visited.ok()) return visited;
  }
  return Ok{};
}

Status Ingest::visit_folder(Folder& folder, std::string_view relative, std::vector<std::string>& left) {
  Result<Fd> dir = open_host_dir_below(folder.root.get(), relative);
  if (!dir.ok()) {
    fail(below_path(folder.host_path, relative), dir.error());
    return Ok{};
  }
  Result<std::vector<HostEntry>> entries = list_host_dir(dir->get());
  if (!entries.ok()) {
    fail(below_path(folder.host_path, relative), entries.error());
    return Ok{};
  }
  std::string in_repository = relative.empty() ? folder.prefix : below_path(folder.prefix, relative);
  for (std::string_view file : kIgnoreFiles) {
    Result<std::string> text = read_below(dir->get(), file, kIgnoreFileBytes);
    if (text.ok()) folder.ignored.add(in_repository, IgnoreRules(*text));
  }
  for (const HostEntry& entry : *entries) {
    WARREN_TRY(visit_entry(folder, dir->get(), relative, entry.name, entry.attributes.st_mode, left));
  }
  return Ok{};
}

Status Ingest::visit_entry(Folder& folder, int dir, std::string_view relative, std::string_view name,
                           std::uint32_t mode, std::vector<std::string>& left) {
  std::string path = below_path(relative, name);
  bool is_dir = S_ISDIR(mode);
  auto kind = is_dir ? IgnoreRules::Kind::kDirectory : IgnoreRules::Kind::kFile;
  bool is_left_out = (!is_dir && !S_ISREG(mode)) || name == ".git" || exclude_.judge(path, kind) == Ignore::kYes ||
                     folder.ignored.is_ignored(below_path(folder.prefix, path), kind) || (!is_dir && !is_wanted(path));
  if (is_left_out) {
    ++report_.ignored;
    return Ok{};
  }
  if (is_dir) {
    left.push_back(std::move(path));
    return Ok{};
  }
  std::string host_path = below_path(folder.host_path, path);
  Result<Ref> ref = make_ref(folder.top.drive, below_path(folder.top.path, path));
  if (!ref.ok()) {
    fail(host_path, ref.error());
    return Ok{};
  }
  return add_file(dir, name, host_path, *ref);
}

}  // namespace warren
