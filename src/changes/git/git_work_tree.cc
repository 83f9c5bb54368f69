#include "changes/git/git_work_tree.h"

#include <sys/stat.h>

#include "changes/apply/stage.h"
#include "fs/path_ops.h"
#include "os/error.h"

namespace warren {

Status write_for_git(const AgentOverlay& overlay, const ChangedFile::Side& file, HostTree& host,
                     const std::string& name, const std::optional<std::string>& content) {
  std::string path = "/" + name;
  for (std::size_t end = path.find('/', 1); end != path.npos; end = path.find('/', end + 1)) {
    std::string dir = path.substr(0, end);
    if (!WARREN_TRY(host.find(dir))) WARREN_TRY(host.make_dir(dir, 0700));
  }
  if (file.node.is_symlink()) {
    std::string target = WARREN_TRY(read_link(overlay.merged, file.path));
    return host.make_symlink(path, target);
  }
  Fd fd = WARREN_TRY(host.create_file(path));
  if (content) WARREN_TRY(write_all(fd.get(), as_bytes(*content)));
  else WARREN_TRY(Stager(overlay, host, {}).write_content(file.path, fd.get()));
  bool is_program = (file.node.mode & 0100U) != 0;
  if (::fchmod(fd.get(), is_program ? 0700 : 0600) != 0) return system_error(errno, "set a mode");
  return Ok{};
}

}  // namespace warren
