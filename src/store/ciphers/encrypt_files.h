// Encrypting the content of files by patterns of their paths, decrypting it, and giving it another key.
//
// First the keys and patterns change (add_patterns, remove_patterns, replace_keys), on a database that nobody else has
// open (Database::hold_alone), since every process has read them when it opened the agent. Then the files follow, each
// in a transaction of its own (encrypt_matching and so on); others may use the agent meanwhile. Which files are left is
// seen from their rows: interrupted, the same call goes on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/ciphers/content_keys.h"
#include "store/store.h"

namespace warren {

struct NewContentKey {
  std::string salt;
  std::string secret;
};

// Files whose path matches are encrypted with this key from now on. A pattern that exists keeps its key.
Status add_patterns(Database& database, const std::vector<std::string>& patterns, std::int64_t key);
Result<std::int64_t> add_content_key(Database& database, const NewContentKey& key);
Status remove_patterns(Database& database, const std::vector<std::string>& patterns);
// All patterns and files that have one of the keys `old` get the new one.
Status replace_keys(Database& database, const std::vector<std::int64_t>& old, std::int64_t key);

// What was done, also by a call that failed. A file that could not be changed is a problem; the others are changed.
struct RecodedFiles {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t kept = 0;             // that were not decrypted, since another pattern matches them
  std::uint64_t given_other_key = 0;  // of those kept: that got the key of the other pattern now
  std::vector<std::string> problems;  // the first few
  std::uint64_t failed = 0;
  std::vector<Inode> nodes;  // that were changed
};

// The store has these patterns. Files that match one of them get the key that a new file there would have: those that
// are not encrypted, and those that have another key.
Status encrypt_matching(Store& store, const std::vector<std::string>& patterns, RecodedFiles& done);
// The store does not have these patterns any more. A file that another one matches gets its key instead.
Status decrypt_matching(Store& store, const std::vector<std::string>& patterns, RecodedFiles& done);
Status finish_replacing_keys(Store& store, RecodedFiles& done);

// After rows from another time were put in place: what a pattern matches gets its key, and what has a key that was
// replaced gets the new one. In a transaction around it, all of it is one change. O(files), if the agent has patterns.
Status encrypt_by_patterns(Store& store, RecodedFiles& done);

// What a key is needed for. O(encrypted files, and versions of them).
struct KeyUse {
  std::uint64_t files = 0;        // that exist
  std::uint64_t checkpoints = 0;  // that have files with it
};
Result<KeyUse> measure_key_use(Store& store, std::int64_t key);

// Removes what other tables have of the content of encrypted files: texts for merging and for semantic search.
Status remove_traces(Store& store);

// Reads every encrypted file, as far as its key is known; each problem is one line. For fsck.
struct CipherCheck {
  std::uint64_t files = 0;
  std::uint64_t unknown = 0;  // without a key: not checked
  std::vector<std::string> problems;
  std::uint64_t failed = 0;
};
Result<CipherCheck> check_encrypted_files(Store& store);

}  // namespace warren
