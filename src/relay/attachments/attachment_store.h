// A relay's content-addressed store: attachments/{first two digits}/{hash}.
//
// Anyone may add a file by the write protocol (attachments/.pending, sync, rename, sync), so a file is trusted only
// after it was hashed. A wrong file is moved to attachments/.rejected, to make room for the right one.
//
// A file with several hard links is refused like a symbolic link: it could be changed unnoticed through another link,
// and setting our permissions would change the other file's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/fd.h"
#include "os/files/host_files.h"
#include "relay/protocol/attachment.h"
#include "relay/root/root.h"

namespace warren::relay {

inline constexpr int kAttachmentPrefixes = 256;  // directories in the store

// For hashing without interruption.
inline const std::atomic<bool> kNeverStop = false;

FileIdentity identity_of(const struct stat& info);

// Thread-safe: its only state is in the files.
class AttachmentStore {
 public:
  explicit AttachmentStore(const Root& root) : dir_(root.attachments()) {}

  // A small store in an agent's own directory: `dir`/HASH, without directories by prefix and for drafts. `dir` must
  // outlive it. What is added belongs to `owner`, if given.
  static AttachmentStore in_agent_dir(int dir, std::optional<Owner> owner = std::nullopt) {
    AttachmentStore store(dir);
    store.is_flat_ = true;
    store.owner_ = owner;
    return store;
  }

  struct Opened {
    Fd file;
    FileIdentity identity;
  };
  // kNotFound; kDenied: not a regular file, or it has several hard links.
  Result<Opened> open(std::string_view hash) const;
  Status make_private(std::string_view hash) const;  // 0600, and 0700 for the directory

  // Reads the whole file. kBusy: it is being changed; kTimeout: `stop` became true.
  struct Verified {
    FileIdentity identity;  // unchanged throughout
    bool is_right = false;  // the content matches the hash
  };
  Result<Verified> verify(std::string_view hash, const std::atomic<bool>& stop) const;

  // Copies `file` to its end into the store, durably, and returns the hash. Content that is already there is only
  // renewed, so that it is not collected soon (but a pipe is always copied). kTooLarge.
  Result<std::string> add(int file, std::uint64_t size_bytes_max, const std::atomic<bool>& stop = kNeverStop) const;
  // Adds the pieces that `next` returns until an empty one, durably. kCorrupt: they do not match `hash`; nothing is
  // added.
  Status add_pieces(const std::string& hash, const std::function<Result<std::string>()>& next) const;
  // Writes the content to `out`. kCorrupt: the written content does not match the hash.
  Status copy_to(std::string_view hash, int out, const std::atomic<bool>& stop = kNeverStop) const;

  Status set_aside(const std::string& relative, std::string_view name) const;  // to .rejected/NAME-…
  // False if it was not removed: it has changed since `known`, or the same content is being added again.
  Result<bool> remove(std::string_view hash, const FileIdentity& known) const;
  // Rolls back calls of remove() that were interrupted by a crash.
  Status finish_removals() const;

  // Entries of attachments/PREFIX; empty if there is no such directory.
  Result<std::vector<HostEntry>> list(const std::string& prefix) const;
  // Removes those of the entries that are not attachments by their name (drafts, rejected files) and have not changed
  // since `ctime_ns`. Returns how many.
  std::uint64_t remove_strays(const std::string& prefix, const std::vector<HostEntry>& entries,
                              std::int64_t ctime_ns) const;

 private:
  explicit AttachmentStore(int dir) : dir_(dir) {}
  // `fill` writes the draft and returns its hash; then the draft is moved into place.
  Result<std::string> place(const std::function<Result<std::string>(int draft)>& fill) const;
  Result<bool> renew(std::string_view hash, std::uint64_t size) const;
  Result<std::string> copy_in(int file, std::uint64_t size_bytes_max, const std::atomic<bool>& stop) const;
  std::string prefix_of(std::string_view hash) const { return is_flat_ ? "." : std::string(hash.substr(0, 2)); }
  std::string path_of(std::string_view hash) const { return prefix_of(hash) + "/" + std::string(hash); }
  Status publish(int pending, const std::string& draft, const std::string& hash) const;

  int dir_;
  bool is_flat_ = false;
  std::optional<Owner> owner_;
};

std::string path_of_attachment(std::string_view hash);  // below attachments/

}  // namespace warren::relay
