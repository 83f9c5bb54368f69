// The tables of the search index that say which texts are embedded, by which model, and which wait for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/vector/flat_vectors.h"
#include "base/result.h"
#include "db/database.h"
#include "db/statement.h"

namespace warren {

struct WaitingText {
  std::string hash;
  std::string text;
};

struct MeaningMatch {
  std::string hash;
  double score = 0;
};

// Vectors of a model that are made again.
std::string former_name_of(const std::string& model);

// Keeps the vectors of a model in memory with 8 bits a number (backends/vector/flat_vectors.h), once it was searched.
// Use it in transactions of the database: it has none of its own. The database outlives it.
class IndexVectors {
 public:
  static Result<std::unique_ptr<IndexVectors>> open(Database& database);

  // Makes it the model that texts wait for. All texts without a vector of it wait from now on. Only the first time does
  // that change rows: `is_model_in_use` needs no transaction that writes, and from then on the model is used as well.
  Result<bool> is_model_in_use(const std::string& name, std::size_t dimensions);
  Status use_model(const std::string& name, std::size_t dimensions);
  Result<std::vector<std::string>> list_models();  // that have vectors
  // All texts wait for the model in use again. Its vectors answer under the name former_name_of(model) until then.
  Status start_again();

  Result<bool> has_waiting();
  Result<std::size_t> count_waiting();
  Result<std::size_t> count_embedded(const std::string& model);
  // Any of those that wait; two processes rarely get the same.
  Result<std::vector<WaitingText>> list_waiting(std::size_t max);
  // Of the model in use. kInvalid if a vector is not of its dimension or not finite.
  Status put(std::string_view hash, std::span<const float> vector);
  // Removes vectors whose text is gone, and vectors of other models once no text waits.
  Status remove_unused();

  // The nearest texts that `accept` wants, best first.
  using AcceptHash = std::function<Result<bool>(const std::string& hash)>;
  Result<std::vector<MeaningMatch>> search(const std::string& model, std::span<const float> query, std::size_t max,
                                           const AcceptHash& accept);

 private:
  // What is in memory of one model.
  struct Loaded {
    std::optional<FlatVectors> vectors;
    std::int64_t last_id = 0;
    std::int64_t removals = 0;
  };

  explicit IndexVectors(Database& database) : database_(database) {}
  Result<std::optional<std::int64_t>> find_model(std::string_view name);
  Result<std::int64_t> count_removals();
  Status load(std::int64_t model, Loaded& loaded);
  Status drop_removed(std::int64_t model, Loaded& loaded);

  Database& database_;
  std::optional<std::int64_t> model_;  // in use
  std::size_t dimensions_ = 0;
  std::map<std::int64_t, Loaded> loaded_;
  Statement find_model_, put_model_, drop_vectors_, get_meta_, put_meta_, wait_for_all_;
  Statement has_waiting_, count_waiting_, count_embedded_;
  Statement list_waiting_, text_of_, stop_waiting_, put_, hash_of_vector_, numbers_of_, load_, list_ids_;
};

}  // namespace warren
