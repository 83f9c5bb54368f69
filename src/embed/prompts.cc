#include "embed/prompts.h"

#include "base/ascii.h"
#include "base/path.h"

namespace warren {
namespace {

struct PromptRow {
  std::string_view begins;    // the model's name, in lower case
  std::string_view contains;  // may be empty
  std::string_view query;
  std::string_view passage;
};

constexpr std::string_view kSearchPassages = "Represent this sentence for searching relevant passages: ";

// From the models' own pages.
constexpr PromptRow kKnownPrompts[] = {{"e5-", "", "query: ", "passage: "},
                                       {"multilingual-e5-", "", "query: ", "passage: "},
                                       {"bge-", "-en", kSearchPassages, ""},
                                       {"snowflake-arctic-embed", "", kSearchPassages, ""},
                                       {"mxbai-embed-large", "", kSearchPassages, ""},
                                       {"nomic-embed-text", "", "search_query: ", "search_document: "}};

}  // namespace

Prompts known_prompts(std::string_view model) {
  const std::string name = to_lower(base_name(model));  // "intfloat/e5-small-v2"
  for (const PromptRow& row : kKnownPrompts) {
    const bool fits = name.starts_with(row.begins) && name.find(row.contains) != std::string::npos;
    if (fits) return {std::string(row.query), std::string(row.passage)};
  }
  return {};
}

}  // namespace warren
