// Adding files of the machine and pages of the web to drives.
//
// Each item is complete or not there: items are written in units, and adding again goes on where it ended, since what
// has not changed is left as it is. Several threads read and convert; one writes, in order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include "base/clock.h"
#include "base/result.h"
#include "drives/fetch.h"
#include "drives/folder_identity.h"
#include "drives/items.h"
#include "drives/type_pool.h"
#include "os/fd.h"
#include "text/ignore_rules.h"

namespace warren {

// What happens to an item that exists with another content.
enum class OnConflict {
  kRefresh,    // replaced if it came from the same source and nobody has changed it here; otherwise a failure
  kError,      // always a failure
  kOverwrite,  // replaced
  kSkip,       // stays
};

enum class ItemChange { kAdded, kReplaced, kDeleted };

struct IngestOptions {
  std::string
      drive;  // for files; empty: disk, by their absolute paths. Otherwise by their paths from the folder's name on
  OnConflict on_conflict = OnConflict::kRefresh;
  std::vector<std::string> includes = {};  // patterns as in .gitignore; empty: every file
  std::vector<std::string> excludes = {};
  FetchOptions fetch = {};
  std::function<void(ItemChange, const Ref&)> on_change = {};  // after it is stored
  // Before a folder of the machine is listed: to watch it.
  std::function<Status(int dir, const std::string& host_path)> on_folder = {};
  std::function<bool()> is_cancelled = {};  // asked between files; true ends the work with kUnavailable
};

// A file or a folder of the machine, and where its items are.
struct IngestSource {
  std::string host_path;  // absolute, without links
  Ref top;
  bool is_folder = false;
  // The folder, or the one that the file is in. Set: follow() refuses any other in its place.
  std::optional<FolderIdentity> identity = std::nullopt;
};
std::string folder_of(const IngestSource& source);  // its path

struct IngestTotals {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

struct IngestReport {
  std::uint64_t added = 0;
  std::uint64_t replaced = 0;
  std::uint64_t unchanged = 0;
  std::uint64_t deleted = 0;
  std::uint64_t skipped = 0;  // by kSkip
  std::uint64_t ignored = 0;  // by patterns, and what is neither a file nor a directory; a directory counts once
  std::uint64_t bytes = 0;    // of what was added and replaced
  IngestTotals looked_at;     // whatever became of it
  struct Failure {
    std::string what;  // a path, a reference or an address
    std::string message;
    std::string hint;  // may be empty
  };
  std::vector<Failure> failures;
  std::vector<std::string> kept_as_bytes;  // sources whose text is in an encoding that nobody knows; the first 1,000
};

inline constexpr std::uint64_t kAddedFileBytes = std::uint64_t{256} << 20;

// For one thread. Agent, view and clock outlive it.
class Ingest {
 public:
  using Progress = std::function<void(const IngestReport&)>;
  Ingest(Agent& agent, FileSystem& view, Clock& clock, IngestOptions options, Progress progress = {});
  ~Ingest();

  // A file or a folder of the machine. .gitignore and .warrenignore are obeyed in folders, .git and .agentfs are left
  // out, links are not followed. One file that fails does not stop the rest; the report has it. kNotFound.
  Status add_path(const std::string& host_path);
  // What add_path would look at. Nothing is read.
  Result<IngestTotals> measure_path(const std::string& host_path);
  // An http or https address, to the drive that it belongs to.
  Status add_url(std::string_view address);
  // The files that a session of `warren run` shows, to session:/NAME. Items of files that are gone are deleted, unless
  // they were changed here.
  Status add_session(FileSystem& tree, const std::string& session);

  // kNotFound; kInvalid if it is neither a file nor a folder.
  Result<IngestSource> find_source(const std::string& host_path);
  // Makes the items at and below `relative` ("": all) what the source has there now. Items of files that are gone, or
  // that patterns leave out now, are deleted, unless they were changed here; then new ones are added, since a directory
  // may be where a file was. kNotFound: the folder itself is gone; kConflict: it is not the one of `source.identity`.
  Status follow(const IngestSource& source, std::string_view relative);
  Result<bool> has_items(const IngestSource& source);

  // Fetches an item again that came from the web. kUnsupported for one that did not: what a row says about a file of
  // the machine is not believed.
  Status refresh(const Ref& ref);
  // Every item that came from the web. What fails is in the report.
  Status refresh_all();

  Status finish();  // writes what waits
  // Whether the last error was one of writing, which concerns everything else that is added, too.
  bool has_stopped() const { return has_stopped_; }
  // For what a caller leaves out because of an error: puts it into the report.
  void fail(std::string what, const Error& error);
  const IngestReport& report() const { return report_; }
  IngestReport take_report() { return std::exchange(report_, {}); }

 private:
  // What waits to be written.
  struct Draft {
    Ref ref;
    Fd file;              // to be read; closed: `content` is complete
    std::string content;  // as it was at the source, until it is prepared
    std::string charset;  // as a server says
    ItemOrigin origin;
    std::optional<Error> problem = std::nullopt;
    bool is_unchanged = false;
    bool is_kept_as_bytes = false;  // text in an unknown encoding
  };
  struct Folder;
  struct Seen;
  struct SessionWalk;

  void count_file(const struct stat& info);
  Status add_file(int dir, std::string_view name, const std::string& host_path, const Ref& ref);
  Result<Folder> open_folder(const IngestSource& source);
  Status walk_folder(Folder& folder, std::vector<std::string> left);
  Status visit_folder(Folder& folder, std::string_view relative, std::vector<std::string>& left);
  Status visit_entry(Folder& folder, int dir, std::string_view relative, std::string_view name, const struct stat& info,
                     std::vector<std::string>& left);
  Status visit_place(Folder& folder, std::string_view relative);
  void note_unread(const Folder& folder, std::string_view relative, const Error& error);
  bool is_left_out(const Folder& folder, std::string_view path, std::string_view name, std::uint32_t mode) const;
  bool is_wanted(std::string_view relative) const;
  Status follow_folder(const IngestSource& source, std::string_view relative);
  Status follow_file(const IngestSource& source);
  Status see(const IngestSource& source, std::string_view relative);
  Status see_session(SessionWalk walk);
  Status walk_session(SessionWalk& walk);
  Status remove_unseen(const Ref& at, const Ref& top, std::string_view source);
  Result<bool> is_removable(Items& items, const Ref& ref, const Attributes& node, const std::string& source);
  Status remove_items(const std::vector<Ref>& gone, const Ref& top);
  Status visit_session_dir(SessionWalk& walk, std::vector<std::pair<Inode, std::string>>& left);
  Status add_session_file(SessionWalk& walk, const Attributes& node, const std::string& path);
  Status check_not_cancelled() const;
  Status queue_content(const Ref& ref, std::string source, std::string bytes, std::string_view charset);
  Status queue_draft(Draft draft, std::uint64_t size_bytes);
  Status read_drafts();
  Status find_unchanged();
  void prepare(Draft& draft);
  Status write_drafts();
  Status write_drafts_alone();
  Status write_one(Items& items, const Draft& draft);
  Status check_may_write(const Ref& ref);
  void note_change(ItemChange change, const Ref& ref);
  void report_changes();
  Status write_waiting();
  Result<Fetcher*> fetcher();

  Agent& agent_;
  FileSystem& view_;
  Clock& clock_;
  IngestOptions options_;
  Progress progress_;
  IgnoreRules include_;
  IgnoreRules exclude_;
  IngestReport report_;
  std::vector<Draft> drafts_;
  std::uint64_t draft_bytes_ = 0;
  std::vector<std::pair<ItemChange, Ref>> changed_;  // in the unit that is being written
  bool has_stopped_ = false;
  IngestTotals* measured_ = nullptr;  // set: files are counted and seen, not added
  std::unique_ptr<Seen> seen_;        // set: what the source has is noted
  TypePool types_;
  std::unique_ptr<Fetcher> fetcher_;
};

}  // namespace warren
