// fs edit: a file of an agent in the user's editor.
#include <fmt/format.h>

#include "agent/agent_state.h"
#include "agent/files/file_verbs.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/editor.h"
#include "fs/path_ops.h"
#include "os/files/host_files.h"

namespace warren::cli {
namespace {

constexpr std::size_t kEditBytes = std::size_t{64} << 20;

struct FileBefore {
  std::optional<std::string> content;  // nullopt: there is none
  DraftFolder::Content kind = DraftFolder::Content::kAny;
};

// The agent is not open while the editor runs: others use it meanwhile.
Result<FileBefore> file_before(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kWrite));
  const std::string& path = args.get("PATH");
  bool is_there = WARREN_TRY(exists(agent->fs(), path));
  FileBefore before;
  if (WARREN_TRY(is_secret_file(*agent, path))) before.kind = DraftFolder::Content::kSecret;
  if (!is_there) {
    bool is_directory = path.ends_with('/');
    if (is_directory) return Error(Code::kIsDirectory, fmt::format("{} is the name of a directory", quote(path)));
    return before;
  }
  before.content = WARREN_TRY(read_file(agent->fs(), path, {.size_bytes_max = kEditBytes}));
  WARREN_TRY(agent->check_recorded());
  return before;
}

Status put_edited_file(Context& context, const Arguments& args, const std::optional<std::string>& before,
                       const std::string& after) {
  auto agent = WARREN_TRY(open_agent(context, args, Use::kWrite));
  return replace_if_unchanged(agent->fs(), args.get("PATH"), before, as_bytes(after));
}

Error with_draft(const Error& error, std::string_view what, DraftFolder& draft) {
  draft.keep();
  return Error(error.code(), error.message(), fmt::format("{}; what you wrote is in {}", what, quote(draft.file())));
}

Result<Exit> run_edit(Context& context, const Arguments& args) {
  const std::string& path = args.get("PATH");
  FileBefore file = WARREN_TRY(file_before(context, args));
  const std::optional<std::string>& before = file.content;
  DraftFolder folder = WARREN_TRY(DraftFolder::make(context, base_name(path), file.kind));
  WARREN_TRY(replace_host_file(folder.file(), before.value_or(""), 0600));
  Status edited = run_editor(context, folder.file());
  Result<std::string> after = folder.read(kEditBytes);
  bool is_deleted = !after.ok() && after.error().code() == Code::kNotFound;
  bool is_changed = after.ok() ? *after != before.value_or("") : !is_deleted;
  if (!is_changed) folder.remove();
  if (!edited.ok()) {
    Error failed(edited.error().code(), edited.error().message(), "nothing was changed");
    return is_changed ? with_draft(failed, "nothing was changed", folder) : failed;
  }
  if (!is_changed) {
    context.err.line(fmt::format("warren: {} was not changed", quote(path)));
    return Exit::kOk;
  }
  if (!after.ok()) return with_draft(after.error(), "nothing was changed", folder);
  Status put = put_edited_file(context, args, before, *after);
  if (!put.ok()) return with_draft(put.error(), "nothing was changed in the agent", folder);
  folder.remove();
  return Exit::kOk;
}

}  // namespace

Command make_fs_edit() {
  return {
      .name = "edit",
      .summary = "Edit a file in your editor",
      .details =
          "Starts $VISUAL or $EDITOR (or vi) on a private copy. When it ends, a changed copy replaces the file's "
          "content at once; its mode and owner stay. Nothing is replaced if the editor fails, or if somebody has "
          "changed the file meanwhile: then the copy is kept. A file that does not exist is created. The copy of an "
          "encrypted file is in memory only (XDG_RUNTIME_DIR or /dev/shm).",
      .positionals = {{.name = "PATH", .help = "a path in the agent", .suggest = Suggest::kPaths}},
      .options = {},
      .subcommands = {},
      .handler = run_edit};
}

}  // namespace warren::cli
