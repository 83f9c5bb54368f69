#include "agent/encrypted_note.h"

#include <fmt/format.h>

#include "agent/agent.h"
#include "agent/key_source.h"
#include "agent/locate.h"
#include "base/path.h"
#include "crypto/digest.h"
#include "os/host_files.h"

namespace warren {
namespace {

Result<std::string> path_of_encrypted_note(const std::string& agent_path) {
  std::string directory = WARREN_TRY(operator_directory());
  // Of its folder, since a deleted agent has no path of its own.
  std::string folder = WARREN_TRY(canonical_host_path(std::string(directory_of(agent_path))));
  std::string whole = fmt::format("{}/{}", folder, base_name(agent_path));
  return fmt::format("{}/keys/agents/{}", directory, sha256_hex(as_bytes(whole)).substr(0, 32));
}

Status put_encrypted_note(const std::string& note, const std::string& agent_path) {
  WARREN_TRY(make_host_dirs(std::string(directory_of(note)), 0700));
  return replace_host_file(note, quote(agent_path) + "\n", 0600);
}

}  // namespace

Status check_still_encrypted(Store& store, const std::string& agent_path) {
  if (agent_path == kMemoryAgent) return Ok{};
  Result<std::string> note = path_of_encrypted_note(agent_path);
  if (!note.ok()) return Ok{};  // without a home there are no notes
  Result<std::optional<struct stat>> found = find_host_file(*note);
  if (!found.ok()) return Ok{};  // inside a run the folder is out of reach
  bool is_encrypted = store.database().key() != nullptr;
  if (is_encrypted && !*found) {
    put_encrypted_note(*note, agent_path).ignore("the next opening notes it");
  }
  if (is_encrypted || !*found) return Ok{};
  return Error(Code::kDenied,
               fmt::format("agent {} was encrypted, and the file in its place is not", quote(agent_id_of(agent_path))),
               fmt::format("if you put it there, remove {}", quote(*note)));
}

Status forget_encrypted(const std::string& agent_path) {
  std::string note = WARREN_TRY(path_of_encrypted_note(agent_path));
  WARREN_TRY(remove_host_file(note));
  return Ok{};
}

}  // namespace warren
