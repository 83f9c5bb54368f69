#include "context/search_run.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/below.h"
#include "context/snippet.h"
#include "fs/path_ops.h"

namespace warren {
namespace {

constexpr std::size_t kListChunks = 200;          // of each list; more for later pages
constexpr std::size_t kFrequentChunks = 5'000;    // a word in so many chunks is frequent
constexpr std::size_t kMatchedChunks = 15'000;    // that are ranked for the other words
constexpr std::size_t kFewChunks = 3;             // fewer than these are not an answer
constexpr std::size_t kPatternListChunks = 2000;  // they are not ordered by how good they are
constexpr std::size_t kCopiesOfText = 16;         // places that have the same text
constexpr std::int64_t kPatternNs = std::int64_t{5} * 1'000'000'000;

bool is_mime(std::string_view type, std::string_view wanted) {
  if (wanted.empty() || wanted == "*/*") return true;
  if (wanted.ends_with("/*")) return type.starts_with(wanted.substr(0, wanted.size() - 1));
  return type == wanted;
}

// A list has only so many chunks of one file as can be shown, so that a long file leaves room for others.
class FileShares {
 public:
  explicit FileShares(std::size_t per_file_max) : max_(per_file_max * static_cast<std::size_t>(kPlaceChunks)) {}
  bool take(std::int64_t chunk) { return ++taken_[file_of_chunk(chunk)] <= max_; }

 private:
  std::size_t max_;
  std::unordered_map<std::int64_t, std::size_t> taken_;
};

}  // namespace

SearchRun::SearchRun(const SearchQuery& query, const Pattern* pattern, const std::vector<QueryVector>& vectors,
                     const std::vector<IndexedTree>& trees, IndexRows& rows, IndexVectors& index, Clock& clock)
    : query_(query),
      pattern_(pattern),
      query_vectors_(vectors),
      trees_(trees),
      rows_(rows),
      vectors_(index),
      clock_(clock),
      words_(parse_search_words(query.text)) {
  for (const std::string& glob : query.globs) globs_.emplace_back(glob);
}

Result<std::vector<SearchHit>> SearchRun::run() {
  std::vector<RankedList> lists;
  if (!words_.empty()) lists.push_back(WARREN_TRY(find_by_text()));
  for (const QueryVector& vector : query_vectors_) lists.push_back(WARREN_TRY(find_by_meaning(vector)));
  if (pattern_ != nullptr) lists.push_back(WARREN_TRY(find_by_pattern()));
  std::vector<FoundPlace> places = WARREN_TRY(find_places(fuse(lists)));
  std::size_t end = std::min(query_.offset + query_.limit, places.size());
  has_more_ = end < places.size();
  std::vector<SearchHit> hits;
  for (std::size_t i = query_.offset; i < end; ++i) {
    hits.push_back(WARREN_TRY(hit_of(places[i])));
  }
  return hits;
}

// Only files that would be shown are looked up.
Result<std::vector<FoundPlace>> SearchRun::find_places(std::vector<FusedChunk> fused) {
  std::map<std::int64_t, bool> known;
  for (;;) {
    std::vector<FoundPlace> places = places_of(fused, query_.offset + query_.limit + 1, query_.per_file_max);
    bool is_complete = true;
    for (const FoundPlace& place : places) {
      std::int64_t file = file_of_chunk(place.best);
      auto [there, is_new] = known.try_emplace(file, true);
      if (is_new) there->second = WARREN_TRY(is_there(file));
      is_complete = is_complete && there->second;
    }
    if (is_complete) return places;
    std::erase_if(fused, [&](const FusedChunk& one) {
      auto there = known.find(file_of_chunk(one.chunk));
      return there != known.end() && !there->second;
    });
  }
}

std::size_t SearchRun::list_chunks() const { return std::max(kListChunks, 2 * (query_.offset + query_.limit)); }

// Which files count.

Result<const IndexedFile*> SearchRun::find_accepted(std::int64_t id) {
  auto [known, is_new] = files_.try_emplace(id);
  if (is_new) {
    std::optional<IndexedFile> file = WARREN_TRY(rows_.find_file(id));
    if (file && WARREN_TRY(accepts(*file))) known->second = std::move(file);
  }
  return known->second ? &*known->second : nullptr;
}

std::optional<std::string> SearchRun::shown_path(const IndexedFile& file) const {
  if (query_.path_for_caller) return query_.path_for_caller(file.tree, file.path);
  bool is_shown = file.tree == kFilesTree || is_at_or_below(file.path, kDrivesDir);
  return is_shown ? std::optional(file.path) : std::nullopt;
}

Result<bool> SearchRun::accepts(const IndexedFile& file) {
  std::optional<std::string> path = shown_path(file);
  if (!path || !is_at_or_below(*path, query_.below) || !is_mime(file.mime, query_.mime)) return false;
  if (query_.since && file.changed_at < *query_.since) return false;
  if (query_.until && file.changed_at > *query_.until) return false;
  auto matches_path = [&](const Glob& glob) { return glob.matches(*path); };
  if (!globs_.empty() && std::ranges::none_of(globs_, matches_path)) return false;
  if (query_.may_read) {
    Result<bool> may_read = query_.may_read(*path);
    is_callers_fault_ = !may_read.ok();
    if (!WARREN_TRY(std::move(may_read))) return false;
  }
  return true;
}

// A file that has expired is gone before anything says so.
Result<bool> SearchRun::is_there(std::int64_t id) {
  const IndexedFile* file = WARREN_TRY(find_accepted(id));
  if (file == nullptr) return false;
  auto tree = std::ranges::find(trees_, file->tree, &IndexedTree::number);
  if (tree == trees_.end()) return false;
  Result<Attributes> node = lstat(*tree->fs, file->path);
  return node.ok() && node->inode == file->inode;
}

Result<bool> SearchRun::accepts_chunk(std::int64_t chunk) {
  const IndexedFile* file = WARREN_TRY(find_accepted(file_of_chunk(chunk)));
  return file != nullptr;
}

// The lists.

// BM25 costs time for every chunk that has any of the words. So words that very many chunks have do not decide which
// chunks are looked at, if there are others that find something; they only change the order of what the others found.
Result<RankedList> SearchRun::find_by_text() {
  std::vector<SearchWord> rare;
  std::vector<SearchWord> frequent;
  WARREN_TRY(choose_words(rare, frequent));
  std::vector<ScoredChunk> found;
  if (rare.empty()) found = WARREN_TRY(match(match_all_expression(frequent)));
  if (found.empty()) found = WARREN_TRY(match(match_expression(rare.empty() ? frequent : rare)));
  bool has_filter =
      query_.below != "/" || !globs_.empty() || !query_.mime.empty() || query_.since || query_.until || query_.may_read;
  std::size_t wanted = query_.offset + query_.limit;
  std::size_t enough = has_filter ? wanted : std::min(wanted, kFewChunks);
  bool needs_frequent = found.size() < enough && !rare.empty() && !frequent.empty();
  if (needs_frequent) found = WARREN_TRY(match(match_expression(words_)));
  else if (!rare.empty() && !frequent.empty()) WARREN_TRY(add_frequent_words(found, frequent));
  RankedList list{.by = FoundBy::kText, .chunks = {}};
  for (const ScoredChunk& one : found) {
    if (list.chunks.size() < list_chunks()) list.chunks.push_back(one.chunk);
  }
  return list;
}

Status SearchRun::choose_words(std::vector<SearchWord>& rare, std::vector<SearchWord>& frequent) {
  std::vector<std::pair<std::size_t, const SearchWord*>> counted;
  for (const SearchWord& word : words_) {
    std::size_t count = WARREN_TRY(rows_.count_matches(match_expression({word}), kFrequentChunks));
    counted.emplace_back(count, &word);
  }
  std::ranges::stable_sort(counted, {}, &std::pair<std::size_t, const SearchWord*>::first);
  std::size_t sum = 0;
  for (const auto& [count, word] : counted) {
    sum += count;
    bool is_rare = count < kFrequentChunks && sum <= kMatchedChunks;
    (is_rare ? rare : frequent).push_back(*word);
  }
  return Ok{};
}

Result<std::vector<SearchRun::ScoredChunk>> SearchRun::match(const std::string& expression) {
  std::vector<ScoredChunk> found;
  FileShares shares(query_.per_file_max);
  auto visit = [&](std::int64_t chunk, double score) -> Result<bool> {
    if (WARREN_TRY(accepts_chunk(chunk)) && shares.take(chunk)) found.push_back({.chunk = chunk, .score = score});
    return found.size() < list_chunks() * 2;
  };
  WARREN_TRY(rows_.match(expression, visit));
  return found;
}

// As BM25 would count a word that one chunk of ten has.
Status SearchRun::add_frequent_words(std::vector<ScoredChunk>& found, const std::vector<SearchWord>& frequent) {
  constexpr double kWeight = 2.2;
  constexpr double kSaturation = 1.2;
  for (ScoredChunk& one : found) {
    std::optional<IndexedChunk> chunk = WARREN_TRY(rows_.find_chunk(one.chunk));
    if (!chunk) continue;
    std::string text = to_lower(chunk->body);
    for (const SearchWord& word : frequent) {
      auto count = static_cast<double>(count_word(text, word));
      one.score += kWeight * count * (kSaturation + 1) / (count + kSaturation);
    }
  }
  std::ranges::stable_sort(found, std::greater<>(), &ScoredChunk::score);
  return Ok{};
}

Result<RankedList> SearchRun::find_by_meaning(const QueryVector& vector) {
  RankedList list{.by = FoundBy::kMeaning, .chunks = {}};
  std::map<std::string, std::vector<std::int64_t>> places;  // of the texts that were accepted
  FileShares shares(query_.per_file_max);
  auto accept = [&](const std::string& hash) -> Result<bool> {
    for (std::int64_t chunk : WARREN_TRY(rows_.list_chunks_of(hash, kCopiesOfText))) {
      if (WARREN_TRY(accepts_chunk(chunk)) && shares.take(chunk)) places[hash].push_back(chunk);
    }
    return places.contains(hash);
  };
  for (const MeaningMatch& match : WARREN_TRY(vectors_.search(vector.model, vector.numbers, list_chunks(), accept))) {
    for (std::int64_t chunk : places[match.hash]) list.chunks.push_back(chunk);
  }
  return list;
}

// In the order of the paths.
Result<RankedList> SearchRun::find_by_pattern() {
  RankedList list{.by = FoundBy::kPattern, .chunks = {}};
  std::int64_t end = clock_.monotonic_ns() + kPatternNs;
  auto visit = [&](std::int64_t chunk, std::string_view body) -> Result<bool> {
    if (pattern_->find(body)) list.chunks.push_back(chunk);
    was_cut_short_ = clock_.monotonic_ns() > end || list.chunks.size() >= kPatternListChunks;
    return !was_cut_short_;
  };
  for (const IndexedTree& tree : trees_) {
    for (const IndexedFile& file : WARREN_TRY(rows_.list_files(tree.number))) {
      if (was_cut_short_) return list;
      if (file.state != FileState::kText || WARREN_TRY(find_accepted(file.id)) == nullptr) continue;
      WARREN_TRY(rows_.visit_chunks_of(file.id, visit));
    }
  }
  return list;
}

// What is shown.

Result<SearchHit> SearchRun::hit_of(const FoundPlace& place) {
  const IndexedFile* file = WARREN_TRY(find_accepted(file_of_chunk(place.best)));
  if (file == nullptr) return Error(Code::kCorrupt, "the search index changed while it was read");
  SearchHit hit{.path = shown_path(*file).value_or(file->path),
                .tree = file->tree,
                .path_in_tree = file->path,
                .heading = {},
                .snippet = {},
                .score = place.score,
                .by_text = (place.by & static_cast<unsigned>(FoundBy::kText)) != 0,
                .by_meaning = (place.by & static_cast<unsigned>(FoundBy::kMeaning)) != 0,
                .by_pattern = (place.by & static_cast<unsigned>(FoundBy::kPattern)) != 0};
  std::optional<IndexedChunk> chunk = WARREN_TRY(rows_.find_chunk(place.best));
  if (!chunk) return hit;  // only the name of the file has words
  std::optional<IndexedChunk> first = WARREN_TRY(rows_.find_chunk(place.first));
  std::optional<IndexedChunk> last = WARREN_TRY(rows_.find_chunk(place.last));
  hit.first_line = first ? first->first_line : chunk->first_line;
  hit.last_line = last ? last->last_line : chunk->last_line;
  hit.heading = chunk->heading;
  std::size_t line = 0;
  std::size_t at = 0;
  std::optional<PatternMatch> match = pattern_ != nullptr ? pattern_->find(chunk->body) : std::nullopt;
  if (match) {
    at = match->begin;
    line = static_cast<std::size_t>(std::count(chunk->body.begin(), chunk->body.begin() + static_cast<long>(at), '\n'));
  } else {
    line = best_line(chunk->body, words_);
  }
  Snippet snippet = snippet_of(chunk->body, line, at);
  hit.snippet = std::move(snippet.text);
  hit.snippet_line = chunk->first_line + snippet.line;
  return hit;
}

}  // namespace warren
