// The content-addressed store of a relay: attachments/{first two digits}/{hash}, each file named by its content.
//
// Anybody may put a file there by the write protocol (attachments/.pending, sync, rename, sync), so what a name says is
// believed only after the file was hashed. What is wrong is moved to attachments/.rejected, so that its place is free
// for the right one.
//
// A file with a second name (a hard link) is refused like a symbolic link: whoever has the other name could change it
// unseen, and making ours private would change theirs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/fd.h"
#include "os/host_files.h"
#include "relay/protocol/attachment.h"
#include "relay/root/root.h"

namespace warren::relay {

inline constexpr int kAttachmentPrefixes = 256;  // directories of the store

// For what is hashed in one go.
inline const std::atomic<bool> kNeverStop = false;

FileIdentity identity_of(const struct stat& info);

// Thread-safe: the files are its only state.
class AttachmentStore {
 public:
  explicit AttachmentStore(const Root& root) : dir_(root.attachments()) {}

  struct Opened {
    Fd file;
    FileIdentity identity;
  };
  // kNotFound; kDenied: what is there is no regular file, or has another name besides.
  Result<Opened> open(std::string_view hash) const;
  Status make_private(std::string_view hash) const;  // 0600, and 0700 for its directory

  // Reads the whole file. kBusy: it is being changed; kTimeout: `stop` became true.
  struct Verified {
    FileIdentity identity;  // what it was all the while
    bool is_right = false;  // it is what its name says
  };
  Result<Verified> verify(std::string_view hash, const std::atomic<bool>& stop) const;

  // Puts in what can be read from `file`, durably, and returns its hash. What is there already is not copied again, if
  // `file` is a regular one, and not collected for another while. kTooLarge.
  Result<std::string> add(int file, std::uint64_t size_bytes_max) const;
  // Puts in what `next` gives until it gives nothing, durably. kCorrupt: that is not what `hash` says, and is not kept.
  Status add_pieces(const std::string& hash, const std::function<Result<std::string>()>& next) const;
  // Writes the content to `out`. kCorrupt: what was written is not what it should have been.
  Status copy_to(std::string_view hash, int out) const;

  Status set_aside(const std::string& relative, std::string_view name) const;  // to .rejected/NAME-…
  // Whether it was removed: not if it is no longer what it was, or somebody adds the same content meanwhile.
  Result<bool> remove(std::string_view hash, const FileIdentity& known) const;
  // Ends what remove() began when it was killed.
  Status finish_removals() const;

  // Entries of attachments/PREFIX; none if there is no such directory.
  Result<std::vector<HostEntry>> list(const std::string& prefix) const;
  // Of these entries, those that are no attachments by their name (drafts, rejected files) and unchanged since before
  // `ctime_ns`; how many.
  std::uint64_t remove_strays(const std::string& prefix, const std::vector<HostEntry>& entries,
                              std::int64_t ctime_ns) const;

 private:
  // `fill` writes a draft and says which hash it has; then the draft takes its place.
  Result<std::string> place(const std::function<Result<std::string>(int draft)>& fill) const;
  Result<bool> renew(std::string_view hash, std::uint64_t size) const;
  Result<std::string> copy_in(int file, std::uint64_t size_bytes_max) const;
  Status publish(int pending, const std::string& draft, const std::string& hash) const;

  int dir_;
};

std::string path_of_attachment(std::string_view hash);  // below attachments/

}  // namespace warren::relay
