// The directory tree of a relay: created, checked, repaired, and accessed by descriptors only.
//
//   ledger.db (or .home, if the ledger is elsewhere)  config.json  .lock  relay.log  audit.log
//   agents/NAME/{outbox/.pending, inbox/.done, meta.json}   archive/DATE/NAME/   tmp/deliveries/
//   attachments/{.pending, .rejected, XX/HASH}
//
// No symbolic link below the root is ever followed (openat2): an agent can write to its own directories and may be
// hostile.
//
// agents/NAME belongs to the user that the agent runs as: usually the relay's own. If it is another one, the relay must
// be root, and everything in that directory is handed to that user. Nothing that such an agent could have exchanged
// ever changes its owner: files and directories are made in tmp/, where only the relay can write, and then renamed.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/result.h"
#include "os/fd.h"
#include "os/processes/process.h"
#include "relay/root/config.h"

namespace warren::relay {

enum class MakeRoot { kNo, kYes };

// Reads config.json from a root, which may be otherwise empty. The defaults if there is none.
Result<Config> read_config_in(int dir);

// A user that a directory belongs to.
struct Owner {
  uid_t uid = 0;
  gid_t gid = 0;
};

// Thread-safe, except that lock() and make_agent() are for one thread.
class Root {
 public:
  // kNo: fails with kNotFound if there is none. kYes: creates missing directories and repairs permissions.
  static Result<std::unique_ptr<Root>> open(const std::string& path, MakeRoot make);

  // For an agent, which need not see more of the root than its own inbox and outbox.
  static Result<std::unique_ptr<Root>> open_for_agent(const std::string& path);

  const std::string& path() const { return path_; }
  std::string ledger_path() const { return path_ + "/ledger.db"; }
  int dir() const { return dir_.get(); }
  int agents() const { return agents_.get(); }
  int archive() const { return archive_.get(); }
  int attachments() const { return attachments_.get(); }
  bool has_attachments() const { return attachments_.is_open(); }  // always, unless opened for an agent
  int deliveries() const { return deliveries_.get(); }

  // Held by the one relay that serves this root, until the process ends. kBusy: another relay holds it; returned at
  // once if that relay has recorded itself as the holder and is alive, else after two seconds.
  Status lock();
  bool has_lost_lock() const;  // the file was removed: lock() again creates a new one
  bool is_locked_by_other() const;
  Status note_holder(const ProcessIdentity& who) const;  // in .lock, for programs without access to the ledger
  Result<ProcessIdentity> find_holder() const;           // the recorded holder; kBusy: none is recorded yet
  Status poke() const;                                   // touches .lock, so that a running relay looks for requests

  Result<Config> read_config() const { return read_config_in(dir()); }
  Result<std::string> read_config_text() const;

  Result<std::vector<std::string>> list_agents() const;  // directories with valid names
  // Creates an agent's missing directories and repairs permissions. Returns the repaired ones, for the audit log.
  // `owner` is the user of a new agent; kExists: there is an agent of that name with another user.
  Result<std::vector<std::string>> make_agent(std::string_view name, std::optional<Owner> owner = std::nullopt);
  // Creates inbox/.attachments and outbox/.attachments, for an agent that cannot reach `attachments`.
  Status make_attachment_dirs(std::string_view agent);
  // The agent's user, if that is not ours.
  std::optional<Owner> find_owner(std::string_view agent) const;
  // Whether the agent cannot reach `attachments`, because of its user or because `warren run --relay-as` has shown its
  // mail to a sandbox (the file agents/NAME/.confined). What it does not have, it cannot send.
  bool is_confined(std::string_view agent) const;

  // Directories of an agent. kDenied: it does not belong to the agent's user.
  Result<Fd> open_outbox(std::string_view agent) const { return open_agent_dir(agent, "outbox"); }
  Result<Fd> open_inbox(std::string_view agent) const { return open_agent_dir(agent, "inbox"); }
  Result<Fd> open_agent_dir(std::string_view agent, std::string_view relative) const;
  Result<Fd> make_archive(std::string_view date, std::string_view agent) const;

  const std::vector<std::string>& repaired() const { return repaired_; }

 private:
  explicit Root(std::string path, Fd dir) : path_(std::move(path)), dir_(std::move(dir)) {}
  Status make_dirs();
  Status open_dirs();
  Status make_config();
  bool holder_is_alive() const;
  Result<bool> note_owners();  // of all agents: whether one has another user than ours
  Status let_users_in();
  Result<Fd> make_owned_dir(int parent, const std::string& name, const Owner& owner,
                            std::vector<std::string>& repaired) const;

  std::string path_;
  Fd dir_;
  Fd agents_;
  Fd archive_;
  Fd attachments_;
  Fd deliveries_;
  Fd lock_;
  std::vector<std::string> repaired_;
  mutable std::mutex mutex_;                          // for the next one
  std::map<std::string, Owner, std::less<>> owners_;  // agents with another user than ours
};

// Opens a file or directory below `dir`. Never follows a symbolic link and never leaves `dir`.
Result<Fd> open_below(int dir, const std::string& relative, int flags);

// Reads a regular file. kTooLarge: by its size, before anything is read; kBusy: it changed meanwhile.
struct FileFacts {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  uid_t uid = 0;
  std::uint64_t links = 0;
};
struct ReadFile {
  std::string content;
  FileFacts facts;
};
Result<ReadFile> read_below(int dir, const std::string& relative, std::uint64_t size_bytes_max);

bool is_shortage(const Error& error);  // of descriptors or space: the operation is repeated as it was

}  // namespace warren::relay
