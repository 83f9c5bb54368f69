#include "agent/encrypted_note.h"

#include <fmt/format.h>

#include "agent/agent.h"
#include "agent/key_source.h"
#include "agent/locate.h"
#include "base/bytes.h"
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

// The file's salt, by which its key is known, and the path for people who look through the notes.
std::string encode_encrypted_note(const DatabaseKey& key, const std::string& agent_path) {
  return fmt::format("{}\n{}\n", hex_of(as_bytes(key.salt())), quote(agent_path));
}

struct EncryptedNote {
  std::string path;
  std::string text;
};

// nullopt: there is none, or no home for one, or it is out of reach, as inside a run.
std::optional<EncryptedNote> find_encrypted_note(const std::string& agent_path) {
  constexpr std::size_t kEncryptedNoteBytes = 65'536;
  Result<std::string> path = path_of_encrypted_note(agent_path);
  if (!path.ok()) return std::nullopt;
  Result<std::string> text = read_host_file(*path, kEncryptedNoteBytes);
  return text.ok() ? std::optional(EncryptedNote{*std::move(path), *std::move(text)}) : std::nullopt;
}

}  // namespace

Status check_still_encrypted(Store& store, const std::string& agent_path) {
  if (agent_path == kMemoryAgent) return Ok{};
  std::optional<EncryptedNote> note = find_encrypted_note(agent_path);
  const DatabaseKey* key = store.database().key().get();
  if (!note) {
    if (key != nullptr) note_encrypted(agent_path, key).ignore("the next opening notes it");
    return Ok{};
  }
  std::string_view salt = std::string_view(note->text).substr(0, note->text.find('\n'));
  if (key != nullptr && hex_of(as_bytes(key->salt())) == salt) return Ok{};
  std::string who = quote(agent_id_of(agent_path));
  return Error(Code::kDenied,
               key != nullptr ? fmt::format("another encrypted file is in the place of agent {}", who)
                              : fmt::format("agent {} was encrypted, and the file in its place is not", who),
               fmt::format("if you put it there, remove {}", quote(note->path)));
}

Status check_replaceable_by(Store& copy, const std::string& agent_path) {
  if (copy.database().key() != nullptr || !find_encrypted_note(agent_path)) return Ok{};
  std::string id = agent_id_of(agent_path);
  return Error(Code::kDenied, fmt::format("agent {} is encrypted, and this copy is not", quote(id)),
               fmt::format("`warren decrypt {0}` or `warren delete {0}` first, if that is meant", id));
}

Status note_encrypted(const std::string& agent_path, const DatabaseKey* key) {
  std::string note = WARREN_TRY(path_of_encrypted_note(agent_path));
  if (key != nullptr) {
    WARREN_TRY(make_host_dirs(std::string(directory_of(note)), 0700));
    return replace_host_file(note, encode_encrypted_note(*key, agent_path), 0600);
  }
  WARREN_TRY(remove_host_file(note));
  return Ok{};
}

}  // namespace warren
