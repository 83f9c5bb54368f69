#include "cli/show/editor.h"

#include <cerrno>
#include <cstdlib>

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/path.h"
#include "os/child.h"
#include "os/error.h"
#include "os/host_files.h"

namespace warren::cli {
namespace {

constexpr std::size_t kDraftNameBytes = 100;

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

Result<std::string> find_place(Context& context, DraftFolder::Content content) {
  if (content == DraftFolder::Content::kAny) {
    std::string parent = context.environment("TMPDIR").value_or("");
    return parent.starts_with('/') ? parent : std::string("/tmp");
  }
  for (const std::string& parent : {context.environment("XDG_RUNTIME_DIR").value_or(""), std::string("/dev/shm")}) {
    bool can_be_used = parent.starts_with('/') && is_in_memory(parent) && ::access(parent.c_str(), W_OK | X_OK) == 0;
    if (can_be_used) return parent;
  }
  return Error(Code::kDenied, "it is encrypted, and there is no place in memory for the editor's copy",
               "set XDG_RUNTIME_DIR to a directory of your own on a tmpfs");
}

}  // namespace

Result<DraftFolder> DraftFolder::make(Context& context, std::string_view name, Content content) {
  std::string parent = WARREN_TRY(find_place(context, content));
  std::string path = join_path(parent, "warren-edit-XXXXXX");
  if (::mkdtemp(path.data()) == nullptr) return system_error(errno, fmt::format("make a folder in {}", quote(parent)));
  std::string file = join_path(path, draft_name(name));
  return DraftFolder(std::move(path), std::move(file));
}

void DraftFolder::remove() const {
  Result<Fd> dir = open_host_dir(path_);
  if (!dir.ok()) return;
  Result<std::vector<HostEntry>> left = list_host_dir(dir->get());
  if (!left.ok()) return;
  for (const HostEntry& entry : *left) {
    remove_host_file(join_path(path_, entry.name)).ignore("a leftover of the editor does no harm");
  }
  ::rmdir(path_.c_str());
}

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
