#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"
#include "cli/syntax/values.h"

namespace warren::cli {
namespace {

// The text of a JSON string, or the JSON itself.
std::string unwrapped(const std::string& json) {
  Result<Json> value = parse_json(json);
  return value.ok() && value->is_string() ? value->get<std::string>() : json;
}

// A value written by another program may not be JSON: then it is shown as text.
Json value_of(const std::string& text) {
  Result<Json> value = parse_json(text);
  return value.ok() ? *value : Json(text);
}

Result<Exit> run_kv_get(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead, "kv"));
  std::string value = WARREN_TRY(agent->kv().get(args.get("KEY")));
  WARREN_TRY(agent->check_recorded());
  if (args.has("json")) {
    Json json;
    set_bytes(json, "key", args.get("KEY"));
    json["value"] = value_of(value);
    context.out.json(json);
  } else {
    context.out.text((args.has("string") ? unwrapped(value) : value) + "\n");
  }
  return Exit::kOk;
}

Result<std::string> json_text(Context& context, const Arguments& args, const std::string& given) {
  std::string text = given == "-" ? WARREN_TRY(read_input(context, limits::kValueBytes)) : given;
  if (!args.has("string")) return text;
  if (!is_utf8(text)) return Error(Code::kInvalid, "a string value must be UTF-8");
  return dump_json(Json(text));
}

Result<Exit> run_set(Context& context, const Arguments& args) {
  bool is_conditional = args.has("if-value") || args.has("if-absent");
  if (args.has("if-value") && args.has("if-absent")) {
    return refuse(context, "'--if-value' and '--if-absent' cannot be used together");
  }
  if (is_conditional && args.has("ttl"))
    return refuse(context, "'--ttl' cannot be used with '--if-value' or '--if-absent'");
  auto agent = WARREN_TRY(open_state(context, args, Use::kWrite, "kv"));
  std::string value = WARREN_TRY(json_text(context, args, args.get("VALUE")));
  const std::string& key = args.get("KEY");
  if (is_conditional) {
    WARREN_TRY(agent->kv().compare_and_set(key, args.find("if-value"), value));
    return Exit::kOk;
  }
  std::optional<std::chrono::milliseconds> time_to_live;
  if (auto text = args.find("ttl")) time_to_live = WARREN_TRY(parse_duration(*text));
  WARREN_TRY(agent->kv().set(key, value, time_to_live));
  return Exit::kOk;
}

Result<Exit> run_del(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kWrite, "kv"));
  for (const std::string& key : args.all("KEY")) {
    bool was_there = WARREN_TRY(agent->kv().remove(key));
    if (!was_there && !args.has("force")) return Error(Code::kNotFound, fmt::format("no key {}", quote(key)));
  }
  return Exit::kOk;
}

Json entry_json(const KvEntry& entry) {
  Json json;
  set_bytes(json, "key", entry.key);
  json["value"] = value_of(entry.value);
  json["created_at"] = entry.created_at;
  json["updated_at"] = entry.updated_at;
  if (entry.expires_at_ms) json["expires_at_ms"] = *entry.expires_at_ms;
  return json;
}

std::string expiry_text(const Output& out, const KvEntry& entry) {
  if (!entry.expires_at_ms) return {};
  return fmt::format("\texpires {}", out.time(*entry.expires_at_ms / 1000));
}

Result<Exit> run_list(Context& context, const Arguments& args) {
  auto agent = WARREN_TRY(open_state(context, args, Use::kRead, "kv"));
  KvListOptions options;
  options.prefix = args.find("prefix").value_or("");
  options.after = args.find("after").value_or("");
  if (args.has("limit")) options.limit = static_cast<std::size_t>(args.integer("limit"));
  std::vector<KvEntry> entries = WARREN_TRY(agent->kv().list(options));
  WARREN_TRY(agent->check_recorded());
  Json list = Json::array();
  for (const KvEntry& entry : entries) {
    if (args.has("json")) list.push_back(entry_json(entry));
    else if (args.has("keys")) context.out.line(context.out.exact_name(entry.key));
    else
      context.out.print("{}\t{}{}\n", context.out.name(entry.key), context.out.name(entry.value),
                        expiry_text(context.out, entry));
  }
  if (args.has("json")) context.out.json(list);
  return Exit::kOk;
}

}  // namespace

Command make_kv() {
  Positional key{.name = "KEY", .help = "the key", .suggest = Suggest::kKeys};
  Positional keys{.name = "KEY", .help = "the keys", .times = Times::kOnceOrMore, .suggest = Suggest::kKeys};
  Command get{
      .name = "get",
      .summary = "Print a value",
      .details = "",
      .positionals = {key},
      .options = {{.name = "string", .letter = 's', .help = "print a JSON string without its quotes"}, json_option()},
      .subcommands = {},
      .handler = run_kv_get};
  Command set{.name = "set",
              .summary = "Store a value",
              .details = "",
              .positionals = {key, {.name = "VALUE", .help = "JSON text; `-`: from standard input"}},
              .options = {{.name = "string", .letter = 's', .help = "VALUE is plain text, not JSON"},
                          {.name = "ttl",
                           .value = "TIME",
                           .help = "delete it after this time: 30s, 5m, 2h or 1d",
                           .kind = ValueKind::kDuration},
                          {.name = "if-value", .value = "JSON", .help = "only if this is the current value"},
                          {.name = "if-absent", .help = "only if the key has no value"}},
              .subcommands = {},
              .handler = run_set};
  Command del{.name = "del",
              .summary = "Remove keys",
              .details = "",
              .positionals = {keys},
              .options = {{.name = "force", .letter = 'f', .help = "ignore keys that do not exist"}},
              .subcommands = {},
              .handler = run_del};
  Command list{
      .name = "list",
      .summary = "List keys and values",
      .details = "",
      .positionals = {},
      .options = {{.name = "prefix", .letter = 'p', .value = "TEXT", .help = "only keys that begin with TEXT"},
                  {.name = "after", .value = "KEY", .help = "only keys that sort after KEY"},
                  {.name = "limit", .letter = 'n', .value = "N", .help = "at most N", .kind = ValueKind::kCount},
                  {.name = "keys", .letter = 'k', .help = "print only the keys"},
                  json_option()},
      .subcommands = {},
      .handler = run_list};
  return {.name = "kv",
          .summary = "Work with an agent's key-value store",
          .details = "Values are JSON.",
          .positionals = {id_argument()},
          .options = {},
          .subcommands = {get, set, del, list},
          .handler = nullptr};
}

}  // namespace warren::cli
