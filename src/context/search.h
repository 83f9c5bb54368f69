// Search in an agent's files: by words, by meaning and by patterns.
//
// Everything the agent's tree has is found, whoever wrote it: before a search answers, the index looks what changed.
// The index is derived from the files. It is in a file of its own beside the agent file, and is made again if it is
// missing, damaged or of another agent. docs/design/context.md says how.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/result.h"
#include "embed/embedder.h"

namespace warren {

// The trees that are indexed, as the index stores them. Without a base there is only the first, with all files.
inline constexpr int kFilesTree = 0;      // with a base: the merged tree
inline constexpr int kNamespaceTree = 1;  // of an agent with a base

struct SearchQuery {
  // Words, any of which may occur; "several words" in quotes as they are; the beginning of a word with a star: wor*.
  std::string text;
  std::string pattern;  // a regular expression (RE2), which text in the results matches; may be empty

  // Only files that fulfil all of these count.
  std::string below = "/";            // at or below this path; a drive is /context/<drive>
  std::vector<std::string> globs;     // text/glob.h; any of them
  std::string mime;                   // "text/markdown", "text/*"; empty: any
  std::optional<std::int64_t> since;  // changed at or after that time, in Unix seconds
  std::optional<std::int64_t> until;  // changed at or before that time
  // The path by which the caller knows a file of a tree; nullopt: for the caller there is no such file. Paths in this
  // query and in the hits are of this kind. Empty: those of the tree, and of the namespace tree only the drives.
  std::function<std::optional<std::string>(int tree, const std::string& path)> path_for_caller;
  // Whether the caller may read the file. Asked before anything is counted as found; empty: yes.
  std::function<Result<bool>(const std::string& path)> may_read;

  std::size_t limit = 10;
  std::size_t offset = 0;  // so many of the best are left out, for the next page
  std::size_t per_file_max = 3;
};

struct SearchHit {
  std::string path;  // as the caller knows it
  int tree = kFilesTree;
  std::string path_in_tree;
  std::size_t first_line = 0;  // of the place, from 1; 0 if only the file's name was found
  std::size_t last_line = 0;
  std::string heading;  // above it: "Install > Linux"
  std::string snippet;  // some lines of the place, around what was found
  std::size_t snippet_line = 0;
  double score = 0;  // only to compare hits of one search
  bool by_text = false;
  bool by_meaning = false;
  bool by_pattern = false;
};

struct SearchAnswer {
  std::vector<SearchHit> hits;  // best first
  std::string hint;             // what limits this answer and what to do about it; empty if nothing does
  std::size_t waiting = 0;      // chunks that are not embedded yet
  bool has_more = false;        // after these hits; see SearchQuery::offset
};

struct IndexStatus {
  std::string file;  // the index itself; ":memory:" for an agent in memory
  std::uint64_t bytes = 0;
  std::size_t files = 0;
  std::size_t with_text = 0;
  std::size_t chunks = 0;
  std::size_t embedded = 0;  // different chunks, by the model
  std::size_t waiting = 0;   // different chunks that the model has not embedded yet
  std::string model;         // of the embedder; empty if there is none
  std::string no_embedder;   // why there is none
  struct Problem {
    std::string path;
    std::string message;
  };
  std::vector<Problem> problems;  // files of which only the name is indexed although they may have text; the first 100
  std::size_t problem_count = 0;
};

// A part of a file's text, as it is searched.
struct ChunkInfo {
  std::size_t first_line = 0;  // from 1
  std::size_t last_line = 0;
  std::string heading;
  std::string text;
  bool is_embedded = false;
};

struct ContextOptions {
  Embedder* embedder = nullptr;  // null: search by words and patterns alone; outlives the index
  std::string no_embedder;       // why there is none, for the hint
  // Embedders of other models, whose vectors answer while the new model's are made. Null: it is not available.
  std::function<Embedder*(const std::string& model)> other_embedder;
  std::chrono::milliseconds embed_time{200};  // what a search may spend on embedding chunks that wait
  std::function<void()> on_waiting;           // after a search that leaves chunks waiting, in its thread
};

struct IndexProgress {
  std::size_t done = 0;
  std::size_t total = 0;
};

// Thread-safe: one call at a time, except that others go on while embed_some() waits for the embedder. Agent, embedder
// and clock outlive it.
class ContextIndex {
 public:
  // Opens or makes the index. kReadOnly if its folder cannot be written.
  static Result<std::unique_ptr<ContextIndex>> open(Agent& agent, ContextOptions options, Clock& clock);
  ~ContextIndex();
  ContextIndex(const ContextIndex&) = delete;
  ContextIndex& operator=(const ContextIndex&) = delete;

  // Both may be empty. When `cancelled` returns true, what was done so far is kept.
  using Progress = std::function<void(const IndexProgress&)>;
  using Cancelled = std::function<bool()>;

  // Reads what changed since the last time, through whatever door and by whatever program. O(changes); O(files) if they
  // are not known one by one, as for an agent with a base and after other programs.
  Status catch_up(const Progress& progress = {}, const Cancelled& cancelled = {});

  // Catches up and embeds a little, then searches. kInvalid for a wrong pattern or nothing to look for. `progress` is
  // that of catching up.
  Result<SearchAnswer> search(const SearchQuery& query, const Progress& progress = {});

  Result<IndexStatus> status();  // catches up first

  // Embeds chunks that wait until none does, `time` has passed or `cancelled` returns true. Returns how many were
  // embedded. kNotFound without an embedder, kUnavailable if it does not answer.
  Result<std::size_t> embed_some(std::chrono::milliseconds time, const Progress& progress = {},
                                 const Cancelled& cancelled = {});

  // All texts wait for the embedder again; their vectors answer until then. kNotFound without an embedder.
  Status start_embedding_again();

  // The parts that a file's text is divided into, in order; empty if it has no text. Catches up first. kNotFound.
  Result<std::vector<ChunkInfo>> list_chunks(std::string_view path);

  // Makes the index again, embeddings included.
  Status rebuild(const Progress& progress = {}, const Cancelled& cancelled = {});

 private:
  struct Parts;
  explicit ContextIndex(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace warren
