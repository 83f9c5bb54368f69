#include "tools/files/file_tools.h"

#include <array>
#include <ctime>

#include <fmt/format.h>

#include "agent/agent_namespace.h"
#include "base/ascii.h"
#include "base/base64.h"
#include "base/bytes.h"
#include "base/path.h"
#include "base/percent.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "crypto/digest.h"
#include "text/mime.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

constexpr std::string_view kVfsScheme = "vfs://";

std::string call_text(std::string_view tool, std::string_view path) {
  return fmt::format("{} {}", tool, dump_json(Json{{"path", path}}));
}

std::string file_hint(const Error& error, std::string_view path, FileUse use) {
  if (!error.hint().empty()) return error.hint();
  std::string parent(path.empty() || path == "/" ? "/" : directory_of(path));
  if (parent == ".") parent = "/";
  switch (error.code()) {
    case Code::kNotFound: return fmt::format("See what exists: {}", call_text("readdir", parent));
    case Code::kIsDirectory: return fmt::format("It is a directory. List it: {}", call_text("readdir", path));
    case Code::kNotDirectory: return fmt::format("Look at what it is: {}", call_text("stat", path));
    case Code::kNotEmpty: return "Give \"recursive\": true to remove everything in it.";
    case Code::kExists: return fmt::format("Choose another path, or look at it: {}", call_text("stat", path));
    case Code::kDenied: return "The rules of this namespace do not allow it. Use another path, such as /mem/working.";
    case Code::kTooLarge:
      if (use == FileUse::kWrite) return "Write less, or spread it over several files.";
      return "Read it in parts: read_file with \"offset\" and \"length\".";
    case Code::kBusy:
      if (path == "/" || is_standard_directory(path)) return "It belongs to the namespace itself and stays.";
      return "Call it again in a moment.";
    case Code::kCrossDevice: return "It cannot be moved there. Copy it with the tool copy, then remove the original.";
    default: return {};
  }
}

Result<std::string> path_of_uri(const ToolContext& context, std::string_view uri) {
  std::string_view rest = uri.substr(kVfsScheme.size());
  std::size_t slash = rest.find('/');
  std::optional<std::string> agent = decode_percent_bytes(rest.substr(0, slash));
  std::optional<std::string> path = slash == rest.npos ? "/" : decode_percent_bytes(rest.substr(slash));
  if (agent && path && *agent == context.names.agent_id()) return *std::move(path);
  return Error(Code::kInvalid, fmt::format("{} is not a URI of this agent's files", quote(uri)),
               fmt::format("Give the path, or {}.", vfs_uri(context.names.agent_id(), "/PATH")));
}

}  // namespace

Result<std::string> path_argument(ToolContext& context, const Json& arguments, const char* name, std::string_view op) {
  const std::string& root = context.view.caller().root;
  std::string path = text_argument(arguments, name, root.empty() ? "/" : root);
  if (path.starts_with(kVfsScheme)) path = WARREN_TRY(path_of_uri(context, path));
  return context.view.resolve(*context.names, path, op);
}

std::string text_argument(const Json& arguments, const char* name, std::string_view fallback) {
  auto found = arguments.find(name);
  return found != arguments.end() && found->is_string() ? found->get<std::string>() : std::string(fallback);
}

bool flag_argument(const Json& arguments, const char* name, bool fallback) {
  auto found = arguments.find(name);
  return found != arguments.end() && found->is_boolean() ? found->get<bool>() : fallback;
}

std::uint64_t count_argument(const Json& arguments, const char* name, std::uint64_t fallback) {
  auto found = arguments.find(name);
  return found != arguments.end() && found->is_number() ? found->get<std::uint64_t>() : fallback;
}

ToolAnswer file_answer(Result<ToolAnswer> made, std::string_view path, FileUse use) {
  if (made.ok()) return std::move(made).take_value();
  ToolAnswer answer;
  answer.error = tool_error(made.error(), file_hint(made.error(), path, use));
  return answer;
}

std::optional<std::string> path_in_project(std::string_view path) {
  if (path == kProjectPath) return "/";
  if (!path.starts_with(std::string(kProjectPath) + "/")) return std::nullopt;
  return std::string(path.substr(kProjectPath.size()));
}

std::string project_path_of(std::string_view base_path) {
  return base_path == "/" ? std::string(kProjectPath) : fmt::format("{}{}", kProjectPath, base_path);
}

bool is_hidden_in_project(Agent& agent, std::string_view path) {
  std::optional<std::string> in_base = path_in_project(path);
  std::optional<AgentOverlay> overlay = agent.overlay();
  if (!in_base || !overlay) return false;
  for (const std::string& hidden : overlay->hidden) {
    if (*in_base == hidden || in_base->starts_with(hidden + "/")) return true;
  }
  return false;
}

Status check_right(ToolContext& context, Rights::Operation operation, const std::string& path, std::string_view op) {
  if (WARREN_TRY(context.view.may(operation, path))) return Ok{};
  const Caller& caller = context.view.caller();
  Error refused(Code::kDenied, fmt::format("{} {} is not allowed", name_of(operation), quote(path)));
  if (!is_in_root(caller, path)) {
    refused = Error(Code::kDenied, fmt::format("it needs to {} outside of {}", name_of(operation), quote(caller.root)),
                    fmt::format("Only what is below {} may be used here.", quote(caller.root)));
  }
  WARREN_TRY(context.view.record(op, path, Status(refused)));
  return refused;
}

void RemovedTree::add(std::string_view path, const Attributes& node) {
  constexpr std::size_t kNamed = 5;
  constexpr std::size_t kNamedBytes = 400;
  std::string name = printable(base_name(path));
  if (count_ < kNamed && first_.size() + name.size() < kNamedBytes) {
    first_ += fmt::format("{}{}", first_.empty() ? "" : ", ", name);
    ++named_;
  }
  ++count_;
  state_ =
      sha256_hex(as_bytes(fmt::format("{}{}\n{} {} {}.{} {}.{}", state_, path, node.mode, node.size, node.mtime.seconds,
                                      node.mtime.nanoseconds, node.ctime.seconds, node.ctime.nanoseconds)));
}

std::string RemovedTree::summary() const {
  return fmt::format("{} {} ({}{})", count_, count_ == 1 ? "file or directory" : "files and directories", first_,
                     named_ == count_ ? "" : ", …");
}

ConsentQuestion RemovedTree::question(std::string_view verb, std::string_view name) const {
  return {.text = fmt::format("{} {} and everything in it: {}?", verb, name, summary()), .state = state_};
}

Status check_removal(const ToolContext& context, std::string_view verb, std::string_view name,
                     const std::function<Result<RemovedTree>()>& look) {
  if (!context.ask) return Ok{};
  RemovedTree before = WARREN_TRY(look());
  if (before.is_empty()) return Ok{};
  ConsentQuestion asked = before.question(verb, name);
  WARREN_TRY(check_consent(context, asked));
  RemovedTree now = WARREN_TRY(look());
  if (now.question(verb, name).state == asked.state) return Ok{};
  return Error(Code::kConflict,
               fmt::format("{} has changed since the user was asked; nothing was removed", quote(name)),
               "Call it again, so that the user is asked about what is there now.");
}

Status check_consent(const ToolContext& context, const ConsentQuestion& question) {
  if (!context.ask) return Ok{};
  Result<Consent> answer = context.ask(question);
  if (!answer.ok()) {
    std::string_view why = answer.error().code() == Code::kBusy ? "could not be asked" : "did not answer";
    return Error(answer.error().code(),
                 fmt::format("nothing was done, because the user {}: {}", why, answer.error().message()),
                 "Tell the user, who may want it to be tried again.");
  }
  switch (*answer) {
    case Consent::kYes: return Ok{};
    case Consent::kNo: return Error(Code::kDenied, "the user did not agree", "Ask the user what to do instead.");
    case Consent::kPending: return Error(Code::kDenied, "the user is asked first");
  }
  return Ok{};
}

Status check_cancelled(const ToolContext& context) {
  if (context.is_cancelled == nullptr || !*context.is_cancelled) return Ok{};
  return Error(Code::kUnavailable, "the call was cancelled");
}

std::string_view kind_of(const Attributes& node) {
  if (node.is_file()) return "file";
  if (node.is_directory()) return "directory";
  return node.is_symlink() ? "symlink" : "other";
}

std::string time_text(const Timestamp& at) {
  std::time_t seconds = at.seconds;
  std::tm parts{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return fmt::format("@{}", at.seconds);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string media_type_of(std::string_view path, std::string_view bytes) {
  std::string_view name = base_name(path);
  std::string_view type = mime_type_of(name, bytes);
  std::string_view by_name = mime_type_by_name(name);
  bool is_name_of_text = mime_type_of(name, "") == by_name;
  bool is_unknown = type == "application/octet-stream" && !by_name.empty() && !is_name_of_text;
  return std::string(is_unknown ? by_name : type);
}

std::string vfs_uri(std::string_view agent, std::string_view path) {
  return fmt::format("vfs://{}{}", encode_percent(agent, "/"), encode_percent(path, "/"));
}

std::string key_path(std::string_view key) {
  std::string path = "/state/kv";
  for (std::string_view rest = key;;) {
    std::size_t slash = rest.find('/');
    std::string_view name = rest.substr(0, slash);
    bool is_all_dots = name.find_first_not_of('.') == name.npos;
    path += '/';
    if (is_all_dots) {
      for (std::size_t i = 0; i < name.size(); ++i) path += "%2E";
    } else {
      path += encode_percent(name);
    }
    if (slash == rest.npos) return path;
    rest.remove_prefix(slash + 1);
  }
}

Status check_key(NamespaceView& view, Rights::Operation operation, std::string_view key, std::uint64_t size_bytes) {
  return view.check_value(operation, key_path(key), name_of(operation), size_bytes);
}

Result<std::vector<std::string>> readable_keys(NamespaceView& view, std::vector<std::string> keys) {
  std::vector<std::string> readable;
  for (std::string& key : keys) {
    if (WARREN_TRY(view.may_read_value(key_path(key)))) readable.push_back(std::move(key));
  }
  return readable;
}

void set_path_text(Json& to, const char* key, std::string_view bytes) {
  to[key] = std::string(bytes);
  if (!is_utf8(bytes)) to[std::string(key) + "_base64"] = encode_base64(as_bytes(bytes));
}

void set_path_uri(Json& to, const ToolContext& context, std::string_view path) {
  if (!is_utf8(path)) to["uri"] = vfs_uri(context.names.agent_id(), path);
}

Result<bool> may_enter(ToolContext& context, const std::string& path) { return context.view.may(Rights::kList, path); }

}  // namespace warren
