#include "agent/semantic/semantic_index.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/vector/vector_item.h"
#include "base/below.h"
#include "base/path.h"
#include "fs/encrypted.h"
#include "fs/list_dir.h"
#include "fs/path_ops.h"
#include "fs/walked_dirs.h"
#include "store/files/sqlite_fs.h"

namespace warren {
namespace {

constexpr std::uint64_t kItemBytes = std::uint64_t{16} << 20;
constexpr std::size_t kRowsStored = 10'000;  // in one transaction: others may write in between

bool is_item_name(std::string_view name) { return name.ends_with(".json"); }

// Changes whenever the content may have changed. Empty if that is not certain: a program that stores whole seconds can
// change a file again in the second in which it is read.
std::string stamp_of(const Attributes& node, std::int64_t now_seconds) {
  bool is_coarse = node.mtime.nanoseconds == 0 && node.ctime.nanoseconds == 0;
  if (is_coarse && now_seconds - std::max(node.mtime.seconds, node.ctime.seconds) < 2) return {};
  return fmt::format("{} {}.{} {}.{}", node.size, node.mtime.seconds, node.mtime.nanoseconds, node.ctime.seconds,
                     node.ctime.nanoseconds);
}

Result<std::string> read_node(FileSystem& fs, const Attributes& node) {
  std::string content(node.size, '\0');
  std::size_t count = WARREN_TRY(fs.read(node.inode, 0, as_mutable_bytes(content)));
  content.resize(count);
  return content;
}

constexpr std::size_t kResultBytes = std::size_t{64} << 20;  // texts and metadata of one query
constexpr std::size_t kFreshBytes = std::size_t{64} << 20;   // kept until they are stored

// An item whose text is all that its embedding needs.
std::optional<VectorItem> find_text_only(std::string_view content) {
  Result<Json> value = parse_json(content);
  if (!value.ok() || !value->is_object() || value->contains("embedding")) return std::nullopt;
  VectorItem item;
  if (!value->contains("text") || !(*value)["text"].is_string()) return std::nullopt;
  item.text = (*value)["text"].get<std::string>();
  if (value->contains("metadata")) item.metadata = Json((*value)["metadata"]);
  if (item.text.empty() || !item.metadata.is_object()) return std::nullopt;
  return item;
}

std::size_t bytes_of(const VectorRow& row) {
  return row.embedding.size() * sizeof(float) + row.text.size() + row.metadata.size();
}

}  // namespace

SemanticIndex::SemanticIndex(Store& store, FileSystem& tree)
    : store_(store), fs_(tree), rows_(store), journal_(store) {}

// Doors.

Result<std::vector<VectorMatch>> SemanticIndex::query(std::string_view path, const VectorQuery& query,
                                                      const MayRead& may_read, Dimension wanted) {
  std::vector<VectorMatch> found;
  {
    auto unit = WARREN_TRY(fs_.begin(UnitAccess::kRead));
    Result<std::vector<VectorMatch>> answer = query_now(path, query, may_read, wanted);
    // Somebody removed an embedding that cannot be read again from its file: look at it once more.
    if (!answer.ok() && answer.error().code() == Code::kCorrupt) answer = query_now(path, query, may_read, wanted);
    found = WARREN_TRY(std::move(answer));
  }
  store_fresh();
  return found;
}

Result<std::vector<VectorMatch>> SemanticIndex::query_now(std::string_view path, const VectorQuery& query,
                                                          const MayRead& may_read, Dimension wanted) {
  WARREN_TRY(refresh());
  std::size_t expected = wanted == Dimension::kOfMost ? dimension() : query.embedding.size();
  WARREN_TRY(check_query(query, expected));
  auto vectors = vectors_.find(expected);
  if (vectors == vectors_.end()) return std::vector<VectorMatch>();
  return search(vectors->second, path, query, may_read);
}

Result<std::vector<VectorMatch>> SemanticIndex::search(const FlatVectors& vectors, std::string_view path,
                                                       const VectorQuery& query, const MayRead& may_read) {
  VectorRow row;
  auto fetch = [&](std::uint64_t key) -> Result<std::span<const float>> {
    row = WARREN_TRY(row_of(*by_key_.at(key)));
    return std::span<const float>(row.embedding);
  };
  // Called after fetch of the same one, so `row` is its row.
  auto accept = [&](std::uint64_t key) -> Result<bool> {
    const std::string& at = by_key_.at(key)->path;
    if (!is_at_or_below(at, path)) return false;
    if (!query.filter.empty()) {
      Json metadata = WARREN_TRY(parse_json(row.metadata));
      if (!matches(query.filter, metadata)) return false;
    }
    // A file that has expired is gone before anything says so.
    Result<Attributes> node = lstat(fs_, at);
    if (!node.ok() || node->inode != by_key_.at(key)->inode) return false;
    return may_read(at, node->nlink > 1 ? OtherNames::kPossible : OtherNames::kNo);
  };
  std::vector<VectorMatch> found;
  std::size_t bytes = 0;
  for (const FlatMatch& match : WARREN_TRY(vectors.search(query.embedding, query.top_k, fetch, accept))) {
    const File& file = *by_key_.at(match.key);
    row = WARREN_TRY(row_of(file));
    bytes += bytes_of(row);
    if (bytes > kResultBytes) {
      return Error(Code::kTooLarge, fmt::format("the results have more than {} bytes", kResultBytes),
                   "ask for fewer of them");
    }
    Json metadata = WARREN_TRY(parse_json(row.metadata));
    found.push_back({.item = {.id = file.path, .embedding = {}, .text = row.text, .metadata = std::move(metadata)},
                     .score = match.score});
  }
  return found;
}

Result<SemanticCheck> SemanticIndex::check(std::string_view path, const MayRead& may_read) {
  SemanticCheck checked;
  {
    auto unit = WARREN_TRY(fs_.begin(UnitAccess::kRead));
    WARREN_TRY(refresh());
    checked.dimension = dimension();
    for (const auto& [at, file] : files_) {
      if (!is_at_or_below(at, path) || !WARREN_TRY(may_read(at, OtherNames::kPossible))) continue;
      if (file.dimension == 0) {
        checked.problems.push_back({.path = at, .message = file.problem});
      } else if (Status same = check_dimension(file.dimension, checked.dimension); !same.ok()) {
        checked.problems.push_back({.path = at, .message = same.error().message()});
      } else {
        ++checked.indexed;
      }
    }
  }
  store_fresh();
  return checked;
}

Status SemanticIndex::check_write(std::string_view path, std::string_view data) {
  if (!is_at_or_below(path, kSemanticMemory) || !is_item_name(path)) return Ok{};
  auto at_path = [&] { return fmt::format("write {}", quote(path)); };
  constexpr std::string_view kHint =
      "`--raw` (in the library: as_is) stores any content as a file that queries do not find";
  Result<VectorItem> item = parse_vector_item(data).within(at_path);
  if (!item.ok()) return std::move(item).take_error().with_hint(kHint);
  std::size_t given = item->embedding.size();
  {
    auto unit = WARREN_TRY(fs_.begin(UnitAccess::kRead));
    if (WARREN_TRY(rows_.find_dimension()) == given) return Ok{};
    WARREN_TRY(refresh());
    std::size_t expected = dimension();
    auto old = files_.find(std::string(path));
    bool is_alone = expected != 0 && vectors_.at(expected).size() == 1 && old != files_.end() &&
                    old->second.dimension == expected;  // replacing the only item
    if (expected != 0 && !is_alone) WARREN_TRY(check_dimension(given, expected).within(at_path));
  }
  store_fresh();
  return Ok{};
}

// The dimension of most files; of equally many, that of the oldest file.
std::size_t SemanticIndex::dimension() const {
  std::size_t most = 0;
  for (const auto& [dimension, vectors] : vectors_) most = std::max(most, vectors.size());
  if (most == 0) return 0;
  auto has_most = [&](std::size_t dimension) {
    auto found = vectors_.find(dimension);
    return found != vectors_.end() && found->second.size() == most;
  };
  std::size_t first = 0;
  std::size_t alternatives = 0;
  for (const auto& [dimension, vectors] : vectors_) {
    if (vectors.size() != most) continue;
    first = dimension;
    ++alternatives;
  }
  if (alternatives == 1) return first;
  const File* oldest = nullptr;
  for (const auto& [path, file] : files_) {
    if (has_most(file.dimension) && (oldest == nullptr || file.inode < oldest->inode)) oldest = &file;
  }
  return oldest->dimension;
}

// Keeping up with the files.

Status SemanticIndex::refresh() {
  auto changes = WARREN_TRY(journal_.read());
  Status done = Ok{};
  bool is_done = false;
  if (changes && root_) {
    Result<bool> looked = look_at(*changes);
    if (looked.ok()) is_done = *looked;
    else done = std::move(looked).take_error();
  }
  if (done.ok() && !is_done) done = look_at_everything();
  if (!done.ok()) journal_.start_over();
  return std::move(done).within([] { return fmt::format("index {}", kSemanticMemory); });
}

Status SemanticIndex::look_at_everything() {
  std::map<std::string, Attributes> found;
  dirs_.clear();
  root_.reset();
  Result<Attributes> root = lstat(fs_, kSemanticMemory);
  if (!root.ok() && root.error().code() != Code::kNotFound) return std::move(root).take_error();
  if (root.ok() && root->is_directory()) {
    root_ = root->inode;
    WARREN_TRY(look_at_dir(root->inode, std::string(kSemanticMemory), found));
  }
  std::vector<std::string> lost;
  for (const auto& [path, file] : files_) {
    if (!found.contains(path)) lost.push_back(path);
  }
  for (const std::string& path : lost) drop(path);
  for (const auto& [path, node] : found) WARREN_TRY(take(path, node));
  for (Inode stored : WARREN_TRY(rows_.list())) {
    if (!by_inode_.contains(stored.value)) gone_.push_back(stored);
  }
  return Ok{};
}

// Directories are listed whole, without recursion: a tree can be deep.
Status SemanticIndex::look_at_dir(Inode dir, const std::string& path, std::map<std::string, Attributes>& found) {
  WalkedDirs walked(fs_);
  std::vector<std::pair<Inode, std::string>> left{{dir, path}};
  while (!left.empty()) {
    auto [inode, at] = std::move(left.back());
    left.pop_back();
    WARREN_TRY(walked.enter(inode, at));
    for (DirEntry& entry : WARREN_TRY(list_dir(fs_, inode, DirDetail::kAttributes))) {
      if (!entry.attributes) continue;
      std::string below = join_path(at, entry.name);
      if (entry.attributes->is_directory()) left.emplace_back(entry.inode, std::move(below));
      else if (entry.attributes->is_file() && is_item_name(entry.name))
        found.emplace(std::move(below), *entry.attributes);
    }
    dirs_.emplace(inode.value, std::move(at));
  }
  return Ok{};
}

Result<bool> SemanticIndex::look_at(const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    if (change.kind == ChangeKind::kEntry) {
      auto dir = dirs_.find(change.id);
      if (dir == dirs_.end()) {
        // The way to /mem/semantic, or a directory that was moved here with its content.
        if (change.name == "mem" || change.name == "semantic") return false;
        continue;
      }
      std::string path = join_path(dir->second, change.name);
      Result<Attributes> node = fs_.lookup(Inode{change.id}, change.name);
      if (!node.ok() && node.error().code() != Code::kNotFound && node.error().code() != Code::kStale) {
        return std::move(node).take_error();
      }
      bool was_dir = std::any_of(dirs_.begin(), dirs_.end(), [&](const auto& one) { return one.second == path; });
      if (was_dir) return false;
      if (node.ok() && node->is_directory()) {
        std::map<std::string, Attributes> found;
        WARREN_TRY(look_at_dir(node->inode, path, found));
        for (const auto& [below, attributes] : found) WARREN_TRY(take(below, attributes));
        drop(path);
      } else if (node.ok() && node->is_file() && is_item_name(path)) WARREN_TRY(take(path, *node));
      else drop(path);
    } else if (change.kind == ChangeKind::kData || change.kind == ChangeKind::kAttributes) {
      std::vector<std::string> paths;
      auto [first, last] = by_inode_.equal_range(change.id);
      for (; first != last; ++first) paths.push_back(first->second);
      if (paths.empty()) continue;
      Result<Attributes> node = fs_.get_attributes(Inode{change.id});
      if (!node.ok()) continue;  // gone since: an entry says so
      Trust trust = change.kind == ChangeKind::kData ? Trust::kNothing : Trust::kStamp;
      for (const std::string& path : paths) WARREN_TRY(take(path, *node, trust));
    }
  }
  return true;
}

// A file as it is now.
Status SemanticIndex::take(const std::string& path, const Attributes& node, Trust trust) {
  std::string stamp = stamp_of(node, store_.clock().now().seconds);
  auto known = files_.find(path);
  bool is_same = trust == Trust::kStamp && known != files_.end() && known->second.inode == node.inode &&
                 !stamp.empty() && known->second.stamp == stamp;
  if (is_same) return Ok{};
  drop(path);
  VectorRow row = WARREN_TRY(read_row(path, node, trust));
  row.stamp = stamp;
  put_row(path, node.inode, row);
  return Ok{};
}

void SemanticIndex::put_row(const std::string& path, Inode inode, const VectorRow& row) {
  File& file = files_[path];
  file = {.path = path,
          .inode = inode,
          .stamp = row.stamp,
          .key = ++last_key_,
          .dimension = row.embedding.size(),
          .problem = row.problem,
          .has_text_only = row.embedding.empty() && !row.text.empty()};
  by_inode_.emplace(inode.value, path);
  by_key_.emplace(file.key, &file);
  if (file.dimension == 0) return;
  vectors_.try_emplace(file.dimension, file.dimension).first->second.put(file.key, row.embedding);
}

void SemanticIndex::drop(const std::string& path) {
  auto found = files_.find(path);
  if (found == files_.end()) return;
  const File& file = found->second;
  if (auto vectors = vectors_.find(file.dimension); vectors != vectors_.end()) {
    vectors->second.remove(file.key);
    if (vectors->second.size() == 0) vectors_.erase(vectors);
  }
  by_key_.erase(file.key);
  auto [first, last] = by_inode_.equal_range(file.inode.value);
  by_inode_.erase(std::find_if(first, last, [&](const auto& one) { return one.second == path; }));
  if (!by_inode_.contains(file.inode.value)) {
    erase_fresh(file.inode.value);
    gone_.push_back(file.inode);
  }
  files_.erase(found);
}

// From the stored rows if the file is unchanged, otherwise from the file. A row is input like any other.
Result<VectorRow> SemanticIndex::read_row(const std::string& path, const Attributes& node, Trust trust) {
  std::string stamp = stamp_of(node, store_.clock().now().seconds);
  bool is_trusted = trust == Trust::kStamp && !stamp.empty();
  auto fresh = fresh_.find(node.inode.value);
  if (is_trusted && fresh != fresh_.end() && fresh->second.stamp == stamp) return fresh->second;
  std::optional<VectorRow> stored;
  if (is_trusted) stored = WARREN_TRY(rows_.find(node.inode));
  bool is_usable = stored && stored->stamp == stamp &&
                   (stored->embedding.empty() ? !stored->problem.empty()
                                              : check_embedding(stored->embedding).ok() && is_json(stored->metadata));
  if (is_usable) return std::move(*stored);
  VectorRow row;
  row.stamp = stamp;
  // Its text would be in the clear beside it, unless the whole agent is encrypted.
  bool is_hidden = !store_.database().key() && WARREN_TRY(is_encrypted(fs_, node.inode));
  if (is_hidden) {
    row.problem = "the file is encrypted, and the index is not";
  } else if (node.size > kItemBytes) {
    row.problem = fmt::format("the file has {} bytes; an item has at most {}", node.size, kItemBytes);
  } else {
    std::string content = WARREN_TRY(read_node(fs_, node).within([&] { return "read " + quote(path); }));
    Result<VectorItem> item = parse_vector_item(content);
    std::optional<VectorItem> text_only;
    if (!item.ok()) text_only = find_text_only(content);
    if (!item.ok()) row.problem = item.error().message();
    if (item.ok()) row.embedding = std::move(item->embedding);
    if (item.ok() || text_only) {
      VectorItem& known = item.ok() ? *item : *text_only;
      row.text = std::move(known.text);
      row.metadata = dump_json(known.metadata);
    }
  }
  keep_fresh(node.inode, row);
  return row;
}

void SemanticIndex::keep_fresh(Inode inode, const VectorRow& row, Room room) {
  erase_fresh(inode.value);
  if (fresh_bytes_ >= kFreshBytes && room == Room::kIfThereIs) return;  // it is read again when it is found
  fresh_bytes_ += bytes_of(row);
  fresh_.emplace(inode.value, row);
}

void SemanticIndex::erase_fresh(std::uint64_t inode) {
  auto found = fresh_.find(inode);
  if (found == fresh_.end()) return;
  fresh_bytes_ -= bytes_of(found->second);
  fresh_.erase(found);
}

Result<VectorRow> SemanticIndex::row_of(const File& file) {
  if (auto fresh = fresh_.find(file.inode.value); fresh != fresh_.end()) return fresh->second;
  std::optional<VectorRow> stored = WARREN_TRY(rows_.find(file.inode));
  if (stored && stored->stamp == file.stamp && stored->embedding.size() == file.dimension) return std::move(*stored);
  // Somebody removed the row, or changed it.
  Attributes node = WARREN_TRY(fs_.get_attributes(file.inode));
  VectorRow row = WARREN_TRY(read_row(file.path, node));
  if (row.embedding.size() == file.dimension) return row;
  // The next look reads it again: it may have lost an embedding that was made here.
  files_.at(file.path).stamp.clear();
  journal_.start_over();
  return Error(Code::kCorrupt, fmt::format("{} changed while it was read", quote(file.path)));
}

// What cannot be stored now stays in memory and costs the next process some time.
void SemanticIndex::store_fresh() {
  if (store_.is_read_only()) return;
  for (;;) {
    Result<bool> has_more = store_some();
    if (!has_more.ok() || !*has_more) return;
  }
}

Result<bool> SemanticIndex::store_some() {
  {
    auto lock = store_.database().lock();
    if (fresh_.empty() && gone_.empty()) return false;
  }
  auto change = WARREN_TRY(store_.begin_write());
  for (Inode node : gone_) {
    if (!by_inode_.contains(node.value)) WARREN_TRY(rows_.remove(node));
  }
  std::vector<std::uint64_t> stored;
  for (const auto& [inode, row] : fresh_) {
    if (stored.size() == kRowsStored) break;
    WARREN_TRY(rows_.put(Inode{inode}, row));
    stored.push_back(inode);
  }
  // Otherwise other processes would take this for the change of an unknown program and drop their caches.
  if (root_ && store_.journal() != nullptr) store_.journal()->note_attributes(*root_);
  WARREN_TRY(change.commit());
  gone_.clear();
  for (std::uint64_t inode : stored) erase_fresh(inode);
  return !fresh_.empty();
}

}  // namespace warren
