#include <algorithm>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "agent/locate.h"
#include "base/ascii.h"
#include "base/below.h"
#include "base/path.h"
#include "context/catch_up.h"
#include "context/index_file.h"
#include "context/index_rows.h"
#include "context/index_vectors.h"
#include "context/pattern.h"
#include "context/search.h"
#include "context/search_run.h"
#include "db/transaction.h"
#include "fs/file.h"
#include "fs/path_ops.h"
#include "os/files/host_files.h"

namespace warren {
namespace {

// What an embedder gets in one call: few while somebody waits for a search.
constexpr std::size_t kTextsInSearch = 4;
constexpr std::size_t kTextsAtOnce = 32;
constexpr std::chrono::milliseconds kShortTime{1000};
constexpr std::size_t kQueryTextBytes = 8192;
constexpr std::size_t kSearchLimitMax = 1000;

Status check_query(const SearchQuery& query) {
  if (query.text.size() > kQueryTextBytes) {
    return Error(Code::kInvalid, fmt::format("the search text has more than {} bytes", kQueryTextBytes));
  }
  if (query.limit == 0 || query.limit > kSearchLimitMax) {
    return Error(Code::kInvalid, fmt::format("a search has 1 to {} results, not {}", kSearchLimitMax, query.limit));
  }
  if (query.offset > kSearchLimitMax) {
    return Error(Code::kInvalid,
                 fmt::format("a search can leave out up to {} results, not {}", kSearchLimitMax, query.offset));
  }
  if (query.per_file_max == 0) return Error(Code::kInvalid, "a file must be allowed at least one result");
  if (query.pattern.empty() && trimmed(query.text, kWhitespace).empty()) {
    return Error(Code::kInvalid, "there is nothing to search for", "give some words, or a pattern");
  }
  return Ok{};
}

Error no_embedder(const ContextOptions& options) {
  return Error(Code::kNotFound, options.no_embedder.empty() ? "there is no embedder" : options.no_embedder);
}

// In real time, from its making on.
class Deadline {
 public:
  Deadline(Clock& clock, std::chrono::milliseconds time)
      : clock_(clock), start_ns_(clock.monotonic_ns()), time_(time) {}
  bool is_over() const { return (clock_.monotonic_ns() - start_ns_) / kNsPerMs >= time_.count(); }

 private:
  static constexpr std::int64_t kNsPerMs = 1'000'000;
  Clock& clock_;
  std::int64_t start_ns_;
  std::chrono::milliseconds time_;
};

void add_sentence(std::string& hint, std::string_view sentence) {
  if (sentence.empty()) return;
  if (!hint.empty()) hint += "; ";
  hint += sentence;
}

}  // namespace

using Vectors = std::vector<std::vector<float>>;

struct ContextIndex::Parts {
  Parts(Agent& opened, ContextOptions given, Clock& time) : agent(opened), options(std::move(given)), clock(time) {}

  Status assemble(Result<std::unique_ptr<Database>> opened);
  bool is_replaced() const { return database->path() != kMemoryAgent && !database->check_name().ok(); }
  Status reopen_if_replaced();
  Status replace();
  Status catch_up(const Progress& progress, const Cancelled& cancelled);
  template <class T>
  Result<T> repaired(const std::function<Result<T>()>& call);
  Status use_model();
  Result<std::vector<WaitingText>> list_waiting(std::size_t max);
  Result<Vectors> embed_texts(const std::vector<WaitingText>& texts);  // without the mutex
  Status store(const std::vector<WaitingText>& texts, const Vectors& made);
  Result<std::size_t> count_waiting();
  Status embed_during_search();
  Result<std::vector<QueryVector>> embed_query(const std::string& text, std::string& hint);
  Result<SearchAnswer> search(const SearchQuery& query, const Pattern* pattern, const Progress& progress);
  Status record(const std::vector<SearchHit>& hits);
  Result<IndexStatus> describe();

  Agent& agent;
  ContextOptions options;
  Clock& clock;
  IndexPlace place;
  std::vector<IndexedTree> trees;
  std::mutex mutex;  // held for the length of a call, except where the embedder works for embed_some
  std::unique_ptr<Database> database;
  std::unique_ptr<IndexRows> rows;
  std::unique_ptr<IndexVectors> vectors;
  bool is_others_fault = false;  // the last error is no reason to make the index again
  std::size_t replacements = 0;  // how often this process has made it again
};

// The file.

Status ContextIndex::Parts::assemble(Result<std::unique_ptr<Database>> opened) {
  vectors.reset();
  rows.reset();
  database = WARREN_TRY(std::move(opened));
  rows = WARREN_TRY(IndexRows::open(*database));
  vectors = WARREN_TRY(IndexVectors::open(*database));
  return use_model();
}

Status ContextIndex::Parts::replace() {
  vectors.reset();
  rows.reset();
  database.reset();
  ++replacements;
  return assemble(replace_index_file(place));
}

Status ContextIndex::Parts::reopen_if_replaced() {
  if (!is_replaced()) return Ok{};
  vectors.reset();
  rows.reset();
  database.reset();
  return assemble(open_index_file(place));
}

// A damaged index is made again, and one that was deleted or replaced meanwhile is opened again; everything in it is
// derived.
template <class T>
Result<T> ContextIndex::Parts::repaired(const std::function<Result<T>()>& call) {
  constexpr int kAttempts = 3;
  for (int attempt = 1;; ++attempt) {
    WARREN_TRY(reopen_if_replaced());
    is_others_fault = false;
    Result<T> result = call();
    if (result.ok() || is_others_fault || attempt == kAttempts) return result;
    if (is_replaced()) continue;
    if (!is_index_damage(result.error())) return result;
    WARREN_TRY(replace());
  }
}

Result<std::unique_ptr<ContextIndex>> ContextIndex::open(Agent& agent, ContextOptions options, Clock& clock) {
  auto parts = std::make_unique<Parts>(agent, std::move(options), clock);
  parts->place = WARREN_TRY(index_place_of(agent));
  parts->trees = WARREN_TRY(indexed_trees(agent));
  Status opened = parts->assemble(open_index_file(parts->place));
  if (!opened.ok() && is_index_damage(opened.error())) opened = parts->replace();
  WARREN_TRY(std::move(opened));
  return std::unique_ptr<ContextIndex>(new ContextIndex(std::move(parts)));
}

ContextIndex::ContextIndex(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
ContextIndex::~ContextIndex() = default;

// Text.

Status ContextIndex::Parts::catch_up(const Progress& progress, const Cancelled& cancelled) {
  CatchUp run(agent, trees, *database, *rows, *vectors, clock);
  Status done = run.run(progress, cancelled);
  is_others_fault = run.is_agents_fault();
  return done;
}

Status ContextIndex::catch_up(const Progress& progress, const Cancelled& cancelled) {
  std::lock_guard guard(parts_->mutex);
  return parts_->repaired<void>([&] { return parts_->catch_up(progress, cancelled); }).within("index the files");
}

Status ContextIndex::rebuild(const Progress& progress, const Cancelled& cancelled) {
  std::lock_guard guard(parts_->mutex);
  WARREN_TRY(parts_->replace());
  return parts_->catch_up(progress, cancelled).within("index the files");
}

// Embeddings.

Status ContextIndex::Parts::use_model() {
  if (options.embedder == nullptr) return Ok{};
  {
    Transaction view = WARREN_TRY(Transaction::begin(*database, Access::kRead));
    if (WARREN_TRY(vectors->is_model_in_use(options.embedder->model(), options.embedder->dimensions()))) return Ok{};
  }
  Transaction scope = WARREN_TRY(Transaction::begin(*database, Access::kWrite));
  WARREN_TRY(vectors->use_model(options.embedder->model(), options.embedder->dimensions()));
  return scope.commit();
}

Result<std::vector<WaitingText>> ContextIndex::Parts::list_waiting(std::size_t max) {
  Transaction view = WARREN_TRY(Transaction::begin(*database, Access::kRead));
  return vectors->list_waiting(max);
}

Result<Vectors> ContextIndex::Parts::embed_texts(const std::vector<WaitingText>& texts) {
  std::vector<std::string_view> views;
  for (const WaitingText& one : texts) views.emplace_back(one.text);
  Vectors made = WARREN_TRY(options.embedder->embed(views, TextRole::kPassage));
  if (made.size() == texts.size()) return made;
  return Error(Code::kInvalid, fmt::format("the embedder returned {} vectors for {} texts", made.size(), texts.size()));
}

Status ContextIndex::Parts::store(const std::vector<WaitingText>& texts, const Vectors& made) {
  Transaction scope = WARREN_TRY(Transaction::begin(*database, Access::kWrite));
  for (std::size_t i = 0; i < texts.size(); ++i) WARREN_TRY(vectors->put(texts[i].hash, made[i]));
  if (!WARREN_TRY(vectors->has_waiting())) WARREN_TRY(vectors->remove_unused());
  return scope.commit();
}

Result<std::size_t> ContextIndex::Parts::count_waiting() {
  Transaction view = WARREN_TRY(Transaction::begin(*database, Access::kRead));
  return vectors->count_waiting();
}

// Somebody waits for the search.
Status ContextIndex::Parts::embed_during_search() {
  Deadline deadline(clock, options.embed_time);
  while (!deadline.is_over()) {
    std::vector<WaitingText> texts = WARREN_TRY(list_waiting(kTextsInSearch));
    if (texts.empty()) break;
    Vectors made = WARREN_TRY(embed_texts(texts));
    WARREN_TRY(store(texts, made));
  }
  return Ok{};
}

// Other calls are let in while the embedder works.
Result<std::size_t> ContextIndex::embed_some(std::chrono::milliseconds time, const Progress& progress,
                                             const Cancelled& cancelled) {
  Parts& parts = *parts_;
  if (parts.options.embedder == nullptr) return no_embedder(parts.options);
  Deadline deadline(parts.clock, time);
  IndexProgress state;
  std::optional<std::size_t> caught_up;  // which replacement of the index
  while (!caught_up || (!deadline.is_over() && !(cancelled && cancelled()))) {
    std::vector<WaitingText> texts;
    {
      std::lock_guard guard(parts.mutex);
      texts = WARREN_TRY(parts.repaired<std::vector<WaitingText>>([&]() -> Result<std::vector<WaitingText>> {
        if (caught_up != parts.replacements) WARREN_TRY(parts.catch_up({}, cancelled));
        caught_up = parts.replacements;
        state.total = state.done + WARREN_TRY(parts.count_waiting());
        return parts.list_waiting(time < kShortTime ? kTextsInSearch : kTextsAtOnce);
      }));
    }
    if (texts.empty()) break;
    Vectors made = WARREN_TRY(parts.embed_texts(texts));
    {
      std::lock_guard guard(parts.mutex);
      WARREN_TRY(parts.repaired<void>([&] { return parts.store(texts, made); }));
    }
    state.done += texts.size();
    if (progress) progress(state);
  }
  return state.done;
}

Status ContextIndex::start_embedding_again() {
  std::lock_guard guard(parts_->mutex);
  if (parts_->options.embedder == nullptr) return no_embedder(parts_->options);
  return parts_->repaired<void>([&]() -> Status {
    WARREN_TRY(parts_->catch_up({}, {}));
    Transaction scope = WARREN_TRY(Transaction::begin(*parts_->database, Access::kWrite));
    WARREN_TRY(parts_->vectors->start_again());
    return scope.commit();
  });
}

// By the model in use and, while texts wait for it, by older ones that are still available.
Result<std::vector<QueryVector>> ContextIndex::Parts::embed_query(const std::string& text, std::string& hint) {
  std::vector<QueryVector> asked;
  if (trimmed(text, kWhitespace).empty()) return asked;
  if (options.embedder == nullptr) {
    add_sentence(hint,
                 fmt::format("found by words alone{}{}", options.no_embedder.empty() ? "" : ": ", options.no_embedder));
    return asked;
  }
  struct Asked {
    std::string model;
    Embedder* embedder;
  };
  const std::string& current = options.embedder->model();
  std::vector<Asked> all{{current, options.embedder}};
  std::vector<std::string> models;
  {
    Transaction view = WARREN_TRY(Transaction::begin(*database, Access::kRead));
    if (WARREN_TRY(vectors->has_waiting())) models = WARREN_TRY(vectors->list_models());
  }
  for (const std::string& model : models) {  // after the transaction: opening an embedder may ask a service
    if (model == current) continue;
    Embedder* other = model == former_name_of(current) ? options.embedder
                      : options.other_embedder         ? options.other_embedder(model)
                                                       : nullptr;
    if (other != nullptr) all.push_back({model, other});
  }
  for (const Asked& one : all) {
    Result<std::vector<std::vector<float>>> made = one.embedder->embed({text}, TextRole::kQuery);
    if (made.ok() && made->size() == 1) {
      asked.push_back({.model = one.model, .numbers = std::move(made->front())});
    } else if (one.model == current) {
      add_sentence(hint, fmt::format("found by words alone: the embedder {} does not answer{}{}", quote(current),
                                     made.ok() ? "" : ": ", made.ok() ? "" : made.error().message()));
    }
  }
  return asked;
}

// Search.

Result<SearchAnswer> ContextIndex::search(const SearchQuery& query, const Progress& progress) {
  WARREN_TRY(check_query(query));
  SearchQuery normal = query;
  normal.below = WARREN_TRY(normalise_path(query.below));
  std::unique_ptr<Pattern> pattern;
  if (!query.pattern.empty()) pattern = WARREN_TRY(Pattern::compile(query.pattern));
  SearchAnswer answer;
  {
    std::lock_guard guard(parts_->mutex);
    answer =
        WARREN_TRY(parts_->repaired<SearchAnswer>([&] { return parts_->search(normal, pattern.get(), progress); }));
    WARREN_TRY(parts_->record(answer.hits));
  }
  if (answer.waiting > 0 && parts_->options.on_waiting) parts_->options.on_waiting();
  return answer;
}

Result<SearchAnswer> ContextIndex::Parts::search(const SearchQuery& query, const Pattern* pattern,
                                                 const Progress& progress) {
  SearchAnswer answer;
  WARREN_TRY(catch_up(progress, {}));
  std::vector<QueryVector> asked = WARREN_TRY(embed_query(query.text, answer.hint));
  if (!asked.empty()) embed_during_search().ignore("it waits for the next search");
  is_others_fault = false;
  Transaction view = WARREN_TRY(Transaction::begin(*database, Access::kRead));
  SearchRun run(query, pattern, asked, trees, *rows, *vectors, clock);
  Result<std::vector<SearchHit>> hits = run.run();
  is_others_fault = run.is_callers_fault();
  answer.hits = WARREN_TRY(std::move(hits));
  answer.has_more = run.has_more();
  answer.waiting = options.embedder != nullptr ? WARREN_TRY(vectors->count_waiting()) : 0;
  if (answer.waiting > 0 && !asked.empty()) {
    std::string_view how = asked.size() > 1 ? "by words and by the vectors from before" : "by words alone";
    add_sentence(answer.hint, fmt::format("{} chunks are not embedded yet, and are found {}", answer.waiting, how));
  }
  if (run.was_cut_short()) add_sentence(answer.hint, "the pattern was not tried on all files: narrow the search");
  return answer;
}

// What is handed out was read: where reads are recorded, these are.
Status ContextIndex::Parts::record(const std::vector<SearchHit>& hits) {
  if (!agent.records_reads()) return Ok{};
  std::vector<std::string> paths;
  for (const SearchHit& hit : hits) {
    if (hit.tree == kFilesTree) paths.push_back(hit.path_in_tree);
  }
  std::ranges::sort(paths);
  auto repeated = std::ranges::unique(paths);
  paths.erase(repeated.begin(), repeated.end());
  for (const std::string& one : paths) {
    std::byte first{};
    Result<std::size_t> read = read_at(agent.fs(), one, 0, MutableBytes(&first, 1));
    if (!read.ok() && read.error().code() != Code::kNotFound) return std::move(read).take_error();
  }
  return agent.check_recorded();
}

// Status.

Result<std::vector<ChunkInfo>> ContextIndex::list_chunks(std::string_view path) {
  std::string normal = WARREN_TRY(normalise_path(path));
  std::lock_guard guard(parts_->mutex);
  Parts& parts = *parts_;
  return parts.repaired<std::vector<ChunkInfo>>([&]() -> Result<std::vector<ChunkInfo>> {
    WARREN_TRY(parts.catch_up({}, {}));
    std::string model = parts.options.embedder == nullptr ? std::string() : parts.options.embedder->model();
    Transaction view = WARREN_TRY(Transaction::begin(*parts.database, Access::kRead));
    for (auto tree = parts.trees.rbegin(); tree != parts.trees.rend(); ++tree) {
      std::optional<IndexedFile> file = WARREN_TRY(parts.rows->find_file(tree->number, normal));
      bool is_shown = tree->number == kFilesTree || is_at_or_below(normal, kDrivesDir);
      if (file && is_shown) return parts.rows->list_chunks(file->id, model);
    }
    parts.is_others_fault = true;
    return Error(Code::kNotFound, fmt::format("no file {}", quote(normal)));
  });
}

Result<IndexStatus> ContextIndex::Parts::describe() {
  WARREN_TRY(catch_up({}, {}));
  IndexStatus status;
  status.file = database->path();
  Transaction view = WARREN_TRY(Transaction::begin(*database, Access::kRead));
  WARREN_TRY(rows->count(status));
  DatabaseSize size = WARREN_TRY(database->size());
  status.bytes = size.total_bytes;
  status.waiting = WARREN_TRY(vectors->count_waiting());
  if (options.embedder == nullptr) status.no_embedder = options.no_embedder;
  if (options.embedder != nullptr) {
    status.model = options.embedder->model();
    status.embedded = WARREN_TRY(vectors->count_embedded(status.model));
  }
  return status;
}

Result<IndexStatus> ContextIndex::status() {
  std::lock_guard guard(parts_->mutex);
  return parts_->repaired<IndexStatus>([&] { return parts_->describe(); });
}

}  // namespace warren
