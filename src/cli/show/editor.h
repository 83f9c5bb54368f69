// The user's editor on a private copy of something.
#pragma once

#include <string>
#include <string_view>

#include "cli/context.h"
#include "os/fd.h"

namespace warren::cli {

// A folder that only the user can enter, with one file in it. It stays, so that nothing that was written is lost,
// unless remove() is called; one with a secret stays only if keep() is called. While this process or the editor lives,
// such a folder is locked; one that nobody has locked was left by a killed process, and the next make() removes it.
class DraftFolder {
 public:
  enum class Content { kAny, kSecret };

  // In TMPDIR or /tmp; what is secret only in memory: in XDG_RUNTIME_DIR or /dev/shm, or nowhere. `name` is the file's:
  // what is not a letter, digit, '.', '-' or '_' is replaced, and a name does not begin with '.', because editors read
  // such files as settings.
  static Result<DraftFolder> make(Context& context, std::string_view name, Content content = Content::kAny);
  const std::string& file() const { return file_; }
  // kInvalid if the editor has left something else than a regular file there; kNotFound, kTooLarge.
  Result<std::string> read(std::size_t size_bytes_max) const;
  void keep();          // file() is another name afterwards
  void remove() const;  // with what the editor has left there

 private:
  DraftFolder(std::string path, std::string file, Fd lock)
      : path_(std::move(path)), file_(std::move(file)), lock_(std::move(lock)) {}
  std::string path_;
  std::string file_;
  Fd lock_;  // not open if there is no secret
};

// Runs VISUAL, EDITOR or vi on the file and waits. The variable may have options: it is a shell's command, as for other
// programs. kInvalid if the editor fails.
Status run_editor(Context& context, const std::string& file);

}  // namespace warren::cli
