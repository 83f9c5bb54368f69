#include "context/catch_up.h"

#include <algorithm>

#include <fmt/format.h>

#include "agent/locate.h"
#include "base/path.h"
#include "context/extract.h"
#include "db/transaction.h"
#include "fs/encrypted.h"
#include "fs/list_dir.h"
#include "fs/path_ops.h"
#include "fs/walked_dirs.h"
#include "os/files/host_files.h"
#include "store/files/sqlite_fs.h"
#include "store/record/journal_position.h"

namespace warren {
namespace {

constexpr std::string_view kSkippedDir = ".git";  // another program's database: no text that anybody looks for

// What one transaction of the index does: others may write in between.
constexpr std::size_t kFilesAtOnce = 256;
constexpr std::uint64_t kTypeBytes = 4096;  // tell what kind of content a file has
constexpr std::uint64_t kBytesAtOnce = std::uint64_t{4} << 20;

// Changes whenever the content may have changed. Empty if that is not certain: a program that stores whole seconds can
// change a file again in the second in which it is read.
std::string index_stamp_of(const Attributes& node, std::int64_t now_seconds) {
  bool is_coarse = node.mtime.nanoseconds == 0 && node.ctime.nanoseconds == 0;
  if (is_coarse && now_seconds - std::max(node.mtime.seconds, node.ctime.seconds) < 2) return {};
  return fmt::format("{} {}.{} {}.{}", node.size, node.mtime.seconds, node.mtime.nanoseconds, node.ctime.seconds,
                     node.ctime.nanoseconds);
}

bool is_gone(const Error& error) {
  return error.code() == Code::kNotFound || error.code() == Code::kStale || error.code() == Code::kNotDirectory;
}

Result<std::string> read_content(FileSystem& fs, const Attributes& node, std::uint64_t bytes_max) {
  std::string content(std::min(node.size, bytes_max), '\0');
  std::size_t count = WARREN_TRY(fs.read(node.inode, 0, as_mutable_bytes(content)));
  content.resize(count);
  return content;
}

}  // namespace

Result<std::vector<IndexedTree>> indexed_trees(Agent& agent) {
  if (!agent.base()) return std::vector<IndexedTree>{{.number = kFilesTree, .fs = &agent.store().fs()}};
  std::vector<IndexedTree> trees;
  if (std::optional<AgentOverlay> overlay = agent.overlay()) {
    trees.push_back({.number = kFilesTree, .fs = &overlay->merged});
  }
  Result<FileSystem*> names = agent.namespace_tree();
  if (names.ok()) trees.push_back({.number = kNamespaceTree, .fs = *names});
  else if (names.error().code() != Code::kNotFound) return std::move(names).take_error();
  return trees;
}

// A file as it is now, in one state.
struct CatchUp::Snapshot {
  std::optional<Attributes> node;  // nullopt: there is no such file
  std::string stamp;
  bool is_known = false;               // as it is in the index
  std::optional<std::string> content;  // nullopt: not read
  std::string beginning;               // of a file that is too large to be read
  std::string problem;
};

CatchUp::CatchUp(Agent& agent, const std::vector<IndexedTree>& trees, Database& database, IndexRows& rows,
                 IndexVectors& vectors, Clock& clock)
    : agent_(agent), trees_(trees), database_(database), rows_(rows), vectors_(vectors), clock_(clock) {}

template <class T>
Result<T> CatchUp::of_agent(Result<T> result) {
  if (!result.ok()) is_agents_fault_ = true;
  return result;
}

const IndexedTree* CatchUp::tree_of(int number) const {
  auto found = std::ranges::find(trees_, number, &IndexedTree::number);
  return found == trees_.end() ? nullptr : &*found;
}

// Changes whenever anybody commits to the agent file. Empty if that is not certain: commits are in the log, the file
// was written so lately that it may be written again without another time, or the files are not all in it.
Result<std::string> CatchUp::mark_of_file() {
  if (agent_.base() || agent_.path() == kMemoryAgent) return std::string();
  std::optional<struct stat> file = WARREN_TRY(find_host_file(agent_.path()));
  std::optional<struct stat> log = WARREN_TRY(find_host_file(agent_.path() + "-wal"));
  bool is_old = file && clock_.now().seconds - std::max(file->st_ctim.tv_sec, file->st_mtim.tv_sec) >= 2;
  if (!is_old || (log && log->st_size > 0)) return std::string();
  return fmt::format("{} {} {} {}.{} {}.{}", file->st_dev, file->st_ino, file->st_size, file->st_mtim.tv_sec,
                     file->st_mtim.tv_nsec, file->st_ctim.tv_sec, file->st_ctim.tv_nsec);
}

Status CatchUp::run(const ContextIndex::Progress& progress, const ContextIndex::Cancelled& cancelled) {
  std::optional<JournalPosition> position;
  std::string mark = WARREN_TRY(of_agent(mark_of_file()));  // before anything is read: what comes later changes it
  {
    Transaction view = WARREN_TRY(Transaction::begin(database_, Access::kRead));
    position = WARREN_TRY(rows_.find_position());
    if (!mark.empty() && WARREN_TRY(rows_.find_file_mark()) == mark) return Ok{};
  }
  ChangesSince since = WARREN_TRY(of_agent(read_changes_since(agent_.store(), position)));
  bool is_listed = since.changes && !agent_.base();  // nobody lists the changes of a base
  if (is_listed && since.changes->empty() && since.position == position) return Ok{};
  if (is_listed) WARREN_TRY(plan(*since.changes));
  else WARREN_TRY(plan_everything());
  bool has_work = !tasks_.empty() || !dirs_.empty() || !gone_dirs_.empty();
  if (!has_work && since.position == position) return Ok{};
  WARREN_TRY(store_dirs());
  if (!WARREN_TRY(work(progress, cancelled))) return Ok{};  // cancelled: the next run goes on
  Transaction scope = WARREN_TRY(Transaction::begin(database_, Access::kWrite));
  WARREN_TRY(rows_.set_position(since.position));
  WARREN_TRY(rows_.set_file_mark(mark));
  WARREN_TRY(vectors_.remove_unused());
  return scope.commit();
}

void CatchUp::add_task(int tree, std::string path, Trust trust) {
  auto [task, is_new] = tasks_.try_emplace({tree, std::move(path)}, trust);
  if (!is_new && trust == Trust::kNothing) task->second = trust;
}

// From the journal.

Status CatchUp::plan(const std::vector<Change>& changes) {
  Transaction view = WARREN_TRY(Transaction::begin(database_, Access::kRead));
  for (const Change& change : changes) {
    switch (change.kind) {
      case ChangeKind::kEntry: WARREN_TRY(plan_entry(change)); break;
      case ChangeKind::kData:
      case ChangeKind::kAttributes: WARREN_TRY(plan_node(change)); break;
      case ChangeKind::kKey:
      case ChangeKind::kToolCall:
      case ChangeKind::kAudit:
      case ChangeKind::kBase:
      case ChangeKind::kEverything: break;
    }
  }
  return Ok{};
}

// A name that has another node now. A directory that is not known is not in the tree, or another entry leads to it.
Status CatchUp::plan_entry(const Change& change) {
  const IndexedTree& tree = trees_.front();
  std::optional<std::string> dir = WARREN_TRY(rows_.find_dir(tree.number, Inode{change.id}));
  if (!dir || change.name == kSkippedDir) return Ok{};
  std::string path = join_path(*dir, change.name);
  Result<Attributes> node = tree.fs->lookup(Inode{change.id}, change.name);
  if (!node.ok() && !is_gone(node.error())) return of_agent(Status(std::move(node).take_error()));
  add_task(tree.number, path, Trust::kStamp);
  bool is_dir = node.ok() && node->is_directory();
  if (is_dir && WARREN_TRY(rows_.find_dir(tree.number, node->inode)) == path) return Ok{};
  if (WARREN_TRY(rows_.has_dir_at(tree.number, path))) {
    gone_dirs_.emplace_back(tree.number, path);
    for (std::string& below : WARREN_TRY(rows_.list_paths_below(tree.number, path))) {
      add_task(tree.number, std::move(below), Trust::kStamp);
    }
  }
  if (!is_dir) return Ok{};
  FoundFiles files;
  WARREN_TRY(list_below(tree, node->inode, path, files));
  for (const auto& [below, attributes] : files) add_task(tree.number, below, Trust::kStamp);
  return Ok{};
}

Status CatchUp::plan_node(const Change& change) {
  Trust trust = change.kind == ChangeKind::kData ? Trust::kNothing : Trust::kStamp;
  const IndexedTree& tree = trees_.front();
  for (std::string& path : WARREN_TRY(rows_.list_paths_of(tree.number, Inode{change.id}))) {
    add_task(tree.number, std::move(path), trust);
  }
  return Ok{};
}

// From the tree.

Status CatchUp::plan_everything() {
  for (const IndexedTree& tree : trees_) WARREN_TRY(plan_tree(tree));
  return Ok{};
}

Status CatchUp::plan_tree(const IndexedTree& tree) {
  FoundFiles files;
  WARREN_TRY(list_below(tree, kRootInode, "/", files));
  gone_dirs_.emplace_back(tree.number, "/");
  std::int64_t now = clock_.now().seconds;
  Transaction view = WARREN_TRY(Transaction::begin(database_, Access::kRead));
  for (IndexedFile& known : WARREN_TRY(rows_.list_files(tree.number))) {
    auto found = files.find(known.path);
    if (found == files.end()) {
      add_task(tree.number, std::move(known.path), Trust::kStamp);
      continue;
    }
    bool is_same =
        !known.stamp.empty() && known.inode == found->second.inode && known.stamp == index_stamp_of(found->second, now);
    if (!is_same) add_task(tree.number, std::move(known.path), Trust::kStamp);
    files.erase(found);
  }
  for (const auto& [path, attributes] : files) add_task(tree.number, path, Trust::kStamp);
  return Ok{};
}

// Without recursion: a tree can be deep. A directory that cannot be read has no files for us.
Status CatchUp::list_below(const IndexedTree& tree, Inode dir, const std::string& path, FoundFiles& files) {
  WalkedDirs walked(*tree.fs);
  std::vector<std::pair<Inode, std::string>> left{{dir, path}};
  while (!left.empty()) {
    auto [inode, at] = std::move(left.back());
    left.pop_back();
    WARREN_TRY(of_agent(walked.enter(inode, at)));
    Result<std::vector<DirEntry>> entries = list_dir(*tree.fs, inode, DirDetail::kAttributes);
    if (!entries.ok() && (is_gone(entries.error()) || entries.error().code() == Code::kDenied)) continue;
    if (!entries.ok()) return of_agent(Status(std::move(entries).take_error()));
    for (DirEntry& entry : *entries) {
      if (!entry.attributes) continue;
      std::string below = join_path(at, entry.name);
      bool is_dir = entry.attributes->is_directory();
      if (is_dir && entry.name != kSkippedDir) left.emplace_back(entry.inode, std::move(below));
      else if (entry.attributes->is_file()) files.emplace(std::move(below), *entry.attributes);
    }
    dirs_.push_back({.tree = tree.number, .inode = inode, .path = std::move(at)});
  }
  return Ok{};
}

// Their paths are needed only where the journal names directories.
Status CatchUp::store_dirs() {
  if (agent_.base() || (dirs_.empty() && gone_dirs_.empty())) return Ok{};
  Transaction scope = WARREN_TRY(Transaction::begin(database_, Access::kWrite));
  for (const auto& [tree, path] : gone_dirs_) WARREN_TRY(rows_.remove_dirs(tree, path));
  for (const FoundDir& dir : dirs_) WARREN_TRY(rows_.put_dir(dir.tree, dir.inode, dir.path));
  return scope.commit();
}

// File by file. Returns false if it was cancelled.

Result<bool> CatchUp::work(const ContextIndex::Progress& progress, const ContextIndex::Cancelled& cancelled) {
  IndexProgress state{.done = 0, .total = tasks_.size()};
  for (auto task = tasks_.begin(); task != tasks_.end();) {
    if (cancelled && cancelled()) return false;
    Transaction scope = WARREN_TRY(Transaction::begin(database_, Access::kWrite));
    std::uint64_t bytes = 0;
    for (std::size_t files = 0; files < kFilesAtOnce && bytes < kBytesAtOnce && task != tasks_.end(); ++files) {
      const auto& [place, trust] = *task;
      WARREN_TRY(index_file(place.first, place.second, trust));
      std::optional<IndexedFile> file = WARREN_TRY(rows_.find_file(place.first, place.second));
      if (file) bytes += std::min(file->size, kIndexedFileBytes);
      ++task;
      ++state.done;
    }
    WARREN_TRY(scope.commit());
    if (progress) progress(state);
  }
  return true;
}

Status CatchUp::index_file(int tree_number, const std::string& path, Trust trust) {
  const IndexedTree* tree = tree_of(tree_number);
  std::optional<IndexedFile> known = WARREN_TRY(rows_.find_file(tree_number, path));
  Snapshot now;
  if (tree != nullptr) now = WARREN_TRY(read_file_now(*tree, path, known, trust));
  if (now.is_known) return Ok{};
  if (!now.node) return known ? rows_.remove_file(known->id) : Status(Ok{});
  IndexedFile file{.id = known ? known->id : 0,
                   .tree = tree_number,
                   .path = path,
                   .inode = now.node->inode,
                   .stamp = now.stamp,
                   .size = now.node->size,
                   .changed_at = now.node->mtime.seconds,
                   .hash = {},
                   .mime = {},
                   .state = now.node->size > kIndexedFileBytes ? FileState::kTooLarge : FileState::kUnreadable,
                   .problem = now.problem};
  std::optional<ExtractedText> text;
  if (now.content) {
    file.hash = hash_of(*now.content);
    bool was_read = known && (known->state == FileState::kText || known->state == FileState::kNoText);
    if (was_read && known->hash == file.hash) return rows_.touch_file(file);
    text = text_of(path, as_bytes(*now.content));
    file.state = text ? FileState::kText : FileState::kNoText;
  }
  file.mime = indexed_type_of(path, now.content ? std::string_view(*now.content) : now.beginning, text);
  std::vector<TextChunk> chunks;
  if (text) chunks = chunk_text(text->text, text->shape);
  return rows_.put_file(std::move(file), chunks);
}

// What cannot be read is a problem of that file, not of the search.
Result<CatchUp::Snapshot> CatchUp::read_file_now(const IndexedTree& tree, const std::string& path,
                                                 const std::optional<IndexedFile>& known, Trust trust) {
  Snapshot now;
  auto unit = WARREN_TRY(of_agent(tree.fs->begin(UnitAccess::kRead)));
  Result<Attributes> node = lstat(*tree.fs, path);
  bool is_missing = !node.ok() && (is_gone(node.error()) || node.error().code() == Code::kDenied);  // hidden by now
  if (!node.ok() && !is_missing) return of_agent(Result<Snapshot>(std::move(node).take_error()));
  if (!node.ok() || !node->is_file()) return now;
  now.node = *node;
  now.stamp = index_stamp_of(*node, clock_.now().seconds);
  now.is_known =
      known && trust == Trust::kStamp && !now.stamp.empty() && known->inode == node->inode && known->stamp == now.stamp;
  if (now.is_known) return now;
  // The index of an encrypted agent is encrypted itself; any other would have the text in the clear.
  if (!agent_.store().database().key()) {
    Result<bool> is_hidden = is_encrypted(*tree.fs, node->inode);
    if (!is_hidden.ok()) now.problem = is_hidden.error().message();
    else if (*is_hidden) now.problem = "the file is encrypted, and the index is not";
    if (!now.problem.empty()) return now;
  }
  if (node->size > kIndexedFileBytes) {
    now.problem = fmt::format("the file has {} bytes; text is indexed up to {}", node->size, kIndexedFileBytes);
    Result<std::string> beginning = read_content(*tree.fs, *node, kTypeBytes);
    if (beginning.ok()) now.beginning = std::move(beginning).take_value();
    return now;
  }
  Result<std::string> content = read_content(*tree.fs, *node, kIndexedFileBytes);
  if (content.ok()) now.content = *std::move(content);
  else now.problem = content.error().message();
  return now;
}

}  // namespace warren
