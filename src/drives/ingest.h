// Adding files of the machine and pages of the web to drives.
//
// Each item is complete or not there: items are written in units, and adding again goes on where it ended, since what
// has not changed is left as it is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "documents/content_type.h"
#include "drives/fetch.h"
#include "drives/items.h"
#include "text/ignore_rules.h"

namespace warren {

// What happens to an item that exists with another content.
enum class OnConflict {
  kRefresh,    // replaced if it came from the same source and nobody has changed it here; otherwise a failure
  kError,      // always a failure
  kOverwrite,  // replaced
  kSkip,       // stays
};

struct IngestOptions {
  std::string
      drive;  // for files; empty: disk, by their absolute paths. Otherwise by their paths from the folder's name on
  OnConflict on_conflict = OnConflict::kRefresh;
  std::vector<std::string> includes = {};  // patterns as in .gitignore; empty: every file
  std::vector<std::string> excludes = {};
  FetchOptions fetch = {};
};

struct IngestReport {
  std::uint64_t added = 0;
  std::uint64_t replaced = 0;
  std::uint64_t unchanged = 0;
  std::uint64_t skipped = 0;  // by kSkip
  std::uint64_t ignored = 0;  // by patterns, and what is neither a file nor a directory; a directory counts once
  std::uint64_t bytes = 0;    // of what was added and replaced
  struct Failure {
    std::string what;  // a path, a reference or an address
    std::string message;
  };
  std::vector<Failure> failures;
};

inline constexpr std::uint64_t kAddedFileBytes = std::uint64_t{256} << 20;

// For one thread. Agent, view and clock outlive it.
class Ingest {
 public:
  using Progress = std::function<void(const IngestReport&)>;
  Ingest(Agent& agent, FileSystem& view, Clock& clock, IngestOptions options, Progress progress = {});
  ~Ingest();

  // A file or a folder of the machine. .gitignore and .warrenignore are obeyed in folders, .git is left out, links are
  // not followed. One file that fails does not stop the rest; the report has it. kNotFound.
  Status add_path(const std::string& host_path);
  // An http or https address, to the drive that it belongs to.
  Status add_url(std::string_view address);
  // Fetches an item again that came from the web. kUnsupported for one that did not: what a row says about a file of
  // the machine is not believed.
  Status refresh(const Ref& ref);
  // Every item that came from the web. What fails is in the report.
  Status refresh_all();

  Status finish();  // writes what waits
  const IngestReport& report() const { return report_; }

 private:
  // What waits to be written.
  struct Draft {
    Ref ref;
    std::string content;  // as it was at the source, until it is prepared
    std::string charset;  // as a server says
    ItemOrigin origin;
    bool is_unchanged = false;
  };
  struct Folder;

  Status add_file(int dir, std::string_view name, const std::string& host_path, const Ref& ref);
  Status add_folder(const std::string& host_path, const Ref& top);
  Status visit_folder(Folder& folder, std::string_view relative, std::vector<std::string>& left);
  Status visit_entry(Folder& folder, int dir, std::string_view relative, std::string_view name, std::uint32_t mode,
                     std::vector<std::string>& left);
  bool is_wanted(std::string_view relative) const;
  Status queue_content(const Ref& ref, std::string source, std::string bytes, std::string_view charset);
  Status find_unchanged();
  void prepare(Draft& draft);
  Status write_drafts();
  Status write_one(Items& items, const Draft& draft);
  void fail(std::string what, const Error& error);
  ContentTypes* types();
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
  bool has_looked_for_types_ = false;
  std::unique_ptr<ContentTypes> types_;  // null: not installed
  std::unique_ptr<Fetcher> fetcher_;
};

}  // namespace warren
