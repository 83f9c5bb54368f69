// The user's editor on a private copy of something.
#pragma once

#include <string>
#include <string_view>

#include "cli/context.h"

namespace warren::cli {

// A folder that only the user can enter, with one file in it. It stays, so that nothing that was written is lost,
// unless remove() is called.
class DraftFolder {
 public:
  enum class Content { kAny, kSecret };

  // In TMPDIR or /tmp; what is secret only in memory: in XDG_RUNTIME_DIR or /dev/shm, or nowhere. `name` is the file's:
  // what is not a letter, digit, '.', '-' or '_' is replaced, and a name does not begin with '.', because editors read
  // such files as settings.
  static Result<DraftFolder> make(Context& context, std::string_view name, Content content = Content::kAny);
  const std::string& file() const { return file_; }
  void remove() const;  // with what the editor has left there

 private:
  DraftFolder(std::string path, std::string file) : path_(std::move(path)), file_(std::move(file)) {}
  std::string path_;
  std::string file_;
};

// Runs VISUAL, EDITOR or vi on the file and waits. The variable may have options: it is a shell's command, as for other
// programs. kInvalid if the editor fails.
Status run_editor(Context& context, const std::string& file);

}  // namespace warren::cli
