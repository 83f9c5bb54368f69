#include "cli/show/editor.h"

#include <cerrno>
#include <cstdlib>

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

}  // namespace

Result<DraftFolder> DraftFolder::make(Context& context, std::string_view name) {
  std::string parent = context.environment("TMPDIR").value_or("");
  if (!parent.starts_with('/')) parent = "/tmp";
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
