// completion/complete: paths, drives, checkpoints and keys.
#include <algorithm>

#include <fmt/format.h>

#include "agent/checkpoints/checkpoints.h"
#include "base/path.h"
#include "fs/path_ops.h"
#include "mcp/request.h"
#include "tools/files/file_tools.h"

namespace warren::mcp {
namespace {

constexpr std::size_t kValuesMax = 100;  // by the protocol

using Values = Result<std::vector<std::string>>;

// What a directory has that begins like the last name; nothing for what may not be listed.
Values complete_path(const Request& request, const std::string& typed) {
  if (!request.service.serves_files()) return std::vector<std::string>();
  bool is_absolute = typed.starts_with('/');
  std::string path = is_absolute ? typed : "/" + typed;
  std::size_t slash = path.rfind('/');
  std::string dir = slash == 0 ? "/" : path.substr(0, slash);
  std::string begun = path.substr(slash + 1);
  std::vector<std::string> values;
  std::string resolved = WARREN_TRY(request.service.view().resolve(*request.service.names(), dir, "list"));
  Result<std::vector<NamedAttributes>> entries = read_dir_plus(request.service.view(), resolved);
  if (!entries.ok()) return values;
  for (const NamedAttributes& one : *entries) {
    if (!one.name.starts_with(begun)) continue;
    std::string value = join_path(dir, one.name) + (one.attributes.is_directory() ? "/" : "");
    values.push_back(is_absolute ? value : value.substr(1));
  }
  return values;
}

Values complete_drive(const Request& request, const std::string& typed) {
  std::vector<std::string> values;
  if (request.service.find_tool("tree") == nullptr) return values;
  Result<std::vector<NamedAttributes>> drives = read_dir_plus(request.service.view(), "/context");
  if (!drives.ok()) return values;
  for (const NamedAttributes& one : *drives) {
    if (one.attributes.is_directory() && one.name.starts_with(typed)) values.push_back(one.name);
  }
  return values;
}

Values complete_checkpoint(const Request& request, const std::string& typed) {
  if (request.service.find_tool("history") == nullptr) return std::vector<std::string>();
  std::vector<Checkpoint> all = WARREN_TRY(list_checkpoints(request.service.agent()));
  std::vector<std::string> values;
  for (const Checkpoint& one : all) {
    bool is_new = std::find(values.begin(), values.end(), one.name) == values.end();
    if (one.name.starts_with(typed) && is_new) values.push_back(one.name);
  }
  return values;
}

Values complete_key(const Request& request, const std::string& typed) {
  if (!request.service.serves_keys()) return std::vector<std::string>();
  std::vector<std::string> keys =
      WARREN_TRY(request.service.agent().kv().keys({.prefix = typed, .after = {}, .limit = kValuesMax + 1}));
  return readable_keys(request.service.view(), std::move(keys));
}

Values values_for(const Request& request, const Json& ref, const std::string& argument, const std::string& typed) {
  std::string type = find_text(ref, "type").value_or("");
  if (type == "ref/resource") {
    if (argument == "path") return complete_path(request, typed);
    if (argument == "key") return complete_key(request, typed);
    const std::string& agent = request.service.names().agent_id();
    if (argument == "agent_id" && agent.starts_with(typed)) return std::vector<std::string>{agent};
    return std::vector<std::string>();
  }
  if (type != "ref/prompt") return Error(Code::kInvalid, "'ref' must be of type ref/prompt or ref/resource");
  if (argument == "drive") return complete_drive(request, typed);
  if (argument == "since") return complete_checkpoint(request, typed);
  return std::vector<std::string>();
}

}  // namespace

Answer complete(Request& request) {
  auto ref = request.params.find("ref");
  auto argument = request.params.find("argument");
  if (ref == request.params.end() || !ref->is_object()) return invalid_params("'ref' must be an object");
  if (argument == request.params.end() || !argument->is_object()) return invalid_params("'argument' must be an object");
  std::optional<std::string> name = find_text(*argument, "name");
  std::optional<std::string> typed = find_text(*argument, "value");
  if (!name || !typed) return invalid_params("'argument' needs 'name' and 'value', strings");
  Values values = values_for(request, *ref, *name, *typed);
  if (!values.ok()) return rpc_error(values.error());
  if (Status noted = request.service.view().check_recorded(); !noted.ok()) return rpc_error(noted.error());
  std::size_t total = values->size();
  if (total > kValuesMax) values->resize(kValuesMax);
  Json completion{{"values", *values}, {"total", total}, {"hasMore", total > kValuesMax}};
  return Json{{"completion", std::move(completion)}};
}

}  // namespace warren::mcp
