// The directories of a relay: made, checked and repaired, and always reached by descriptor.
//
//   ledger.db (or .home, of a root whose ledger is elsewhere)  config.json  .lock  relay.log  audit.log
//   agents/NAME/{outbox/.pending, inbox/.done, meta.json}   archive/DATE/NAME/   tmp/deliveries/
//   attachments/{.pending, .rejected, XX/HASH}
//
// No symbolic link below the root is followed, whoever put it there (openat2): an agent can write to its own
// directories and may be hostile.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/fd.h"
#include "os/process.h"
#include "relay/root/config.h"

namespace warren::relay {

enum class MakeRoot { kNo, kYes };

// config.json of a root that may be otherwise empty; without one, what it says by default.
Result<Config> read_config_in(int dir);

// Thread-safe for reading; lock() and make_agent() by one thread.
class Root {
 public:
  // kNo: kNotFound when there is none. With kYes every directory is made, and permissions are repaired.
  static Result<std::unique_ptr<Root>> open(const std::string& path, MakeRoot make);

  const std::string& path() const { return path_; }
  std::string ledger_path() const { return path_ + "/ledger.db"; }
  int dir() const { return dir_.get(); }
  int agents() const { return agents_.get(); }
  int archive() const { return archive_.get(); }
  int attachments() const { return attachments_.get(); }
  int deliveries() const { return deliveries_.get(); }

  // Of the one relay that serves this root, until the process ends. kBusy: at once if the relay that has it says that
  // it does, else after two seconds.
  Status lock();
  bool has_lost_lock() const;  // somebody removed the file: lock() again makes another
  bool is_locked_by_other() const;
  Status note_holder(const ProcessIdentity& who) const;  // in .lock, for those who have no ledger to ask
  Result<ProcessIdentity> find_holder() const;           // who says to hold it; kBusy: nobody does yet
  Status poke() const;                                   // makes a running relay look for requests: touches .lock

  Result<Config> read_config() const { return read_config_in(dir()); }

  Result<std::vector<std::string>> list_agents() const;  // directories with valid names
  // Makes what is missing of an agent's directories and repairs permissions; what was repaired, for the audit.
  Result<std::vector<std::string>> make_agent(std::string_view name) const;
  Result<Fd> open_outbox(std::string_view agent) const;
  Result<Fd> open_inbox(std::string_view agent) const;
  Result<Fd> make_archive(std::string_view date, std::string_view agent) const;

  const std::vector<std::string>& repaired() const { return repaired_; }

 private:
  explicit Root(std::string path, Fd dir) : path_(std::move(path)), dir_(std::move(dir)) {}
  Status make_dirs();
  Status open_dirs();
  Status make_config();
  bool holder_is_alive() const;

  std::string path_;
  Fd dir_;
  Fd agents_;
  Fd archive_;
  Fd attachments_;
  Fd deliveries_;
  Fd lock_;
  std::vector<std::string> repaired_;
};

// A directory, or a file with the flags, below `dir`: never through a link and never outside.
Result<Fd> open_below(int dir, const std::string& relative, int flags);

// Whole content of a regular file; kTooLarge by its size, before anything is read.
struct FileFacts {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
};
struct ReadFile {
  std::string content;
  FileFacts facts;
};
Result<ReadFile> read_below(int dir, const std::string& relative, std::uint64_t size_bytes_max);

}  // namespace warren::relay
