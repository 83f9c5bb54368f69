#include "cli/show/editor.h"

#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/bytes.h"
#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "os/processes/child.h"

namespace warren::cli {
namespace {

constexpr std::size_t kDraftNameBytes = 100;
constexpr std::string_view kKeptPrefix = "warren-edit-";
constexpr std::string_view kSecretPrefix = "warren-secret-";  // goes with the processes that have it locked

std::string draft_name(std::string_view name) {
  std::string plain;
  for (char c : name.substr(name.size() - std::min(name.size(), kDraftNameBytes))) {
    bool is_plain = is_letter(c) || is_digit(c) || c == '.' || c == '-' || c == '_';
    plain += is_plain ? c : '_';
  }
  plain.erase(0, plain.find_first_not_of(".-"));
  return plain.empty() ? "file" : plain;
}

bool is_in_memory(const std::string& dir) {
  struct statfs info {};
  return ::statfs(dir.c_str(), &info) == 0 && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

std::vector<std::string> places_in_memory(Context& context) {
  std::vector<std::string> places;
  for (const std::string& parent : {context.environment("XDG_RUNTIME_DIR").value_or(""), std::string("/dev/shm")}) {
    bool can_be_used = parent.starts_with('/') && is_in_memory(parent) && ::access(parent.c_str(), W_OK | X_OK) == 0;
    if (can_be_used) places.push_back(parent);
  }
  return places;
}

Result<std::string> find_place(Context& context, DraftFolder::Content content) {
  if (content == DraftFolder::Content::kAny) {
    std::string parent = context.environment("TMPDIR").value_or("");
    return parent.starts_with('/') ? parent : std::string("/tmp");
  }
  std::vector<std::string> places = places_in_memory(context);
  if (!places.empty()) return places.front();
  return Error(Code::kDenied, "it is encrypted, and there is no place in memory for the editor's copy",
               "set XDG_RUNTIME_DIR to a directory of your own on a tmpfs");
}

void remove_with_files(const std::string& folder) {
  Result<Fd> dir = open_host_dir(folder);
  if (!dir.ok()) return;
  Result<std::vector<HostEntry>> left = list_host_dir(dir->get());
  if (!left.ok()) return;
  for (const HostEntry& entry : *left) {
    remove_host_file(join_path(folder, entry.name)).ignore("a leftover of the editor does no harm");
  }
  ::rmdir(folder.c_str());
}

Result<std::string> make_folder(const std::string& parent, std::string_view prefix) {
  std::string path = join_path(parent, fmt::format("{}XXXXXX", prefix));
  if (::mkdtemp(path.data()) == nullptr) return system_error(errno, fmt::format("make a folder in {}", quote(parent)));
  return path;
}

// Not open if somebody else has it locked, or it is gone. The editor inherits it, so that it holds the lock, too.
Fd lock_folder(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  struct stat opened {};
  bool is_ours = fd.is_open() && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0 && ::fstat(fd.get(), &opened) == 0 &&
                 opened.st_nlink > 0 && opened.st_uid == ::geteuid();
  return is_ours ? std::move(fd) : Fd();
}

void remove_dead_drafts(Context& context) {
  for (const std::string& parent : places_in_memory(context)) {
    Result<Fd> dir = open_host_dir(parent);
    if (!dir.ok()) continue;
    Result<std::vector<HostEntry>> entries = list_host_dir(dir->get());
    if (!entries.ok()) continue;
    for (const HostEntry& entry : *entries) {
      bool is_draft = entry.name.starts_with(kSecretPrefix) && entry.attributes.st_uid == ::geteuid();
      if (!is_draft) continue;
      std::string path = join_path(parent, entry.name);
      Fd lock = lock_folder(path);
      if (lock.is_open()) remove_with_files(path);
    }
  }
}

struct LockedFolder {
  std::string path;
  Fd lock;
};

// Again if remove_dead_drafts() of another process has found it before it was locked.
Result<LockedFolder> make_locked_folder(const std::string& parent) {
  constexpr int kAttempts = 10;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string path = WARREN_TRY(make_folder(parent, kSecretPrefix));
    Fd lock = lock_folder(path);
    if (lock.is_open()) return LockedFolder{.path = std::move(path), .lock = std::move(lock)};
    ::rmdir(path.c_str());
  }
  return Error(Code::kUnavailable, fmt::format("cannot lock a folder in {}", quote(parent)));
}

}  // namespace

Result<DraftFolder> DraftFolder::make(Context& context, std::string_view name, Content content) {
  remove_dead_drafts(context);
  std::string parent = WARREN_TRY(find_place(context, content));
  LockedFolder folder;
  if (content == Content::kSecret) folder = WARREN_TRY(make_locked_folder(parent));
  else folder.path = WARREN_TRY(make_folder(parent, kKeptPrefix));
  std::string file = join_path(folder.path, draft_name(name));
  return DraftFolder(std::move(folder.path), std::move(file), std::move(folder.lock));
}

Result<std::string> DraftFolder::read(std::size_t size_bytes_max) const {
  Fd dir = WARREN_TRY(open_host_dir(path_));
  Fd fd = WARREN_TRY(open_host_file_below(dir.get(), base_name(file_)).within(fmt::format("read {}", quote(file_))));
  std::string text(size_bytes_max + 1, '\0');
  std::size_t count = WARREN_TRY(read_full(fd.get(), as_mutable_bytes(text)).within(quote(file_)));
  if (count > size_bytes_max) {
    return Error(Code::kTooLarge, fmt::format("{} has more than {} bytes", quote(file_), size_bytes_max));
  }
  text.resize(count);
  return text;
}

void DraftFolder::keep() {
  if (!lock_.is_open()) return;
  Result<std::string> kept = make_folder(std::string(directory_of(path_)), kKeptPrefix);
  if (!kept.ok() || ::rename(path_.c_str(), kept->c_str()) != 0) return;  // it stays until the next edit
  file_ = join_path(*kept, base_name(file_));
  path_ = *std::move(kept);
}

void DraftFolder::remove() const { remove_with_files(path_); }

Status run_editor(Context& context, const std::string& file) {
  std::string editor = context.environment("VISUAL").value_or("");
  if (editor.empty()) editor = context.environment("EDITOR").value_or("");
  if (editor.empty()) editor = "vi";
  std::string dir = WARREN_TRY(canonical_host_path("."));
  int status = WARREN_TRY(run_child({"sh", "-c", editor + " \"$1\"", editor, file}, dir));
  if (status != 0)
    return Error(Code::kInvalid, fmt::format("the editor {} ended with status {}", quote(editor), status));
  return Ok{};
}

}  // namespace warren::cli
