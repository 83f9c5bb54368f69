// Files of the machine.
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/locate.h"
#include "base/bytes.h"
#include "base/path.h"
#include "drives/ingest.h"
#include "drives/ingest_parts.h"
#include "os/error.h"
#include "os/fd.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

Result<std::string> read_below(int dir, std::string_view name, std::uint64_t size_bytes_max) {
  Fd file = WARREN_TRY(open_host_file_below(dir, name));
  return read_added_file(file.get(), size_bytes_max);
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

void add_rules_of(int dir, std::string_view in_repository, IgnoreStack& ignored) {
  for (std::string_view file : kIgnoreFiles) {
    Result<std::string> text = read_below(dir, file, kIgnoreFileBytes);
    if (text.ok()) ignored.add(in_repository, IgnoreRules(*text));
  }
}

IgnoreRules::Kind kind_of(std::uint32_t mode) {
  return S_ISDIR(mode) ? IgnoreRules::Kind::kDirectory : IgnoreRules::Kind::kFile;
}

}  // namespace

Result<std::string> read_added_file(int file, std::uint64_t size_bytes_max) {
  struct stat info {};
  if (::fstat(file, &info) != 0) return system_error(errno, "look at it");
  if (static_cast<std::uint64_t>(info.st_size) > size_bytes_max) {
    return Error(Code::kTooLarge,
                 fmt::format("it has {} bytes; items are added up to {}", info.st_size, size_bytes_max));
  }
  std::string content(static_cast<std::size_t>(info.st_size) + 1, '\0');  // one more shows that it has grown
  std::size_t count = WARREN_TRY(read_full(file, as_mutable_bytes(content)));
  content.resize(std::min(count, static_cast<std::size_t>(info.st_size)));
  return content;
}

bool is_never_added(std::string_view name) { return name == ".git" || name == kAgentsDir; }

std::string below_path(std::string_view dir, std::string_view name) {
  return dir.empty() ? std::string(name) : fmt::format("{}/{}", dir, name);
}

std::string folder_of(const IngestSource& source) {
  return source.is_folder ? source.host_path : std::string(directory_of(source.host_path));
}

Status check_identity(int dir, const IngestSource& source) {
  if (!source.identity) return Ok{};
  FolderIdentity found = WARREN_TRY(identify_folder(dir));
  if (found == *source.identity) return Ok{};
  return Error(Code::kConflict, fmt::format("{} is another folder now", quote(folder_of(source))));
}

bool Ingest::is_wanted(std::string_view relative) const {
  return include_.is_empty() || include_.judge(relative, IgnoreRules::Kind::kFile) == Ignore::kYes;
}

bool Ingest::is_left_out(const Folder& folder, std::string_view path, std::string_view name, std::uint32_t mode) const {
  bool is_dir = S_ISDIR(mode);
  return (!is_dir && !S_ISREG(mode)) || is_never_added(name) || exclude_.judge(path, kind_of(mode)) == Ignore::kYes ||
         folder.ignored.is_ignored(below_path(folder.prefix, path), kind_of(mode)) || (!is_dir && !is_wanted(path));
}

Result<IngestSource> Ingest::find_source(const std::string& host_path) {
  std::string whole = WARREN_TRY(canonical_host_path(host_path));
  std::optional<struct stat> info = WARREN_TRY(find_host_file(whole));
  if (!info) return Error(Code::kNotFound, fmt::format("no {}", quote(host_path)));
  if (!S_ISDIR(info->st_mode) && !S_ISREG(info->st_mode)) {
    return Error(Code::kInvalid, fmt::format("{} is neither a file nor a folder", quote(host_path)));
  }
  bool is_disk = options_.drive.empty() || options_.drive == "disk";
  Ref ref = WARREN_TRY(make_ref(is_disk ? "disk" : options_.drive, is_disk ? whole : std::string(base_name(whole))));
  return IngestSource{.host_path = std::move(whole), .top = std::move(ref), .is_folder = S_ISDIR(info->st_mode)};
}

Status Ingest::add_path(const std::string& host_path) {
  IngestSource source = WARREN_TRY(find_source(host_path));
  if (source.is_folder) {
    Folder folder = WARREN_TRY(open_folder(source));
    return walk_folder(folder, {""});
  }
  if (measured_ != nullptr) {
    std::optional<struct stat> info = WARREN_TRY(find_host_file(source.host_path));
    if (info) count_file(*info);
    return Ok{};
  }
  Fd dir = WARREN_TRY(open_host_dir(std::string(directory_of(source.host_path))));
  return add_file(dir.get(), base_name(source.host_path), source.host_path, source.top);
}

void Ingest::count_file(const struct stat& info) {
  ++measured_->files;
  measured_->bytes += static_cast<std::uint64_t>(info.st_size);
}

Result<IngestTotals> Ingest::measure_path(const std::string& host_path) {
  IngestTotals totals;
  std::uint64_t ignored = report_.ignored;
  measured_ = &totals;
  Status done = add_path(host_path);
  measured_ = nullptr;
  report_.ignored = ignored;
  WARREN_TRY(std::move(done));
  return totals;
}

// Opened here and read later, by one of several threads.
Status Ingest::add_file(int dir, std::string_view name, const std::string& host_path, const Ref& ref) {
  WARREN_TRY(check_not_cancelled());
  Result<Fd> file = open_host_file_below(dir, name);
  bool is_out_of_descriptors = !file.ok() && file.error().code() == Code::kLimit && !drafts_.empty();
  if (is_out_of_descriptors) {
    WARREN_TRY(finish());
    file = open_host_file_below(dir, name);
  }
  struct stat info {};
  Status looked = !file.ok()                         ? Status(file.error())
                  : ::fstat(file->get(), &info) != 0 ? Status(system_error(errno, "look at it"))
                                                     : Status(Ok{});
  if (!looked.ok()) {
    fail(host_path, looked.error());
    return Ok{};
  }
  Draft draft{.ref = ref, .file = std::move(file).take_value(), .content = {}, .charset = {}, .origin = {}};
  draft.origin.source = host_path;
  return queue_draft(std::move(draft), static_cast<std::uint64_t>(info.st_size));
}

Result<Ingest::Folder> Ingest::open_folder(const IngestSource& source) {
  std::string repository = repository_of(source.host_path);
  Folder folder {
    .root = WARREN_TRY(open_host_dir(source.host_path))
    , .host_path = source.host_path, .top = source.top
  };
  WARREN_TRY(check_identity(folder.root.get(), source));
  if (repository != source.host_path) folder.prefix = source.host_path.substr(repository.size() + 1);
  folder.ignored.add("", rules_in(repository + "/.git/info/exclude"));
  // Of the folders above; those inside are read on the way.
  for (std::size_t at = 0; !folder.prefix.empty() && at != std::string::npos;) {
    std::string dir = folder.prefix.substr(0, at);
    for (std::string_view file : kIgnoreFiles) {
      folder.ignored.add(dir, rules_in(fmt::format("{}/{}", below_path(repository, dir), file)));
    }
    at = folder.prefix.find('/', at == 0 ? 0 : at + 1);
  }
  return folder;
}

Status Ingest::walk_folder(Folder& folder, std::vector<std::string> left) {
  while (!left.empty()) {
    std::string relative = std::move(left.back());
    left.pop_back();
    WARREN_TRY(visit_folder(folder, relative, left));
  }
  return Ok{};
}

// It is there, but cannot be looked at: its items stay.
void Ingest::note_unread(const Folder& folder, std::string_view relative, const Error& error) {
  std::string host_path = relative.empty() ? folder.host_path : below_path(folder.host_path, relative);
  if (measured_ == nullptr) fail(std::move(host_path), error);
  Result<Ref> ref = make_ref(folder.top.drive, below_path(folder.top.path, relative));
  if (seen_ && ref.ok()) seen_->unread.push_back(*std::move(ref));
}

Status Ingest::visit_folder(Folder& folder, std::string_view relative, std::vector<std::string>& left) {
  std::string host_path = relative.empty() ? folder.host_path : below_path(folder.host_path, relative);
  Result<Fd> dir = open_host_dir_below(folder.root.get(), relative);
  bool is_followed = measured_ == nullptr || seen_ != nullptr;
  if (dir.ok() && options_.on_folder && is_followed) WARREN_TRY(options_.on_folder(dir->get(), host_path));
  Result<std::vector<HostEntry>> entries =
      dir.ok() ? list_host_dir(dir->get()) : Result<std::vector<HostEntry>>(dir.error());
  if (!entries.ok()) {
    if (entries.error().code() != Code::kNotFound) note_unread(folder, relative, entries.error());
    return Ok{};
  }
  std::string in_repository = relative.empty() ? folder.prefix : below_path(folder.prefix, relative);
  add_rules_of(dir->get(), in_repository, folder.ignored);
  for (const HostEntry& entry : *entries) {
    WARREN_TRY(visit_entry(folder, dir->get(), relative, entry.name, entry.attributes, left));
  }
  return Ok{};
}

Status Ingest::visit_entry(Folder& folder, int dir, std::string_view relative, std::string_view name,
                           const struct stat& info, std::vector<std::string>& left) {
  std::string path = below_path(relative, name);
  if (is_left_out(folder, path, name, info.st_mode)) {
    ++report_.ignored;
    return Ok{};
  }
  if (S_ISDIR(info.st_mode)) {
    left.push_back(std::move(path));
    return Ok{};
  }
  std::string host_path = below_path(folder.host_path, path);
  Result<Ref> ref = make_ref(folder.top.drive, below_path(folder.top.path, path));
  if (!ref.ok()) {
    if (measured_ == nullptr) fail(host_path, ref.error());
    return Ok{};
  }
  if (seen_) seen_->files.insert(to_string(*ref));
  if (measured_ != nullptr) {
    count_file(info);
    return Ok{};
  }
  return add_file(dir, name, host_path, *ref);
}

// One file or directory below the folder, if it is there and nothing leaves it out.
Status Ingest::visit_place(Folder& folder, std::string_view relative) {
  if (relative.empty()) return walk_folder(folder, {""});
  Fd dir = WARREN_TRY(open_host_dir_below(folder.root.get(), ""));
  for (std::size_t at = 0;;) {
    std::size_t end = relative.find('/', at);
    std::string_view path = relative.substr(0, end);
    std::string_view name = path.substr(at);
    std::string_view above = relative.substr(0, at == 0 ? 0 : at - 1);
    add_rules_of(dir.get(), above.empty() ? folder.prefix : below_path(folder.prefix, above), folder.ignored);
    struct stat info {};
    if (::fstatat(dir.get(), std::string(name).c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      bool is_gone = errno == ENOENT || errno == ENOTDIR;
      if (!is_gone) note_unread(folder, path, system_error(errno, "look at it"));
      return Ok{};
    }
    if (end == relative.npos) {
      std::vector<std::string> left;
      WARREN_TRY(visit_entry(folder, dir.get(), above, name, info, left));
      return walk_folder(folder, std::move(left));
    }
    if (!S_ISDIR(info.st_mode) || is_left_out(folder, path, name, info.st_mode)) return Ok{};
    Result<Fd> next = open_host_dir_below(folder.root.get(), path);
    if (!next.ok()) {
      Code code = next.error().code();
      bool is_gone = code == Code::kNotFound || code == Code::kNotDirectory;  // meanwhile: that is another event
      if (!is_gone) note_unread(folder, path, next.error());
      return Ok{};
    }
    dir = std::move(next).take_value();
    at = end + 1;
  }
}

}  // namespace warren
