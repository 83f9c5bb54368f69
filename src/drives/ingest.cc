#include "drives/ingest.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/bytes.h"
#include "base/path.h"
#include "crypto/digest.h"
#include "documents/document_text.h"
#include "documents/encoding.h"
#include "drives/ingest_parts.h"
#include "drives/known_drives.h"
#include "fs/path_ops.h"
#include "os/threads/parallel.h"
#include "text/mime.h"
#include "vfs/namespace.h"

namespace warren {
namespace {

// One unit: large enough to share the cost of a commit, small enough not to keep other writers waiting.
constexpr std::size_t kUnitItems = 256;
constexpr std::uint64_t kUnitContentBytes = std::uint64_t{16} << 20;
constexpr std::size_t kFailures = 1000;  // that are named
constexpr std::size_t kTitleBytes = 300;

std::string joined_patterns(const std::vector<std::string>& patterns) {
  std::string lines;
  for (const std::string& pattern : patterns) (lines += pattern) += '\n';
  return lines;
}

// The first heading of a Markdown text, if it begins with one.
std::string heading_of(std::string_view text) {
  std::string_view line = trimmed(text.substr(0, text.find('\n')), kWhitespace);
  if (!line.starts_with("# ")) return {};
  return std::string(trimmed(line.substr(2), kWhitespace).substr(0, kTitleBytes));
}

bool concerns_all_items(const Error& error) {
  Code code = error.code();
  return code == Code::kNoSpace || code == Code::kIo || code == Code::kBusy || code == Code::kReadOnly ||
         code == Code::kInternal;
}

std::string title_of(std::string_view mime, std::string_view content) {
  if (mime == "text/markdown") return heading_of(content);
  if (mime != "text/html" && mime != "application/xhtml+xml") return {};
  Result<std::optional<DocumentText>> page = extract_text(mime, content);
  if (!page.ok() || !*page) return {};
  std::string title = (*page)->title.substr(0, kTitleBytes);
  return is_text(title) ? title : std::string();
}

}  // namespace

Ingest::Ingest(Agent& agent, FileSystem& view, Clock& clock, IngestOptions options, Progress progress)
    : agent_(agent),
      view_(view),
      clock_(clock),
      options_(std::move(options)),
      progress_(std::move(progress)),
      include_(joined_patterns(options_.includes)),
      exclude_(joined_patterns(options_.excludes)) {}
Ingest::~Ingest() = default;

Result<Fetcher*> Ingest::fetcher() {
  if (!fetcher_) fetcher_ = WARREN_TRY(Fetcher::open(options_.fetch));
  return fetcher_.get();
}

void Ingest::fail(std::string what, const Error& error) {
  if (report_.failures.size() < kFailures) {
    report_.failures.push_back({.what = std::move(what), .message = error.message(), .hint = error.hint()});
  }
}

Status Ingest::check_not_cancelled() const {
  if (!options_.is_cancelled || !options_.is_cancelled()) return Ok{};
  return Error(Code::kUnavailable, "it was interrupted");
}

Status Ingest::queue_draft(Draft draft, std::uint64_t size_bytes) {
  draft_bytes_ += size_bytes;
  drafts_.push_back(std::move(draft));
  if (drafts_.size() < kUnitItems && draft_bytes_ < kUnitContentBytes) return Ok{};
  return finish();
}

Status Ingest::queue_content(const Ref& ref, std::string source, std::string bytes, std::string_view charset) {
  std::uint64_t size = bytes.size();
  Draft draft{.ref = ref, .file = {}, .content = std::move(bytes), .charset = std::string(charset), .origin = {}};
  draft.origin.source = std::move(source);
  return queue_draft(std::move(draft), size);
}

// In several threads. What cannot be read is left out and reported.
Status Ingest::read_drafts() {
  std::int64_t now = clock_.now().seconds;
  WARREN_TRY(for_each_parallel(drafts_.size(), [&](std::size_t i) -> Status {
    Draft& draft = drafts_[i];
    if (draft.file.is_open()) {
      Result<std::string> content = read_added_file(draft.file.get(), kAddedFileBytes);
      draft.file = Fd();
      if (content.ok()) draft.content = std::move(content).take_value();
      else draft.problem = std::move(content).take_error();
    }
    draft.origin.fetched_at = now;
    if (!draft.problem) draft.origin.sha256 = sha256_hex(as_bytes(draft.content));
    return Ok{};
  }));
  report_.looked_at.files += drafts_.size();
  for (const Draft& draft : drafts_) {
    report_.looked_at.bytes += draft.content.size();
    if (draft.problem) fail(draft.origin.source, *draft.problem);
  }
  std::erase_if(drafts_, [](const Draft& draft) { return draft.problem.has_value(); });
  return Ok{};
}

// Content as it is stored: text in UTF-8, anything else as it is. In several threads.
void Ingest::prepare(Draft& draft) {
  std::string name(name_of(draft.ref));
  std::string mime = types_.type_of(name, draft.content);
  bool may_be_text = mime == "application/octet-stream" || mime.starts_with("text/");
  if (may_be_text && !is_text(draft.content)) {
    std::optional<std::string> decoded = decode_text(draft.content, draft.charset);
    if (decoded) {
      draft.content = *std::move(decoded);
      if (!mime.starts_with("text/")) mime = mime_type_of(name, draft.content);
    } else {
      draft.is_kept_as_bytes = has_no_control_bytes(draft.content);
    }
  }
  draft.origin.title = title_of(mime, draft.content);
  draft.origin.mime = std::move(mime);
}

// What came from the same source with the same bytes, and was not changed here, needs no more work.
Status Ingest::find_unchanged() {
  Items items(agent_, view_, clock_);
  auto unit = WARREN_TRY(view_.begin(UnitAccess::kRead));
  for (Draft& draft : drafts_) {
    Result<std::optional<Attributes>> old = items.find(draft.ref);
    if (!old.ok() || !*old || !(*old)->is_file()) continue;  // what is wrong is found again when it is written
    std::optional<ItemRow> row = WARREN_TRY(items.find_row(draft.ref, **old));
    draft.is_unchanged =
        row && is_as_fetched(*row, **old) && row->source == draft.origin.source && row->sha256 == draft.origin.sha256;
  }
  return Ok{};
}

// All in one unit. What fails for its own reasons is left out and reported. If it had changed something by then, the
// unit cannot be committed any more, and each is written on its own.
Status Ingest::write_drafts() {
  Items items(agent_, view_, clock_);
  IngestReport before = report_;
  std::size_t failed = 0;
  Status done = Ok{};
  {
    auto unit = WARREN_TRY(view_.begin(UnitAccess::kWrite));
    for (const Draft& draft : drafts_) {
      done = write_one(items, draft);
      if (done.ok()) continue;
      if (concerns_all_items(done.error())) break;
      ++failed;
      fail(to_string(draft.ref), done.error());
      done = Ok{};
    }
    if (done.ok()) done = unit->commit();
  }
  if (done.ok()) return done;
  report_ = std::move(before);
  changed_.clear();
  bool may_be_broken = failed > 0 && done.error().code() == Code::kIo;
  return may_be_broken ? write_drafts_alone() : done;
}

Status Ingest::write_drafts_alone() {
  Items items(agent_, view_, clock_);
  for (const Draft& draft : drafts_) {
    auto unit = WARREN_TRY(view_.begin(UnitAccess::kWrite));
    Status done = write_one(items, draft);
    if (!done.ok() && concerns_all_items(done.error())) return done;
    if (done.ok()) WARREN_TRY(unit->commit());
    else fail(to_string(draft.ref), done.error());
  }
  return Ok{};
}

Status Ingest::finish() {
  Status done = write_waiting();
  has_stopped_ = !done.ok();
  return done;
}

Status Ingest::write_waiting() {
  if (drafts_.empty()) return Ok{};
  WARREN_TRY(read_drafts());
  WARREN_TRY(find_unchanged());
  std::uint64_t unchanged = std::erase_if(drafts_, [](const Draft& draft) { return draft.is_unchanged; });
  report_.unchanged += unchanged;
  WARREN_TRY(for_each_parallel(drafts_.size(), [&](std::size_t i) -> Status {
    prepare(drafts_[i]);
    return Ok{};
  }));
  for (const Draft& draft : drafts_) {
    bool is_named = draft.is_kept_as_bytes && report_.kept_as_bytes.size() < kFailures;
    if (is_named) report_.kept_as_bytes.push_back(draft.origin.source);
  }
  if (!drafts_.empty()) WARREN_TRY(write_drafts());
  drafts_.clear();
  draft_bytes_ = 0;
  report_changes();
  if (progress_) progress_(report_);
  return check_not_cancelled();
}

void Ingest::note_change(ItemChange change, const Ref& ref) {
  if (options_.on_change) changed_.emplace_back(change, ref);
}

// After the commit.
void Ingest::report_changes() {
  for (const auto& [change, ref] : std::exchange(changed_, {})) options_.on_change(change, ref);
}

Status Ingest::write_one(Items& items, const Draft& draft) {
  bool is_page = looks_like_web_address(draft.origin.source);
  Ref ref = draft.ref;
  if (is_page) ref = WARREN_TRY(items.make_place_for_page(draft.ref));
  std::optional<Attributes> old = WARREN_TRY(items.find(ref));
  if (old && !old->is_file()) return Error(Code::kIsDirectory, "a directory is in the way");
  if (old) {
    std::optional<ItemRow> row = WARREN_TRY(items.find_row(ref, *old));
    bool is_untouched = row && is_as_fetched(*row, *old) && row->source == draft.origin.source;
    if (old->size == draft.content.size()) {
      std::string now = WARREN_TRY(read_file(view_, namespace_path(ref)));
      if (now == draft.content && row && row->source == draft.origin.source) {
        if (!is_untouched) WARREN_TRY(items.write(ref, draft.content, draft.origin));  // it is as fetched again
        ++report_.unchanged;
        return Ok{};
      }
    }
    if (options_.on_conflict == OnConflict::kSkip) {
      ++report_.skipped;
      return Ok{};
    }
    bool may_replace = options_.on_conflict == OnConflict::kOverwrite ||
                       (options_.on_conflict == OnConflict::kRefresh && is_untouched);
    if (!may_replace) return Error(Code::kExists, "it exists with another content");
  }
  WARREN_TRY(items.write(ref, draft.content, draft.origin));
  ++(old ? report_.replaced : report_.added);
  note_change(old ? ItemChange::kReplaced : ItemChange::kAdded, ref);
  report_.bytes += draft.content.size();
  return Ok{};
}

// The web.

// Before anything is asked of the network: a request says something, too.
Status Ingest::check_may_write(const Ref& ref) {
  auto* view = dynamic_cast<NamespaceView*>(&view_);
  if (view == nullptr) return Ok{};
  std::string path = namespace_path(ref);
  for (Rights::Operation operation : {Rights::kOverwrite, Rights::kCreate}) {
    WARREN_TRY(view->check_path(operation, path, "write").within([&] { return "add " + quote(to_string(ref)); }));
  }
  return Ok{};
}

Status Ingest::add_url(std::string_view address) {
  WebItem item = WARREN_TRY(find_web_item(address));
  if (item.fetch_url.empty()) return Error(Code::kUnsupported, fmt::format("{} is {}", quote(address), item.problem));
  WARREN_TRY(check_may_write(item.ref));
  Fetcher* web = WARREN_TRY(fetcher());
  Fetched fetched = WARREN_TRY(web->fetch(item.fetch_url).within([&] { return "fetch " + quote(item.source); }));
  return queue_content(item.ref, item.source, std::move(fetched.body), fetched.charset);
}

Status Ingest::refresh(const Ref& ref) {
  Items items(agent_, view_, clock_);
  std::string source;
  {
    auto unit = WARREN_TRY(view_.begin(UnitAccess::kRead));
    std::optional<Attributes> node = WARREN_TRY(items.find(ref));
    if (!node) return Error(Code::kNotFound, fmt::format("no {}", quote(to_string(ref))));
    std::optional<ItemRow> row = WARREN_TRY(items.find_row(ref, *node));
    if (row) source = row->source;
  }
  if (!looks_like_web_address(source)) {
    return Error(Code::kUnsupported, fmt::format("{} did not come from the web", quote(to_string(ref))),
                 "add the file again to refresh it");
  }
  WebItem item = WARREN_TRY(find_web_item(source));
  if (item.fetch_url.empty()) return Error(Code::kUnsupported, fmt::format("{} is {}", quote(source), item.problem));
  WARREN_TRY(check_may_write(ref));
  Fetcher* web = WARREN_TRY(fetcher());
  Fetched fetched = WARREN_TRY(web->fetch(item.fetch_url).within([&] { return "fetch " + quote(item.source); }));
  return queue_content(ref, source, std::move(fetched.body), fetched.charset);
}

Status Ingest::refresh_all() {
  Items items(agent_, view_, clock_);
  std::vector<std::string> drives;
  {
    auto unit = WARREN_TRY(view_.begin(UnitAccess::kRead));
    drives = WARREN_TRY(items.list_drives());
  }
  std::vector<Ref> refs;
  for (const std::string& drive : drives) {
    WARREN_TRY(
        items.walk_items({.drive = drive, .path = "/"}, [&](const Ref& ref, const Attributes& node) -> Result<bool> {
          auto unit = WARREN_TRY(view_.begin(UnitAccess::kRead));
          std::optional<ItemRow> row = WARREN_TRY(items.find_row(ref, node));
          if (row && looks_like_web_address(row->source)) refs.push_back(ref);
          return true;
        }));
  }
  for (const Ref& ref : refs) {
    Status done = refresh(ref);
    if (!done.ok()) fail(to_string(ref), done.error());
  }
  return Ok{};
}

}  // namespace warren
