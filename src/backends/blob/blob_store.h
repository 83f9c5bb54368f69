// Values under keys: what Redis, S3, PostgreSQL, a program of the user's or this process's memory can all do. A store
// becomes a filesystem through vfs/blob_fs.h.
//
// A key is 1 to 1024 bytes: components separated by single slashes, without '.', '..' and NUL, as a path without its
// leading slash. Keys are ordered by their bytes. A put is whole: readers see the old value or the new one, and once it
// has returned, every later get anywhere sees it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"

namespace warren {

struct BlobInfo {
  std::string key;
  std::uint64_t size = 0;
  std::string version;  // changes with every put; for if_match
  Timestamp modified;
  std::optional<Timestamp> expires;  // unset also if the store does not say
};

struct Blob {
  BlobInfo info;
  std::string content;
};

struct PutOptions {
  std::optional<std::chrono::milliseconds> ttl;  // gone for every reader once it has passed; kInvalid unless positive
  std::optional<std::string> if_match;           // kConflict unless this is the current version
  bool if_absent = false;                        // kExists if there is a value
};

// One page of a listing, in the order of keys.
struct BlobPage {
  std::vector<BlobInfo> blobs;
  std::vector<std::string> folders;  // with ListOptions::by_folder: "a/b/", each once
  std::string next;                  // ListOptions::after of the next page; empty after the last
};

struct ListOptions {
  std::string prefix;        // bytes, not components
  std::string after;         // only keys and folders behind this one
  std::size_t limit = 1000;  // of blobs and folders together; a page may be shorter without being the last
  bool by_folder = false;    // keys with a slash behind the prefix are folded into folders
};

// One put or remove of a batch.
struct BlobChange {
  std::string key;
  std::optional<Bytes> content;  // unset: remove
  PutOptions options;            // a removal has only if_match, where the store has conditional_removals
};

// What a store can do beyond the minimum.
struct BlobAbilities {
  bool conditional_puts = true;          // if_match and if_absent; without it both are kUnsupported
  bool conditional_removals = false;     // if_match of a removal in a batch; without it kUnsupported
  bool ttl = true;                       // without it PutOptions::ttl is kUnsupported
  bool whole_batches = false;            // a batch happens whole or not at all
  bool lasts = true;                     // survives the process
  std::uint64_t largest = 512ULL << 20;  // bytes of a value; kTooLarge beyond
};

// Thread-safe. Calls return within the store's timeout (kUnavailable), also when the other side is gone, hangs or
// answers half; after that they work again without being reopened. An error never contains a password or key. A put
// that failed with kUnavailable may or may not have happened; no other failure leaves anything behind.
class BlobStore {
 public:
  virtual ~BlobStore() = default;

  virtual std::string name() const = 0;  // for people: "redis://host:6379/0", without secrets
  virtual BlobAbilities abilities() const = 0;

  virtual Result<std::optional<Blob>> get(std::string_view key) = 0;
  // Up to `length` bytes from `offset`; fewer at the end, none behind it.
  virtual Result<std::optional<Blob>> get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) = 0;
  virtual Result<std::optional<BlobInfo>> find(std::string_view key) = 0;
  virtual Result<BlobInfo> put(std::string_view key, Bytes content, const PutOptions& options = {}) = 0;
  virtual Result<bool> remove(std::string_view key) = 0;  // whether there was a value
  virtual Result<BlobPage> list(const ListOptions& options) = 0;
  // In order; the first failure ends it, and `whole_batches` says what then becomes of the changes before.
  virtual Status apply(std::span<const BlobChange> changes) = 0;
};

}  // namespace warren
