#include <fmt/format.h>

#include "agent/audit_trail.h"
#include "agent/encrypted_files.h"
#include "cli/agent/encrypt_files.h"
#include "cli/agent/key_options.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"

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

void print_json(Output& out, const FileEncryptionReport& report) {
  Json json{{"files", report.done.files}, {"bytes", report.done.bytes}, {"failed", report.done.failed}};
  json["problems"] = Json::array();
  for (const std::string& problem : report.done.problems) {
    Json one;
    set_bytes(one, "message", problem);
    json["problems"].push_back(std::move(one));
  }
  set_bytes(json, "path", report.path);
  if (report.key_note) set_bytes(json, "note", *report.key_note);
  json["compact"] = report.is_compact;
  out.json(json);
}

void print_hints(Output& out, const FileEncryptionReport& report, FileChange change, bool has_source) {
  if (report.key_note) {
    out.print("{} in {}\n", has_source ? "the source of the key is noted" : "the key is", out.name(*report.key_note));
    if (!has_source) out.line("keep a copy of that file: without the key, nobody can read these files again");
  }
  if (change == FileChange::kEncrypt && report.done.files > 0 && report.checkpoints > 0) {
    out.print("{} checkpoints may still have these files unencrypted: `warren checkpoint ID prune` removes them\n",
              report.checkpoints);
  }
  if (change == FileChange::kRekey && report.checkpoints > 0) {
    out.line("checkpoints need the old key, so its note stays");
  }
  if (!report.is_compact) {
    out.line(
        "the agent's file may still have unencrypted content, since it is open, or the disk is full: run this again");
  }
}

}  // namespace

Positional pattern_argument() {
  return {.name = "PATTERN",
          .help = "only files whose path matches: '/secrets' and all below it, or wildcards like '**/*.key'",
          .times = Times::kAny};
}

Result<Exit> change_files(Context& context, const Arguments& args, FileChange change) {
  FileEncryption options{.id_or_path = args.get("ID"), .patterns = args.all("PATTERN"), .source = {}};
  if (change != FileChange::kDecrypt) options.source = WARREN_TRY(find_key_source(args));
  std::string_view verb = verb_of(change);
  FileEncryptionReport report = WARREN_TRY(change_them(options, change, context.clock).within(verb));
  warn_if_not(context, record_afterwards(report.path, verb, std::nullopt, context.clock));
  Output& out = context.out;
  Exit result = report.done.failed == 0 ? Exit::kOk : Exit::kFailed;
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
  print_hints(out, report, change, options.source.has_value());
  return result;
}

}  // namespace warren::cli
