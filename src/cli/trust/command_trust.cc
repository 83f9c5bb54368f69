#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/ascii.h"
#include "base/limits.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/syntax/values.h"
#include "cli/trust/trust_input.h"
#include "host/requests.h"
#include "os/files/host_files.h"
#include "trust/key_file.h"
#include "trust/manifest.h"
#include "vfs/namespace.h"
#include "vfs/rights.h"

namespace warren::cli {
namespace {

Result<Exit> run_trust_keygen(Context& context, const Arguments& args) {
  Ed25519Private key = Ed25519Private::generate();
  const std::string& file = args.get("FILE");
  WARREN_TRY(write_key_files(file, key));
  std::string public_text = key.public_key().text();
  if (args.has("json")) context.out.json({{"key", public_text}, {"private", file}, {"public", file + ".pub"}});
  else context.out.line(public_text);
  return Exit::kOk;
}

template <class Enum, std::size_t N>
Enum named_option(const Arguments& args, std::string_view option, const std::array<std::string_view, N>& names) {
  return find_named<Enum>(names, args.get(option)).value_or(Enum{});  // the parser has checked it
}

Result<Manifest> manifest_to_sign(Context& context, const Arguments& args) {
  Manifest manifest;
  std::int64_t now = context.clock.now().seconds;
  manifest.identity = args.get("AGENT");
  manifest.key = WARREN_TRY(read_public_key(args.get("agent-key")).within("--agent-key"));
  manifest.serial = static_cast<std::uint64_t>(args.has("serial") ? args.integer("serial") : now);
  manifest.issued_at = now;
  auto lifetime = WARREN_TRY(parse_duration(args.get("expires-in")));
  manifest.expires_at = now + std::chrono::duration_cast<std::chrono::seconds>(lifetime).count();
  manifest.level = named_option<TrustLevel>(args, "level", kTrustLevelNames);
  manifest.reversibility = named_option<Reversibility>(args, "reversibility", kReversibilityNames);
  manifest.retention = named_option<Retention>(args, "retention", kRetentionNames);
  manifest.human_review = args.has("human-review");
  manifest.training_use = args.has("training-use");
  if (args.has("scope")) manifest.scopes = args.all("scope");
  if (args.has("capability")) manifest.capabilities = args.all("capability");
  WARREN_TRY(manifest.check());
  return manifest;
}

Result<Exit> run_trust_sign(Context& context, const Arguments& args) {
  for (std::string_view needed : {"key", "agent-key"}) {
    if (!args.has(needed)) return refuse(context, fmt::format("'--{}' is missing", needed));
  }
  Ed25519Private issuer = WARREN_TRY(read_private_key(args.get("key")).within("--key"));
  Manifest manifest = WARREN_TRY(manifest_to_sign(context, args));
  if (manifest.key == issuer.public_key()) {
    return Error(Code::kInvalid, "--key and --agent-key are the same key: what an agent declares about itself is zero",
                 "sign with a key of your own, which agents do not have");
  }
  manifest.sign(issuer);
  context.out.text(manifest.text());
  return Exit::kOk;
}

// A key or a manifest, from a file, standard input or the command line.
Result<std::string> read_what(Context& context, const std::string& what) {
  if (what.starts_with(kEd25519Prefix)) return what;
  if (what == "-") return read_input(context, Manifest::kBytesMax);
  return read_host_file(what, Manifest::kBytesMax);
}

Result<Exit> run_trust_add(Context& context, const Arguments& args) {
  const std::string& what = args.get("WHAT");
  std::string text = WARREN_TRY(read_what(context, what));
  std::string_view content = trimmed(text, kWhitespace);
  TrustFile file = WARREN_TRY(operator_trust(context));
  std::int64_t now = context.clock.now().seconds;
  if (content.starts_with("-----BEGIN")) {
    return Error(Code::kInvalid, fmt::format("{} is a private key", quote(what)),
                 fmt::format("give its public part: {}.pub", what));
  }
  if (std::optional<Ed25519Public> key = Ed25519Public::parse(content)) {
    if (args.has("new-issuer")) return refuse(context, "'--new-issuer' is for manifests");
    std::string name = args.find("name").value_or("");
    if (name.size() > limits::kNameBytes) {
      return refuse(context, fmt::format("'--name' has more than {} bytes", limits::kNameBytes));
    }
    WARREN_TRY(file.change([&](TrustState& state) { return state.add_key(*key, {.name = name, .added_at = now}); }));
    context.out.print("trusted: {}\n", key->text());
    return Exit::kOk;
  }
  if (content.starts_with(kEd25519Prefix)) {
    return Error(Code::kInvalid, fmt::format("{} is not an Ed25519 public key", quote(content)),
                 "it is ed25519: and 44 characters of base64");
  }
  if (args.has("name")) return refuse(context, "'--name' is for keys; a manifest has its agent's name");
  Manifest manifest = WARREN_TRY(Manifest::parse(content).within(quote(what)));
  bool is_new = false;
  WARREN_TRY(file.change([&](TrustState& state) -> Status {
    is_new = WARREN_TRY(state.accept(manifest, now, args.has("new-issuer") ? NewIssuer::kAllow : NewIssuer::kRefuse));
    return Ok{};
  }));
  context.out.print("{}: {}, serial {}, score {}, until {}\n", is_new ? "accepted" : "accepted before",
                    manifest.identity, manifest.serial, declared_score(manifest),
                    context.out.time(manifest.expires_at));
  return Exit::kOk;
}

Json standing_json(const Manifest& manifest, const Standing& standing) {
  Json json = manifest.to_json();
  json["valid"] = standing.is_good();
  json["verdict"] = name_of(standing.verdict);
  json["score"] = standing.score;
  return json;
}

Json state_json(const TrustState& state, std::int64_t now) {
  Json json{{"keys", Json::array()},
            {"agents", Json::array()},
            {"revoked_keys", Json::array()},
            {"revoked_agents", Json::array()}};
  for (const auto& [key, about] : state.keys) {
    json["keys"].push_back({{"key", key.text()}, {"name", about.name}, {"added_at", about.added_at}});
  }
  for (const auto& [identity, manifest] : state.manifests) {
    json["agents"].push_back(standing_json(manifest, state.find(identity, now).standing));
  }
  for (const Ed25519Public& key : state.revoked_keys) json["revoked_keys"].push_back(key.text());
  for (const auto& [identity, serial] : state.revoked_serials) {
    json["revoked_agents"].push_back({{"identity", identity}, {"up_to_serial", serial}});
  }
  return json;
}

std::string list_text(const std::vector<std::string>& list) {
  return list.empty() ? "none" : fmt::format("{}", fmt::join(list, " "));
}

void show_manifest(Context& context, const Manifest& manifest, const Standing& standing) {
  auto row = [&](std::string_view name, std::string_view value) {
    context.out.print("  {:<14} {}\n", name, context.out.name(value));
  };
  context.out.print("{}: score {}{}{}\n", context.out.name(manifest.identity), standing.score,
                    standing.is_good() ? "" : ", ", standing.is_good() ? "" : reason_of(standing.verdict));
  row("key", manifest.key.text());
  row("signed by", manifest.signature ? manifest.signature->by.text() : "nobody");
  row("serial", std::to_string(manifest.serial));
  row("issued", context.out.time(manifest.issued_at));
  row("expires", context.out.time(manifest.expires_at));
  row("trust level", name_of(manifest.level));
  row("shares", list_text(manifest.scopes));
  row("capabilities", list_text(manifest.capabilities));
  row("reversibility", name_of(manifest.reversibility));
  row("retention", name_of(manifest.retention));
  row("human review", manifest.human_review ? "yes" : "no");
  row("training use", manifest.training_use ? "yes" : "no");
}

Result<Exit> run_trust_show(Context& context, const Arguments& args) {
  TrustFile file = WARREN_TRY(operator_trust(context));
  TrustState state = WARREN_TRY(file.read());
  std::int64_t now = context.clock.now().seconds;
  if (std::optional<std::string> agent = args.find("AGENT")) {
    TrustState::Known known = state.find(*agent, now);
    if (known.manifest == nullptr) {
      return Error(Code::kNotFound, fmt::format("{}: {}", quote(*agent), reason_of(known.standing.verdict)),
                   "`warren trust show` lists those that were");
    }
    if (args.has("json")) context.out.json(standing_json(*known.manifest, known.standing));
    else show_manifest(context, *known.manifest, known.standing);
    return Exit::kOk;
  }
  if (args.has("json")) {
    context.out.json(state_json(state, now));
    return Exit::kOk;
  }
  for (const auto& [key, about] : state.keys) {
    context.out.print("key      {}  {}\n", key.text(), context.out.name(about.name));
  }
  for (const auto& [identity, manifest] : state.manifests) {
    Standing standing = state.find(identity, now).standing;
    context.out.print("agent    {}  score {}  serial {}  {}\n", context.out.name(identity), standing.score,
                      manifest.serial,
                      standing.is_good() ? fmt::format("until {}", context.out.time(manifest.expires_at))
                                         : std::string(name_of(standing.verdict)));
  }
  for (const auto& [identity, serial] : state.revoked_serials) {
    context.out.print("revoked  {}  up to serial {}\n", context.out.name(identity), serial);
  }
  for (const Ed25519Public& key : state.revoked_keys) context.out.print("revoked  {}\n", key.text());
  return Exit::kOk;
}

// Writing includes appending.
bool gives(Scope::Verb scope, std::optional<Scope::Verb> asked) {
  return scope == asked || (scope == Scope::Verb::kWrite && asked == Scope::Verb::kAppend);
}

struct Checked {
  std::optional<Manifest> manifest;
  Standing standing;
};

// An agent whose manifest was accepted, or a file.
Result<Checked> find_checked(Context& context, const TrustState& state, const std::string& what, std::int64_t now) {
  TrustState::Known known = state.find(what, now);
  if (known.manifest != nullptr) return Checked{*known.manifest, known.standing};
  bool is_file = what == "-" || WARREN_TRY(find_host_file(what))
  .has_value();
  if (!is_file) return Checked{std::nullopt, known.standing};
  std::string text = WARREN_TRY(read_what(context, what));
  Manifest manifest = WARREN_TRY(Manifest::parse(text).within(quote(what)));
  Standing standing = state.judge(manifest, now);
  return Checked{std::move(manifest), standing};
}

Result<Exit> run_trust_check(Context& context, const Arguments& args) {
  if (args.has("path") && !args.has("of")) return refuse(context, "'--path' needs '--of AGENT', whose path it is");
  TrustFile file = WARREN_TRY(operator_trust(context));
  TrustState state = WARREN_TRY(file.read());
  std::int64_t now = context.clock.now().seconds;
  const std::string& what = args.get("WHAT");
  Checked checked = WARREN_TRY(find_checked(context, state, what, now));
  std::int64_t threshold = args.integer("threshold");
  bool is_trusted = checked.standing.is_good() && checked.standing.score >= threshold;
  Json json{{"valid", checked.standing.is_good()},
            {"verdict", name_of(checked.standing.verdict)},
            {"score", checked.standing.score},
            {"threshold", threshold},
            {"trusted", is_trusted}};
  std::string text = fmt::format(
      "score {}, {} needed: {}\n", checked.standing.score, threshold,
      checked.standing.is_good() ? (is_trusted ? "trusted" : "not enough") : reason_of(checked.standing.verdict));
  bool is_allowed = is_trusted;
  if (std::optional<std::string> owner = args.find("of")) {
    std::string path = WARREN_TRY(resolve_path(*owner, args.find("path").value_or("/")));
    std::optional<Scope::Verb> verb = find_named<Scope::Verb>(kScopeVerbs, args.get("verb"));
    std::vector<std::string> granting;
    TrustState::Known known = state.find(*owner, now);
    if (known.standing.is_good()) {
      for (const std::string& one : known.manifest->scopes) {
        Result<Scope> scope = parse_scope(one);
        if (scope.ok() && gives(scope->verb, verb) && covers(*scope, path)) granting.push_back(one);
      }
    }
    Rights wanted = grants_of({Scope{.path = path, .verb = *verb}}).at(path);
    bool is_ever_shared = !(wanted & peer_rights_in(region_of(path))).is_empty();
    if (!is_ever_shared) granting.clear();
    bool is_shared = !granting.empty();
    is_allowed = is_allowed && is_shared;
    json["shared"] = is_shared;
    json["scopes"] = granting;
    std::string why = !is_ever_shared            ? "no host ever gives that to others"
                      : known.standing.is_good() ? "no scope of its manifest covers it"
                                                 : fmt::format("its manifest: {}", reason_of(known.standing.verdict));
    text += fmt::format("{} of {} to {}: {}\n", quote(path), quote(*owner), args.get("verb"),
                        is_shared ? fmt::format("shared by {}", fmt::join(granting, " ")) : why);
  }
  if (args.has("json")) context.out.json(json);
  else context.out.text(text);
  return is_allowed ? Exit::kOk : Exit::kFailed;
}

Result<Exit> run_trust_revoke(Context& context, const Arguments& args) {
  const std::string& what = args.get("WHAT");
  TrustFile file = WARREN_TRY(operator_trust(context));
  bool is_key = what.starts_with(kEd25519Prefix) || what.ends_with(".pub");
  if (is_key && args.has("serial")) return refuse(context, "'--serial' is for agents; a key is revoked for ever");
  if (is_key) {
    Ed25519Public key = WARREN_TRY(read_public_key(what));
    WARREN_TRY(file.change([&](TrustState& state) { return state.revoke_key(key); }));
    context.out.print("revoked: {}\n", key.text());
    return Exit::kOk;
  }
  std::optional<std::uint64_t> serial;
  if (args.has("serial")) serial = static_cast<std::uint64_t>(args.integer("serial"));
  if (serial && *serial > Manifest::kSerialMax) {
    return refuse(context, fmt::format("'--serial' is at most {}", Manifest::kSerialMax));
  }
  std::uint64_t up_to = 0;
  WARREN_TRY(file.change([&](TrustState& state) -> Status {
    WARREN_TRY(state.revoke_identity(what, serial));
    up_to = state.revoked_serials.find(what)->second;
    return Ok{};
  }));
  context.out.print("revoked: {}, up to serial {}\n", context.out.name(what), up_to);
  return Exit::kOk;
}

std::vector<std::string_view> choice_list(std::span<const std::string_view> names) {
  return {names.begin(), names.end()};
}

Command make_trust_sign() {
  return {
      .name = "sign",
      .summary = "Write and sign a manifest about an agent",
      .details =
          "Prints the manifest. It says who the agent is, how far it is trusted, and what it shares with agents that "
          "are trusted enough. A scope is AREA:VERB or /PATH:VERB, with the areas data (/mem), state (/state), outbox "
          "(/ipc/outbox) and all (/), and the verbs read, append, write and delete. The operator of a host accepts it "
          "with `warren trust add`.",
      .positionals = {{.name = "AGENT", .help = "the agent's id"}},
      .options =
          {{.name = "key",
            .value = "FILE",
            .help = "the private key to sign with; required",
            .suggest = Suggest::kHostFiles},
           {.name = "agent-key",
            .value = "KEY",
            .help = "the agent's public key: ed25519:…, or a file; required",
            .suggest = Suggest::kHostFiles},
           {.name = "level",
            .value = "LEVEL",
            .help = "how far it is trusted",
            .choices = choice_list(kTrustLevelNames),
            .fallback = "unknown"},
           {.name = "scope", .value = "SCOPE", .help = "something that the agent shares; repeatable", .is_list = true},
           {.name = "capability",
            .value = "TEXT",
            .help = "something that the agent can do, for people and programs; repeatable",
            .is_list = true},
           {.name = "reversibility",
            .value = "HOW",
            .help = "how much of what it does can be undone",
            .choices = choice_list(kReversibilityNames),
            .fallback = "none"},
           {.name = "retention",
            .value = "HOW",
            .help = "how long it keeps what it is given",
            .choices = choice_list(kRetentionNames),
            .fallback = "temporary"},
           {.name = "human-review", .help = "people read what it is given"},
           {.name = "training-use", .help = "models are trained with what it is given"},
           {.name = "expires-in",
            .value = "TIME",
            .help = "how long the manifest is valid",
            .kind = ValueKind::kDuration,
            .fallback = "365d"},
           {.name = "serial",
            .value = "N",
            .help = "higher than that of every earlier manifest of this agent; default: the time in seconds",
            .kind = ValueKind::kCount}},
      .subcommands = {},
      .handler = run_trust_sign};
}

Command make_trust_check() {
  return {.name = "check",
          .summary = "Show how far a manifest is trusted; exit with 1 if the agent is not trusted",
          .details =
              "With --of and --path: also whether that agent's manifest shares the path. The policy of that agent "
              "decides last: `warren policy ID explain OPERATION PATH --peer AGENT` shows all three.",
          .positionals = {{.name = "WHAT", .help = "an agent whose manifest was accepted, or the file of a manifest"}},
          .options = {{.name = "of", .value = "AGENT", .help = "the agent that shares"},
                      {.name = "path", .value = "PATH", .help = "a path of its namespace"},
                      {.name = "verb",
                       .value = "VERB",
                       .help = "what to do with it",
                       .choices = choice_list(kScopeVerbs),
                       .fallback = "read"},
                      {.name = "threshold",
                       .value = "N",
                       .help = "the score that is enough",
                       .kind = ValueKind::kCount,
                       .fallback = "7"},
                      json_option()},
          .subcommands = {},
          .handler = run_trust_check};
}

}  // namespace

Command make_trust() {
  Positional what{.name = "WHAT",
                  .help = "a key (ed25519:…, or its .pub file), or the file of a manifest; `-`: standard input",
                  .suggest = Suggest::kHostFiles};
  Positional revoked{.name = "WHAT", .help = "an agent's id, or a key (ed25519:…, or its .pub file)"};
  return {
      .name = "trust",
      .summary = "Decide which agents are trusted, and by whose word",
      .details =
          "Agents reach each other's namespaces only through `warren host`, and only if they are trusted: by a "
          "manifest "
          "signed with a key that you added here. Keys, manifests and revocations are in ~/.config/warren/trust.",
      .positionals = {},
      .options = {},
      .subcommands =
          {{.name = "keygen",
            .summary = "Make a key: FILE for its owner alone, and FILE.pub",
            .details = "Prints the public key.",
            .positionals = {{.name = "FILE", .help = "where the private key goes; it must not exist"}},
            .options = {json_option()},
            .subcommands = {},
            .handler = run_trust_keygen},
           make_trust_sign(),
           {.name = "add",
            .summary = "Trust a key, or accept a manifest that a trusted key has signed",
            .details = "A manifest replaces the agent's previous one, and needs a higher serial. Its signature, time "
                       "and serial are checked; what an agent has signed about itself is refused.",
            .positionals = {what},
            .options = {{.name = "name", .value = "NAME", .help = "whose key it is, for `show`"},
                        {.name = "new-issuer", .help = "accept it although another key signed the previous one"}},
            .subcommands = {},
            .handler = run_trust_add},
           {.name = "show",
            .summary = "List keys, agents and revocations, or show one agent",
            .details = "",
            .positionals = {{.name = "AGENT", .help = "its id", .times = Times::kOptional}},
            .options = {json_option()},
            .subcommands = {},
            .handler = run_trust_show},
           make_trust_check(),
           {.name = "revoke",
            .summary = "Withdraw trust from an agent or a key, with immediate effect",
            .details = "An agent can be accepted again with a manifest of a higher serial. A key is revoked for "
                       "ever, with everything that it signed.",
            .positionals = {revoked},
            .options = {{.name = "serial",
                         .value = "N",
                         .help = "revoke up to this serial, even if it has not been accepted yet",
                         .kind = ValueKind::kCount}},
            .subcommands = {},
            .handler = run_trust_revoke}},
      .handler = nullptr};
}

}  // namespace warren::cli
