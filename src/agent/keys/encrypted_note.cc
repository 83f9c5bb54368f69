#include "agent/keys/encrypted_note.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/agent.h"
#include "agent/keys/key_source.h"
#include "agent/locate.h"
#include "base/bytes.h"
#include "base/path.h"
#include "crypto/digest.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

Result<std::string> path_of_encrypted_note(const std::string& agent_path) {
  std::string directory = WARREN_TRY(operator_directory());
  // Of its folder, since a deleted agent has no path of its own.
  std::string folder = WARREN_TRY(canonical_host_path(std::string(directory_of(agent_path))));
  std::string whole = fmt::format("{}/{}", folder, base_name(agent_path));
  return fmt::format("{}/keys/agents/{}", directory, sha256_hex(as_bytes(whole)).substr(0, 32));
}

constexpr std::string_view kNotEncrypted = "-";

// The file's salt, by which its key is known.
std::string name_of_key(const DatabaseKey* key) {
  return key == nullptr ? std::string(kNotEncrypted) : hex_of(as_bytes(key->salt()));
}

// Names of keys, separated by blanks, and the path for people who look through the notes.
Status put_encrypted_note(const std::string& agent_path, const std::string& names) {
  std::string note = WARREN_TRY(path_of_encrypted_note(agent_path));
  WARREN_TRY(make_host_dirs(std::string(directory_of(note)), 0700));
  return replace_host_file(note, fmt::format("{}\n{}\n", names, quote(agent_path)), 0600);
}

bool has_name(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    std::size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
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
  std::string_view names = std::string_view(note->text).substr(0, note->text.find('\n'));
  if (has_name(names, name_of_key(key))) {
    // The change is over, or was given up: whoever changes the key has the file alone until it is replaced.
    if (names != name_of_key(key)) note_encrypted(agent_path, key).ignore("the next opening notes it");
    return Ok{};
  }
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
  if (key != nullptr) return put_encrypted_note(agent_path, name_of_key(key));
  std::string note = WARREN_TRY(path_of_encrypted_note(agent_path));
  WARREN_TRY(remove_host_file(note));
  return Ok{};
}

Status note_key_change(const std::string& agent_path, const DatabaseKey* before, const DatabaseKey* after) {
  return put_encrypted_note(agent_path, fmt::format("{} {}", name_of_key(before), name_of_key(after)));
}

}  // namespace warren
