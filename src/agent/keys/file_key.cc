#include "agent/keys/file_key.h"

#include <algorithm>

#include <fmt/format.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/keys/key_source.h"
#include "base/ascii.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/path.h"
#include "base/utf8.h"
#include "crypto/digest.h"
#include "crypto/hmac.h"
#include "crypto/passphrase.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

constexpr std::size_t kSecretBytesMax = 4096;
constexpr std::size_t kPassphraseBytesMin = 8;
constexpr std::size_t kKeyNoteBytes = 65'536;
constexpr std::size_t kMasterBytes = 32;
constexpr std::string_view kDerivation = "warren agent file 1";  // part of the format: never change them
constexpr std::string_view kContentDerivation = "warren agent content 1";
constexpr std::string_view kInHex = "_hex";  // ending of a name in a note, if its value is not UTF-8
constexpr const char* kFileKeyVariable = "WARREN_KEY";
constexpr const char* kFileKeyFileVariable = "WARREN_KEY_FILE";
constexpr const char* kFileKeyCommandVariable = "WARREN_KEY_COMMAND";

// Text that is overwritten when it is no longer needed.
class Secret {
 public:
  explicit Secret(std::string text) : text_(std::move(text)) {}
  Secret(Secret&& other) noexcept : text_(std::move(other.text_)) { other.wipe(); }
  Secret& operator=(Secret&&) = delete;
  ~Secret() { wipe(); }
  std::string_view text() const { return text_; }

 private:
  void wipe() { ::explicit_bzero(text_.data(), text_.size()); }
  std::string text_;
};

Result<std::string> note_path(std::string_view salt) {
  std::string directory = WARREN_TRY(operator_directory());
  return fmt::format("{}/keys/{}.json", directory, hex_of(as_bytes(salt)));
}

Result<Secret> read_source(const KeySource& source) {
  switch (source.kind) {
    case KeySourceKind::kStored: return Secret(source.value);
    case KeySourceKind::kVariable: {
      std::optional<std::string> found = find_variable(source.value.c_str());
      if (!found) return Error(Code::kNotFound, fmt::format("{} is not set", describe(source)));
      return Secret(*std::move(found));
    }
    case KeySourceKind::kFile:
      return Secret(WARREN_TRY(read_private_file(source.value, kSecretBytesMax + 2, "the key of an agent file",
                                                 fmt::format("chmod 600 {}", source.value))));
    case KeySourceKind::kCommand: return Secret(WARREN_TRY(run_key_command(source.value, describe(source))));
  }
  return Error(Code::kInternal, "unknown source of a key");
}

// 32 bytes that depend on the whole of the secret.
Result<Secret> master_of(const Secret& secret, std::string_view salt, const KeySource& source) {
  std::string_view text = secret.text();
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  if (std::optional<std::string> bytes = bytes_of_hex(text, kMasterBytes)) return Secret(*std::move(bytes));
  std::optional<std::string> bytes = decode_base64(text);
  if (bytes && bytes->size() == kMasterBytes) return Secret(*std::move(bytes));
  if (text.size() < kPassphraseBytesMin || text.size() > kSecretBytesMax) {
    return Error(Code::kInvalid,
                 fmt::format("{} has neither a key nor a passphrase of {} to {} bytes", describe(source),
                             kPassphraseBytesMin, kSecretBytesMax),
                 "`openssl rand -hex 32` makes a key");
  }
  return Secret(WARREN_TRY(key_of_passphrase(text, as_bytes(salt))));
}

// Depends on the salt, so that a changed one is noticed, and so that files with the same secret have different keys.
Result<Secret> derive_secret(const KeySource& source, std::string_view salt, std::string_view purpose) {
  Secret secret = WARREN_TRY(read_source(source));
  Secret master = WARREN_TRY(master_of(secret, salt, source));
  Sha256::Value key = hmac_sha256(as_bytes(master.text()), as_bytes(std::string(purpose) + std::string(salt)));
  Secret derived{std::string(as_text(Bytes(key)))};
  ::explicit_bzero(key.data(), key.size());
  return derived;
}

Result<SharedDatabaseKey> derive(const KeySource& source, std::string_view salt) {
  Secret key = WARREN_TRY(derive_secret(source, salt, kDerivation));
  return SharedDatabaseKey(std::make_shared<const DatabaseKey>(key.text(), salt));
}

Result<std::string> derive_content(const KeySource& source, std::string_view salt) {
  Secret key = WARREN_TRY(derive_secret(source, salt, kContentDerivation));
  return std::string(key.text());
}

const char* name_in_note(KeySourceKind kind) {
  switch (kind) {
    case KeySourceKind::kStored: return "key";
    case KeySourceKind::kVariable: return "variable";
    case KeySourceKind::kFile: return "file";
    case KeySourceKind::kCommand: return "command";
  }
  return "key";
}

// The agent's path is for people who look through the notes.
std::string encode_key_note(const KeySource& source, const std::string& agent_path) {
  Result<std::string> whole = canonical_host_path(agent_path);
  Json note;
  note["agent"] = quote(whole.ok() ? *whole : agent_path);
  // A path is bytes, and JSON is not.
  if (is_utf8(source.value)) note[name_in_note(source.kind)] = source.value;
  else note[std::string(name_in_note(source.kind)) + std::string(kInHex)] = hex_of(as_bytes(source.value));
  return dump_json_pretty(note) + "\n";
}

Result<KeySource> decode_in_hex(KeySourceKind kind, const std::string& digits) {
  std::optional<std::string> bytes = bytes_of_hex(digits, digits.size() / 2);
  if (bytes) return KeySource{.kind = kind, .value = *std::move(bytes)};
  return Error(Code::kInvalid, fmt::format("its {}{} is not hexadecimal", name_in_note(kind), kInHex));
}

Result<KeySource> decode_key_note(std::string_view text) {
  Json note = WARREN_TRY(parse_json(text));
  for (KeySourceKind kind :
       {KeySourceKind::kStored, KeySourceKind::kVariable, KeySourceKind::kFile, KeySourceKind::kCommand}) {
    const char* name = name_in_note(kind);
    if (note.is_object() && note.contains(name) && note[name].is_string()) {
      return KeySource{.kind = kind, .value = note[name].get<std::string>()};
    }
    std::string in_hex = std::string(name) + std::string(kInHex);
    if (note.is_object() && note.contains(in_hex) && note[in_hex].is_string()) {
      return decode_in_hex(kind, note[in_hex].get<std::string>());
    }
  }
  return Error(Code::kInvalid, "it has neither a key nor the source of one");
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  fill_with_random(as_mutable_bytes(bytes));
  return bytes;
}

Result<std::string> put_key_note(std::string_view salt, const KeySource& source, const std::string& agent_path) {
  std::string path = WARREN_TRY(note_path(salt));
  auto put = [&]() -> Status {
    WARREN_TRY(make_host_dirs(std::string(directory_of(path)), 0700));
    WARREN_TRY(replace_host_file(path, encode_key_note(source, agent_path), 0600));
    return sync_host_dir(std::string(directory_of(path)));
  };
  WARREN_TRY(put().within("note where the key is"));
  return path;
}

Result<KeySource> read_key_note(const std::string& path) {
  Secret text(WARREN_TRY(
      read_private_file(path, kKeyNoteBytes, "the key of an agent file", fmt::format("chmod 600 {}", path))));
  return decode_key_note(text.text()).within(fmt::format("read {}", quote(path)));
}

Result<std::optional<KeySource>> find_key_note(std::string_view salt) {
  std::string path = WARREN_TRY(note_path(salt));
  if (!WARREN_TRY(find_host_file(path))) return std::optional<KeySource>();
  return std::optional(WARREN_TRY(read_key_note(path)));
}

std::optional<KeySource> find_given_source() {
  if (find_variable(kFileKeyVariable)) return KeySource{.kind = KeySourceKind::kVariable, .value = kFileKeyVariable};
  if (std::optional<std::string> path = find_variable(kFileKeyFileVariable)) {
    return KeySource{.kind = KeySourceKind::kFile, .value = *path};
  }
  if (std::optional<std::string> command = find_variable(kFileKeyCommandVariable)) {
    return KeySource{.kind = KeySourceKind::kCommand, .value = *command};
  }
  return std::nullopt;
}

std::string hint_for_key(const std::string& agent_path) {
  return fmt::format(
      "`warren key {} --key-file FILE` notes where it is (also --key-env, --key-command); or set {}, {} or {}",
      agent_path, kFileKeyVariable, kFileKeyFileVariable, kFileKeyCommandVariable);
}

}  // namespace

bool is_variable_name(std::string_view text) {
  constexpr std::size_t kKeyLike = 32;  // a key that was given in place of a name is not to be repeated
  auto is_hex = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); };
  bool is_name = !text.empty() && !is_digit(text.front()) &&
                 std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
  return is_name && static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_hex)) < kKeyLike;
}

std::string describe(const KeySource& source) {
  switch (source.kind) {
    case KeySourceKind::kStored: return "the note of the key";
    case KeySourceKind::kVariable:
      return is_variable_name(source.value) ? fmt::format("the variable {}", source.value) : "a variable";
    case KeySourceKind::kFile: return fmt::format("the file {}", quote(source.value));
    case KeySourceKind::kCommand: return "the command for the key";
  }
  return {};
}

std::vector<KeySource> list_key_sources() {
  std::vector<KeySource> sources;
  if (std::optional<KeySource> given = find_given_source()) sources.push_back(*std::move(given));
  if (std::optional<std::string> path = find_variable(kFileKeyFileVariable)) {
    sources.push_back({.kind = KeySourceKind::kFile, .value = *std::move(path)});
  }
  Result<std::string> directory = operator_directory();
  if (!directory.ok()) return sources;
  Result<Fd> notes = open_host_dir(*directory + "/keys");
  if (!notes.ok()) return sources;
  Result<std::vector<HostEntry>> entries = list_host_dir(notes->get());
  if (!entries.ok()) return sources;
  for (const HostEntry& entry : *entries) {
    if (!entry.name.ends_with(".json")) continue;
    Result<KeySource> noted = read_key_note(fmt::format("{}/keys/{}", *directory, entry.name));
    if (noted.ok() && noted->kind != KeySourceKind::kStored) sources.push_back(*std::move(noted));
  }
  return sources;
}

Result<NewFileKey> make_file_key(const std::optional<KeySource>& source, const std::string& agent_path) {
  std::string salt = random_bytes(DatabaseKey::kSaltBytes);
  KeySource from = source.value_or(KeySource{});
  if (!source) from.value = hex_of(as_bytes(random_bytes(kMasterBytes)));
  NewFileKey made;
  made.key = WARREN_TRY(derive(from, salt));
  made.note = WARREN_TRY(put_key_note(salt, from, agent_path));
  return made;
}

void remove_key_note(const NewFileKey& key) {
  remove_host_file(key.note).ignore("it is the key of a file that does not exist");
}

Result<NotedContentKey> make_content_key(const std::optional<KeySource>& source, const std::string& agent_path) {
  KeySource from = source.value_or(KeySource{});
  if (!source) from.value = hex_of(as_bytes(random_bytes(kMasterBytes)));
  NotedContentKey made;
  made.key.salt = random_bytes(ContentKey::kSaltBytes);
  made.key.secret = WARREN_TRY(derive_content(from, made.key.salt));
  made.note = WARREN_TRY(put_key_note(made.key.salt, from, agent_path));
  return made;
}

void remove_key_note(const NotedContentKey& key) {
  remove_host_file(key.note).ignore("it is the key of files that were not encrypted");
}

ContentKeyFinder agent_content_keys(const std::string& agent_path) {
  return [agent_path](std::string_view salt) -> Result<std::string> {
    std::optional<KeySource> source = WARREN_TRY(find_key_note(salt));
    if (!source) source = find_given_source();
    if (source) return derive_content(*source, salt);
    return Error(Code::kDenied, "nobody has noted where that key is", hint_for_key(agent_path));
  };
}

namespace {

// Opening an agent takes several connections, and a passphrase or a command takes its time: asked once. For one thread.
KeyFinder remembering(KeyFinder find) {
  auto found = std::make_shared<SharedDatabaseKey>();  // shared by the copies of the finder
  return [find = std::move(find), found](std::string_view salt) -> Result<SharedDatabaseKey> {
    if (!*found || (*found)->salt() != salt) *found = WARREN_TRY(find(salt));
    return *found;
  };
}

}  // namespace

KeyFinder keys_from(const KeySource& source, const std::string& agent_path) {
  return remembering([source, agent_path](std::string_view salt) -> Result<SharedDatabaseKey> {
    return derive(source, salt).within(fmt::format("key of agent {}", quote(agent_id_of(agent_path))));
  });
}

KeyFinder agent_keys(const std::string& agent_path) {
  return remembering([agent_path](std::string_view salt) -> Result<SharedDatabaseKey> {
    std::optional<KeySource> source = WARREN_TRY(find_key_note(salt));
    if (!source) source = find_given_source();
    if (source) return keys_from(*source, agent_path)(salt);
    return Error(Code::kDenied,
                 fmt::format("agent {} is encrypted, and there is no key for it", quote(agent_id_of(agent_path))),
                 hint_for_key(agent_path));
  });
}

namespace {

Error not_encrypted(const std::string& agent_path) {
  return {Code::kInvalid, fmt::format("agent {} is not encrypted", quote(agent_id_of(agent_path)))};
}

}  // namespace

Result<std::optional<KeyPlace>> find_key_place(const std::string& agent_path, Clock& clock) {
  auto store =
      WARREN_TRY(Store::open(agent_path, {.mode = OpenMode::kReadOnly, .find_key = agent_keys(agent_path)}, clock));
  const SharedDatabaseKey& key = store->database().key();
  if (!key) return std::optional<KeyPlace>();
  std::optional<KeySource> noted = WARREN_TRY(find_key_note(key->salt()));
  if (!noted) return std::optional(KeyPlace{.source = find_given_source().value_or(KeySource{}), .note = {}});
  std::string note = WARREN_TRY(note_path(key->salt()));
  return std::optional(KeyPlace{.source = *std::move(noted), .note = std::move(note)});
}

Result<std::vector<ContentKeyPlace>> list_content_key_places(const std::string& agent_path, Clock& clock) {
  auto store =
      WARREN_TRY(Store::open(agent_path, {.mode = OpenMode::kReadOnly, .find_key = agent_keys(agent_path)}, clock));
  std::vector<ContentKeyPlace> places;
  if (store->content_keys() == nullptr) return places;
  for (const ContentKeyRow& row : store->content_keys()->rows()) {
    ContentKeyPlace place{.name = name_of_content_key(row.salt), .is_replaced = row.replaced_by.has_value()};
    place.source = WARREN_TRY(find_key_note(row.salt));
    if (place.source) place.note = WARREN_TRY(note_path(row.salt));
    else place.source = find_given_source();
    for (const CipherPattern& one : store->content_keys()->patterns()) {
      if (one.key == row.id) place.patterns.push_back(one.pattern);
    }
    place.use = WARREN_TRY(measure_key_use(*store, row.id));
    places.push_back(std::move(place));
  }
  return places;
}

namespace {

// The keys of files that this source has: a password may be that of several. The path of the first note.
Result<std::optional<std::string>> adopt_content_keys(const std::string& agent_path, const KeySource& source,
                                                      ContentKeys& keys) {
  std::optional<std::string> first;
  for (const ContentKeyRow& row : keys.rows()) {
    Secret secret(WARREN_TRY(derive_content(source, row.salt)));
    Sha256::Value proof = ContentKey::proof_of(as_bytes(secret.text()));
    if (as_text(Bytes(proof)) != row.proof) continue;
    std::string note = WARREN_TRY(put_key_note(row.salt, source, agent_path));
    if (!first) first = std::move(note);
  }
  return first;
}

}  // namespace

Result<std::string> adopt_key(const std::string& agent_path, const KeySource& source, Clock& clock) {
  StoreOptions options{.mode = OpenMode::kReadOnly, .find_key = keys_from(source, agent_path)};
  Result<std::unique_ptr<Store>> whole = Store::open(agent_path, options, clock);
  std::unique_ptr<Store> store;
  std::optional<std::string> note;
  if (whole.ok()) {
    store = std::move(whole).take_value();
    const SharedDatabaseKey& key = store->database().key();
    if (key) note = WARREN_TRY(put_key_note(key->salt(), source, agent_path));
  } else {
    // If it is encrypted as a whole, with another key, it may be the key of files in it.
    options.find_key = agent_keys(agent_path);
    Result<std::unique_ptr<Store>> known = Store::open(agent_path, options, clock);
    if (!known.ok() || (*known)->content_keys() == nullptr) return std::move(whole).take_error();
    store = std::move(known).take_value();
  }
  if (store->content_keys() != nullptr) {
    std::optional<std::string> of_files = WARREN_TRY(adopt_content_keys(agent_path, source, *store->content_keys()));
    if (!note) note = std::move(of_files);
    if (!note) {
      return Error(Code::kDenied, fmt::format("no file of agent {} is encrypted with the key in {}",
                                              quote(agent_id_of(agent_path)), describe(source)));
    }
  }
  if (!note) return not_encrypted(agent_path);
  return *std::move(note);
}

}  // namespace warren
