#include <csignal>
#include <optional>

#include <fmt/format.h>

#include "agent/copies/create.h"
#include "agent/locate.h"
#include "agent/record/audit_trail.h"
#include "base/path.h"
#include "cli/agent/encrypt_files.h"
#include "cli/agent/key_options.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "os/files/host_files.h"
#include "os/processes/signals.h"

namespace warren::cli {

std::vector<Option> key_options() {
  return {{.name = "key-env", .value = "NAME", .help = "the key is in this environment variable"},
          {.name = "key-file",
           .value = "FILE",
           .help = "the key is in this file, which only you can read",
           .suggest = Suggest::kHostFiles},
          {.name = "key-command", .value = "COMMAND", .help = "this shell command prints the key"}};
}

Result<std::optional<KeySource>> find_key_source(const Arguments& args) {
  std::optional<KeySource> source;
  int given = 0;
  if (args.has("key-env")) {
    source = KeySource{.kind = KeySourceKind::kVariable, .value = args.get("key-env")};
    ++given;
    if (!is_variable_name(source->value)) {
      // Without the value: it may be the key.
      return Error(Code::kInvalid, "what --key-env has is not the name of a variable",
                   "--key-env takes the name of the variable, not the key");
    }
  }
  if (args.has("key-file")) {
    std::string path = WARREN_TRY(canonical_host_path(args.get("key-file")));
    source = KeySource{.kind = KeySourceKind::kFile, .value = std::move(path)};
    ++given;
  }
  if (args.has("key-command")) {
    source = KeySource{.kind = KeySourceKind::kCommand, .value = args.get("key-command")};
    ++given;
  }
  if (given < 2) return source;
  return Error(Code::kInvalid, "several sources of a key were given",
               "use one of --key-env, --key-file and --key-command");
}

std::vector<Option> encrypt_options() {
  std::vector<Option> options{
      {.name = "encrypt", .help = "encrypt the agent file; without a --key option the key is random"}};
  for (Option& option : key_options()) options.push_back(std::move(option));
  return options;
}

Result<std::optional<Encryption>> find_encryption(const Arguments& args) {
  std::optional<KeySource> source = WARREN_TRY(find_key_source(args));
  if (args.has("encrypt")) return std::optional(Encryption{.key = std::move(source)});
  if (!source) return std::optional<Encryption>();
  return Error(Code::kInvalid, "a key is only for an encrypted agent", "add --encrypt");
}

namespace {

Result<std::string> locate_file(const Arguments& args) {
  std::string path = WARREN_TRY(locate_agent(args.get("ID")));
  if (path == kMemoryAgent) return Error(Code::kInvalid, "an agent in memory has no file, and no key");
  return path;
}

Json json_of(const ContentKeyPlace& place) {
  Json json{{"name", place.name}, {"replaced", place.is_replaced}, {"patterns", Json::array()}};
  for (const std::string& pattern : place.patterns) {
    Json one;
    set_bytes(one, "pattern", pattern);
    json["patterns"].push_back(std::move(one));
  }
  json["files"] = place.use.files;
  json["checkpoints"] = place.use.checkpoints;
  if (place.note) set_bytes(json, "note", *place.note);
  if (place.source) set_bytes(json, "source", describe(*place.source));
  return json;
}

std::string counted_noun(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// New files, files, checkpoints: what would be lost with it.
std::string use_of(Output& out, const ContentKeyPlace& place) {
  std::string patterns;
  for (const std::string& one : place.patterns) patterns += fmt::format(" {}", out.name(quote(one)));
  std::string use = patterns.empty() ? " no new files" : patterns;
  use +=
      fmt::format(": {}, {}", counted_noun(place.use.files, "file"), counted_noun(place.use.checkpoints, "checkpoint"));
  if (place.is_replaced && place.use.files > 0) use += "; it was replaced, and `warren rekey ID PATTERN` goes on";
  return use;
}

void print_content_key(Output& out, const ContentKeyPlace& place) {
  bool is_stored = place.source && place.source->kind == KeySourceKind::kStored;
  std::string where = is_stored && place.note ? *place.note
                      : place.source          ? describe(*place.source)
                                              : std::string("unknown");
  out.print("key {} encrypts{}\n  it is in: {}\n", place.name, use_of(out, place), out.name(where));
}

Result<Exit> show_key(Context& context, const Arguments& args, const std::string& path) {
  std::optional<KeyPlace> place = WARREN_TRY(find_key_place(path, context.clock));
  std::vector<ContentKeyPlace> of_files = WARREN_TRY(list_content_key_places(path, context.clock));
  if (args.has("json")) {
    Json json{{"encrypted", place.has_value()}, {"files", Json::array()}};
    for (const ContentKeyPlace& one : of_files) json["files"].push_back(json_of(one));
    if (place && place->note) set_bytes(json, "note", *place->note);
    if (place) set_bytes(json, "source", describe(place->source));
    context.out.json(json);
    return Exit::kOk;
  }
  if (!place) {
    if (of_files.empty()) context.out.print("{} is not encrypted\n", context.out.name(path));
  } else {
    bool is_stored = place->source.kind == KeySourceKind::kStored;
    std::string note = place->note ? context.out.name(*place->note) : std::string("none");
    context.out.print("its key is in {}\n", is_stored ? note : context.out.name(describe(place->source)));
    if (!is_stored) context.out.print("note: {}\n", note);
  }
  for (const ContentKeyPlace& one : of_files) print_content_key(context.out, one);
  return Exit::kOk;
}

Result<Exit> run_key(Context& context, const Arguments& args) {
  std::string path = WARREN_TRY(locate_file(args));
  std::optional<KeySource> source = WARREN_TRY(find_key_source(args));
  if (!source) return show_key(context, args, path);
  std::string note = WARREN_TRY(adopt_key(path, *source, context.clock));
  if (!args.has("json")) {
    context.out.print("noted in {}: the key is in {}\n", context.out.name(note), context.out.name(describe(*source)));
    return Exit::kOk;
  }
  Json json;
  set_bytes(json, "note", note);
  context.out.json(json);
  return Exit::kOk;
}

Result<Exit> rekey(Context& context, const Arguments& args, NewKey change, std::string_view verb) {
  std::string path = WARREN_TRY(locate_file(args));
  RekeyOptions options{.id_or_path = path, .change = change, .source = {}};
  if (change != NewKey::kNone) options.source = WARREN_TRY(find_key_source(args));
  // What is not finished would stay beside the agent; of `decrypt`, that is everything in plain text.
  auto whole = std::make_optional<DeferredSignals>({SIGINT, SIGTERM, SIGHUP, SIGQUIT});
  RekeyedAgent done = WARREN_TRY(rekey_agent(options, context.clock).within(verb));
  whole.reset();
  warn_if_not(context, record_afterwards(path, verb, std::nullopt, context.clock));
  Output& out = context.out;
  if (args.has("json")) {
    Json json;
    set_bytes(json, "path", done.path);
    if (done.key_note) set_bytes(json, "note", *done.key_note);
    out.json(json);
    return Exit::kOk;
  }
  if (!done.key_note) {
    out.print("{} is not encrypted any more\n", out.name(done.path));
    return Exit::kOk;
  }
  out.print("{} is encrypted; {} in {}\n", out.name(done.path),
            options.source ? "the source of its key is noted" : "its key is", out.name(*done.key_note));
  if (change == NewKey::kAnother) out.line("the note of its old key stays, for backups that were made before");
  else if (!options.source) out.line("keep a copy of that file: without the key, nobody can read the agent again");
  return Exit::kOk;
}

Result<Exit> run_rekey(Context& context, const Arguments& args) {
  if (!args.all("PATTERN").empty()) return change_files(context, args, FileChange::kRekey);
  return rekey(context, args, NewKey::kAnother, "rekey");
}

Result<Exit> run_encrypt(Context& context, const Arguments& args) {
  if (!args.all("PATTERN").empty()) return change_files(context, args, FileChange::kEncrypt);
  return rekey(context, args, NewKey::kFirst, "encrypt");
}

Result<Exit> run_decrypt(Context& context, const Arguments& args) {
  if (!args.all("PATTERN").empty()) return change_files(context, args, FileChange::kDecrypt);
  return rekey(context, args, NewKey::kNone, "decrypt");
}

}  // namespace

Command make_key() {
  std::vector<Option> options = key_options();
  options.push_back(json_option());
  return {.name = "key",
          .summary = "Show or note where the keys of an encrypted agent and of its encrypted files are",
          .details =
              "With an option, that key is tried, and the note is what every command uses from then on. The key itself "
              "is never shown. Of keys for files it lists the patterns, and how many files and checkpoints need them. "
              "A key "
              "is 64 hexadecimal digits or base64, for 256 bits; "
              "anything else is a passphrase.",
          .positionals = {id_argument()},
          .options = options,
          .subcommands = {},
          .handler = run_key};
}

Command make_rekey() {
  std::vector<Option> options = key_options();
  options.push_back(json_option());
  return {.name = "rekey",
          .summary = "Encrypt an encrypted agent, or its encrypted files, with a new key",
          .details =
              "Without an option the new key is random. Without a pattern, the whole agent gets it: it must not be "
              "open, and is written to a new file, which replaces the old one when complete. With patterns, as they "
              "were given to `encrypt`, their "
              "files and all that share their key get it, one by one; if it is interrupted, the same command "
              "continues. Backups and "
              "checkpoints keep the key that they were made with.",
          .positionals = {id_argument(), pattern_argument()},
          .options = options,
          .subcommands = {},
          .handler = run_rekey};
}

Command make_encrypt() {
  std::vector<Option> options = key_options();
  options.push_back(json_option());
  return {
      .name = "encrypt",
      .summary = "Encrypt an agent, or only files whose path matches a pattern",
      .details =
          "Without an option the key is random. The agent must not be open. Without a pattern, all of it is encrypted: "
          "it is written to a new file, which replaces the old one when complete. With patterns, the content of "
          "matching "
          "files is encrypted, of those that exist and of new ones. Names and sizes stay visible, and so does what is "
          "not "
          "a file: /mem/working, keys and values, the audit trail. Of several patterns that match a path, the one with "
          "the longer part before its first wildcard decides. "
          "If it is interrupted, the same command continues; it exits with 1 while unencrypted content may be left in "
          "the file. "
          "Backups, forks and checkpoints stay as they are, and what was in "
          "the old file may still be on the disk until it is overwritten.",
      .positionals = {id_argument(), pattern_argument()},
      .options = options,
      .subcommands = {},
      .handler = run_encrypt};
}

Command make_decrypt() {
  return {.name = "decrypt",
          .summary = "Remove the encryption of an agent, or of files whose path matches a pattern",
          .details =
              "The agent must not be open. Without a pattern, a whole encrypted agent is written to a new file, which "
              "replaces the old one when complete. With patterns, these no longer apply, and files that match are "
              "decrypted, except those that "
              "another pattern matches.",
          .positionals = {id_argument(), pattern_argument()},
          .options = {json_option()},
          .subcommands = {},
          .handler = run_decrypt};
}

}  // namespace warren::cli
