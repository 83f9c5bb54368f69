// One search in an index that is up to date.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "context/catch_up.h"
#include "context/fusion.h"
#include "context/index_rows.h"
#include "context/index_vectors.h"
#include "context/pattern.h"
#include "context/search.h"
#include "context/words.h"
#include "text/glob.h"

namespace warren {

// The question as a model understands it.
struct QueryVector {
  std::string model;
  std::vector<float> numbers;
};

// For one run, in a transaction of the index that reads. Everything outlives it.
class SearchRun {
 public:
  SearchRun(const SearchQuery& query, const Pattern* pattern, const std::vector<QueryVector>& vectors,
            const std::vector<IndexedTree>& trees, IndexRows& rows, IndexVectors& index, Clock& clock);

  Result<std::vector<SearchHit>> run();
  // Whether the error came from SearchQuery::may_read, and not from the index.
  bool is_callers_fault() const { return is_callers_fault_; }
  bool was_cut_short() const { return was_cut_short_; }  // there was no time to try the pattern on everything
  bool has_more() const { return has_more_; }            // hits after those of run()

 private:
  Result<const IndexedFile*> find_accepted(std::int64_t file);
  Result<bool> accepts(const IndexedFile& file);
  std::optional<std::string> shown_path(const IndexedFile& file) const;
  Result<bool> accepts_chunk(std::int64_t chunk);
  Result<bool> is_there(std::int64_t file);
  Result<RankedList> find_by_text();
  struct ScoredChunk {
    std::int64_t chunk = 0;
    double score = 0;
  };
  std::size_t list_chunks() const;  // how long each list is
  Result<std::vector<ScoredChunk>> match(const std::string& expression);
  Status choose_words(std::vector<SearchWord>& rare, std::vector<SearchWord>& frequent);
  Status add_frequent_words(std::vector<ScoredChunk>& found, const std::vector<SearchWord>& frequent);
  Result<RankedList> find_by_meaning(const QueryVector& vector);
  Result<RankedList> find_by_pattern();
  Result<std::vector<FoundPlace>> find_places(std::vector<FusedChunk> fused);
  Result<SearchHit> hit_of(const FoundPlace& place);

  const SearchQuery& query_;
  const Pattern* pattern_;
  const std::vector<QueryVector>& query_vectors_;
  const std::vector<IndexedTree>& trees_;
  IndexRows& rows_;
  IndexVectors& vectors_;
  Clock& clock_;
  std::vector<Glob> globs_;
  std::vector<SearchWord> words_;
  std::unordered_map<std::int64_t, std::optional<IndexedFile>> files_;  // looked at so far; nullopt: not accepted
  bool was_cut_short_ = false;
  bool has_more_ = false;
  bool is_callers_fault_ = false;
};

}  // namespace warren
