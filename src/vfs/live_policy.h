// The policy in force: /policy/active.json of the agent's own tree, as it is now.
//
// Every use looks whether the file changed, so a policy takes effect at once in every process that has the agent open.
// That costs nothing while nobody has changed the agent's tree (FileSystem::change_mark).
// It is never reached through a symbolic link, and counts only as a file with one name: whoever can write another name
// or the target of a link could write the policy. Otherwise nothing is allowed until the operator has mended it. A file
// that is not a valid policy does not take effect: the one before stays, and if there was none, nothing is allowed
// until the operator has mended it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "fs/file_system.h"
#include "vfs/policy.h"

namespace warren {

inline constexpr std::string_view kActivePolicy = "/policy/active.json";
inline constexpr std::string_view kPolicyHistory = "/policy/history.json";

// Thread-safe. The filesystem outlives it.
class LivePolicy {
 public:
  explicit LivePolicy(FileSystem& own) : own_(own) {}

  struct Current {
    std::shared_ptr<const Policy> policy;
    std::uint64_t generation = 0;  // changes with the policy
    std::uint64_t decisions = 0;   // also when another process or view may have given files other names
  };
  Result<Current> current();  // kCorrupt: there is only an invalid one

  // A view gave a file another name, or moved a directory: others must decide again about what they know.
  void names_changed();

  // Checks the text, then replaces the policy and adds an entry to the history, both or none. kInvalid. With
  // `expected`, only if that is the policy now ("": there is none), byte for byte: kConflict otherwise.
  //
  // Whatever else is in the place of the directory or the files, such as a symbolic link or a file with a second name,
  // is replaced; kCorrupt if the policy would not be in force after that.
  static Status replace(FileSystem& own, std::string_view text, std::string_view by, Clock& clock,
                        const std::optional<std::string>& expected = std::nullopt);

  // The content of kActivePolicy or kPolicyHistory. kNotFound; kCorrupt if it is not a file of its own.
  static Result<std::string> read(FileSystem& own, std::string_view path);

 private:
  struct Stamp {
    Inode inode;
    std::uint64_t size = 0;
    Timestamp mtime;
    Timestamp ctime;
    bool operator==(const Stamp&) const = default;
  };
  Result<std::optional<Stamp>> look();
  bool is_known(const std::optional<Stamp>& stamp);
  void take(const std::optional<Stamp>& stamp, Result<Policy> parsed);  // under the lock

  FileSystem& own_;
  std::mutex mutex_;
  bool is_loaded_ = false;
  std::optional<std::uint64_t> mark_;  // the change mark of own_ for which current_ is known to be in force
  std::optional<Stamp> stamp_;
  std::uint64_t others_ = 0;  // the mark of others' changes that current_.decisions is for
  std::optional<Error> problem_;
  Current current_;
};

}  // namespace warren
