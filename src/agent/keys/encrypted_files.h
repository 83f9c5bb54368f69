// `warren encrypt ID PATTERN…`, `decrypt` and `rekey` with patterns: keys, notes and files of an agent in the right
// order, so that an interruption leaves a state from which the same call goes on (store/ciphers/encrypt_files.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/keys/file_key.h"
#include "base/clock.h"
#include "base/result.h"
#include "store/ciphers/encrypt_files.h"

namespace warren {

struct FileEncryption {
  std::string id_or_path;
  std::vector<std::string> patterns;
  std::vector<std::string> mounts{};  // paths at which something is mounted, for FileEncryptionReport::left_out
  std::optional<KeySource> source;  // of a new key; default: a random one, or for encrypt_files the newest that exists
};

struct FileEncryptionReport {
  std::string path;
  RecodedFiles done;
  std::vector<ContentKeyPlace> keys;  // of the patterns; none after decrypt_files
  std::vector<std::string> left_out;  // by encrypt_files: where patterns match what is not a file and not encrypted
  // That may have the files as they were; after rekey_files: that need a key which was replaced.
  std::uint64_t checkpoints = 0;
  // Why the file may still have unencrypted content in unused pages: somebody has the agent open, or the disk is too
  // full for a copy.
  std::optional<Error> not_compact;
};

// Changing keys or patterns: kBusy if any process has the agent open. Without such a change others may use it. An error
// after that change says what has been done. kInvalid for a pattern that matches no file (agent/keys/pattern_places.h).
Result<FileEncryptionReport> encrypt_files(const FileEncryption& options, Clock& clock);
// kNotFound if nothing is encrypted by these patterns. What another pattern matches stays encrypted, with its key.
Result<FileEncryptionReport> decrypt_files(const FileEncryption& options, Clock& clock);
// Of the files of these patterns, and of all that share their key. kNotFound unless every one is a pattern.
Result<FileEncryptionReport> rekey_files(const FileEncryption& options, Clock& clock);

// After checkpoints were removed and the agent was closed: if it has keys for files, unused pages of the file and its
// log may still have plain content that they kept. Returns why that is left to do, as
// FileEncryptionReport::not_compact.
Result<std::optional<Error>> compact_after_removal(const std::string& path);

// What fsck can find only with the keys.
Result<CipherCheck> check_encrypted_content(const std::string& path, Clock& clock);

}  // namespace warren
