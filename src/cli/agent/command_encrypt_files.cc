#include <algorithm>

#include <fmt/format.h>

#include "agent/keys/encrypted_files.h"
#include "agent/locate.h"
#include "agent/record/audit_trail.h"
#include "base/path.h"
#include "base/shell_word.h"
#include "cli/agent/encrypt_files.h"
#include "cli/agent/key_options.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "session/mount_config.h"

namespace warren::cli {
namespace {

std::string_view verb_of(FileChange change) {
  switch (change) {
    case FileChange::kEncrypt: return "encrypt";
    case FileChange::kDecrypt: return "decrypt";
    case FileChange::kRekey: return "rekey";
  }
  return "encrypt";
}

Result<FileEncryptionReport> change_them(const FileEncryption& options, FileChange change, Clock& clock) {
  switch (change) {
    case FileChange::kEncrypt: return encrypt_files(options, clock);
    case FileChange::kDecrypt: return decrypt_files(options, clock);
    case FileChange::kRekey: return rekey_files(options, clock);
  }
  return Error(Code::kInternal, "unknown change of files");
}

// For a note only: what cannot be read is left out.
std::vector<std::string> list_mount_points(const std::string& id_or_path) {
  std::vector<std::string> points;
  Result<std::string> path = locate_agent(id_or_path);
  if (!path.ok()) return points;
  Result<std::vector<MountSpec>> mounts = load_mounts({.agent = agent_id_of(*path), .arguments = {}, .file = {}});
  if (!mounts.ok()) return points;
  for (const MountSpec& mount : *mounts) points.push_back(mount.path);
  return points;
}

void print_json(Output& out, const FileEncryptionReport& report) {
  Json json{{"files", report.done.files}, {"bytes", report.done.bytes}, {"failed", report.done.failed}};
  json["problems"] = Json::array();
  for (const std::string& problem : report.done.problems) {
    Json one;
    set_bytes(one, "message", problem);
    json["problems"].push_back(std::move(one));
  }
  set_bytes(json, "path", report.path);
  json["kept"] = report.done.kept;
  json["left_out"] = Json::array();
  for (const std::string& place : report.left_out) {
    Json one;
    set_bytes(one, "path", place);
    json["left_out"].push_back(std::move(one));
  }
  if (!report.keys.empty() && report.keys.front().note) set_bytes(json, "note", *report.keys.front().note);
  json["compact"] = !report.not_compact;
  out.json(json);
}

void print_keys(Output& out, const FileEncryptionReport& report) {
  for (const ContentKeyPlace& key : report.keys) {
    if (!key.note) continue;
    bool is_stored = key.source && key.source->kind == KeySourceKind::kStored;
    out.print("{} in {}\n", is_stored ? "the key is" : "the source of the key is noted", out.name(*key.note));
    if (is_stored) out.line("keep a copy of that file: without the key, nobody can read these files again");
  }
}

void print_left_out(Output& out, const FileEncryptionReport& report, const std::string& agent) {
  if (report.left_out.empty()) return;
  std::string places;
  for (const std::string& place : report.left_out) {
    places += fmt::format("{}{}", places.empty() ? "" : ", ", out.name(place));
  }
  out.print("not encrypted, since patterns are for files: {}; `warren encrypt {}` encrypts the whole agent\n", places,
            agent);
}

// `id` is the agent as the user has named it.
void print_hints(Output& out, const FileEncryptionReport& report, FileChange change, const std::string& id) {
  std::string agent = out.name(shell_word(id));
  print_keys(out, report);
  print_left_out(out, report, agent);
  if (change == FileChange::kEncrypt && report.done.files > 0 && report.checkpoints > 0) {
    out.print("{} may still have these files unencrypted: `warren checkpoint {} remove` removes {}\n",
              report.checkpoints == 1 ? "1 checkpoint" : fmt::format("{} checkpoints", report.checkpoints), agent,
              report.checkpoints == 1 ? "it" : "them");
  }
  if (change == FileChange::kRekey && report.checkpoints > 0) {
    out.line("checkpoints need the old key, so its note stays");
  }
  if (report.done.kept > 0) {
    bool is_one = report.done.kept == 1;
    out.print("{} encrypted, since another pattern matches {} (`warren key {}` lists patterns)\n",
              is_one ? "1 file that matches stays" : fmt::format("{} files that match stay", report.done.kept),
              is_one ? "it" : "them", agent);
  }
  if (report.not_compact) out.line(not_compact_line(*report.not_compact, "run this again"));
}

}  // namespace

std::string not_compact_line(const Error& why, std::string_view again) {
  bool is_busy = why.code() == Code::kBusy;
  return fmt::format("the agent's file may still have unencrypted content, since {}: {}, and {}",
                     is_busy ? "it is open" : "the disk is too full for a copy of it",
                     is_busy ? "end what uses it (`warren ps` lists mounts)" : "free some space", again);
}

Positional pattern_argument() {
  return {.name = "PATTERN",
          .help = "only files whose path matches: '/secrets' and all below it, or wildcards like '**/*.key'",
          .times = Times::kAny};
}

Result<Exit> change_files(Context& context, const Arguments& args, FileChange change) {
  FileEncryption options{.id_or_path = args.get("ID"), .patterns = args.all("PATTERN"), .mounts = {}, .source = {}};
  if (change == FileChange::kEncrypt) options.mounts = list_mount_points(options.id_or_path);
  if (change != FileChange::kDecrypt) options.source = WARREN_TRY(find_key_source(args));
  std::string_view verb = verb_of(change);
  FileEncryptionReport report = WARREN_TRY(change_them(options, change, context.clock).within(verb));
  warn_if_not(context, record_afterwards(report.path, verb, std::nullopt, context.clock, options.patterns));
  Output& out = context.out;
  Exit result = report.done.failed == 0 && !report.not_compact ? Exit::kOk : Exit::kFailed;
  if (args.has("json")) {
    print_json(out, report);
    return result;
  }
  out.print("{} {} {}, {} bytes\n", change == FileChange::kDecrypt ? "decrypted" : "encrypted", report.done.files,
            report.done.files == 1 ? "file" : "files", report.done.bytes);
  for (const std::string& problem : report.done.problems) out.print("not changed: {}\n", out.name(problem));
  if (report.done.failed > report.done.problems.size()) {
    out.print("and {} others\n", report.done.failed - report.done.problems.size());
  }
  print_hints(out, report, change, options.id_or_path);
  return result;
}

namespace {

Result<std::vector<std::string>> read_patterns_of(Context& context, const std::string& id_or_path) {
  std::string path = WARREN_TRY(locate_agent(id_or_path));
  std::vector<ContentKeyPlace> keys = WARREN_TRY(list_content_key_places(path, context.clock));
  std::vector<std::string> patterns;
  for (const ContentKeyPlace& key : keys) patterns.insert(patterns.end(), key.patterns.begin(), key.patterns.end());
  return patterns;
}

}  // namespace

std::vector<std::string> list_patterns_of(Context& context, const std::string& id_or_path) {
  Result<std::vector<std::string>> patterns = read_patterns_of(context, id_or_path);
  return patterns.ok() ? *std::move(patterns) : std::vector<std::string>();
}

Exit warn_of_lost_patterns(Context& context, const std::string& id_or_path, const std::vector<std::string>& before) {
  if (before.empty()) return Exit::kOk;
  Result<std::vector<std::string>> now = read_patterns_of(context, id_or_path);
  if (!now.ok()) {
    context.err.line(
        "warren: it is not known whether what was restored has the patterns of encrypted files that were here: " +
        context.err.name(now.error().message()));
    return Exit::kFailed;
  }
  std::string lost;
  for (const std::string& pattern : before) {
    if (std::ranges::find(*now, pattern) == now->end()) lost += fmt::format(" {}", context.err.name(quote(pattern)));
  }
  if (lost.empty()) return Exit::kOk;
  context.err.line(fmt::format("warren: what was restored does not have these patterns of encrypted files:{}", lost));
  context.err.line(fmt::format("hint: `warren encrypt {}{}` encrypts the files", context.err.name(id_or_path), lost));
  return Exit::kFailed;
}

}  // namespace warren::cli
