// The keys of encrypted agent files: where they come from, and the operator's notes about that.
//
// A file's salt, its first 16 bytes, is its name here: a backup, a fork and a copy of the file have the same one, and
// need the same key. For each salt there may be a note, keys/SALT.json in the operator's directory
// (agent/keys/key_source.h), with the key itself or with its source: a variable, a file, a command. For a file without
// a note, the key is in WARREN_KEY, in the file named by WARREN_KEY_FILE, or printed by the command in
// WARREN_KEY_COMMAND.
//
// A source gives 64 hexadecimal digits or base64, for 256 bits, or else a passphrase. The key of the file itself
// is derived from it and the salt. docs/design/agent.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "store/ciphers/content_keys.h"
#include "store/ciphers/encrypt_files.h"
#include "store/store.h"

namespace warren {

enum class KeySourceKind {
  kStored,    // in the note itself
  kVariable,  // of the environment
  kFile,      // readable by its owner only
  kCommand,   // its output
};

struct KeySource {
  KeySourceKind kind = KeySourceKind::kStored;
  std::string value;  // name of the variable, absolute path, command; of kStored the key, 64 hexadecimal digits
};

// How to encrypt a new file.
struct Encryption {
  std::optional<KeySource> key;  // nullopt: a random one, stored in its note
};

// As users name it: "the variable X". Never the key itself.
std::string describe(const KeySource& source);

// Whether this can be the name of a variable, and cannot be a key that was given in its place.
bool is_variable_name(std::string_view text);

// Where keys on this machine come from: the variables above and every note, except keys that are stored in their note.
// For keeping them from others; a note that cannot be read is left out. O(notes).
std::vector<KeySource> list_key_sources();

// A new key for a new file: a random salt, and a note about its source, which is written at once. Without a source a
// random key is made, and stored in the note. kNotFound, kDenied, kInvalid if the source has no usable key.
struct NewFileKey {
  SharedDatabaseKey key;
  std::string note;  // its path
};
Result<NewFileKey> make_file_key(const std::optional<KeySource>& source, const std::string& agent_path);

// Removes the note of a key whose file could not be created.
void remove_key_note(const NewFileKey& key);

// The same for a key that encrypts single files (store/ciphers/content_keys.h); it has a salt and a note of its own.
struct NotedContentKey {
  NewContentKey key;
  std::string note;  // its path
};
Result<NotedContentKey> make_content_key(const std::optional<KeySource>& source, const std::string& agent_path);
void remove_key_note(const NotedContentKey& key);
// By its note, or by the variables.
ContentKeyFinder agent_content_keys(const std::string& agent_path);

// For opening the agent at this path: by its note, or by the variables. Errors name the agent and say what to do. What
// a finder has found it keeps, so that a source is asked once for several connections.
KeyFinder agent_keys(const std::string& agent_path);

// Where the key of the agent at this path comes from; nullopt if it is not encrypted. It is opened with the key.
struct KeyPlace {
  KeySource source;
  std::optional<std::string> note;  // path of the note, if that says so and not a variable
};
Result<std::optional<KeyPlace>> find_key_place(const std::string& agent_path, Clock& clock);

// The same for each key that its files are, or were, encrypted with. They need not be found.
struct ContentKeyPlace {
  std::string name;  // name_of_content_key
  bool is_replaced = false;
  std::optional<KeySource> source;  // nullopt: nobody knows
  std::optional<std::string> note;
  std::vector<std::string> patterns;  // in the order in which they decide
  KeyUse use;
};
Result<std::vector<ContentKeyPlace>> list_content_key_places(const std::string& agent_path, Clock& clock);

// Notes that the agent's key comes from this source, once the agent was opened with it, and so do all keys of its files
// that fit. Returns the path of the first note. kInvalid if nothing is encrypted, kDenied if it is none of the keys.
Result<std::string> adopt_key(const std::string& agent_path, const KeySource& source, Clock& clock);

// Finds keys in this source only.
KeyFinder keys_from(const KeySource& source, const std::string& agent_path);

}  // namespace warren
