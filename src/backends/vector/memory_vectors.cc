#include "backends/vector/memory_vectors.h"

#include "backends/blob/blob_key.h"
#include "backends/vector/vector_item.h"

namespace warren {

Status MemoryVectors::upsert(std::span<const VectorItem> items) {
  std::lock_guard lock(mutex_);
  std::size_t dimension = WARREN_TRY(check_items(items, vectors_ ? vectors_->dimension() : 0));
  if (items.empty()) return Ok{};
  if (!vectors_) vectors_.emplace(dimension, kernel_);
  for (const VectorItem& item : items) {
    auto [place, is_new] = keys_.try_emplace(item.id, last_key_ + 1);
    if (is_new) ++last_key_;
    vectors_->put(place->second, item.embedding);
    items_.insert_or_assign(place->second, item);
  }
  return Ok{};
}

Result<std::vector<VectorMatch>> MemoryVectors::query(const VectorQuery& query) {
  std::lock_guard lock(mutex_);
  WARREN_TRY(check_query(query, vectors_ ? vectors_->dimension() : 0));
  std::vector<VectorMatch> matched;
  if (!vectors_) return matched;
  auto fetch = [&](std::uint64_t key) { return Result(std::span<const float>(items_.at(key).embedding)); };
  FlatVectors::Accept accept;
  if (!query.filter.empty()) {
    accept = [&](std::uint64_t key) { return Result(matches(query.filter, items_.at(key).metadata)); };
  }
  for (const FlatMatch& match : WARREN_TRY(vectors_->search(query.embedding, query.top_k, fetch, accept))) {
    const VectorItem& item = items_.at(match.key);
    matched.push_back(
        {.item = {.id = item.id, .embedding = {}, .text = item.text, .metadata = item.metadata}, .score = match.score});
  }
  return matched;
}

Result<std::optional<VectorItem>> MemoryVectors::get(std::string_view id) {
  WARREN_TRY(check_blob_key(id));
  std::lock_guard lock(mutex_);
  auto found = keys_.find(id);
  if (found == keys_.end()) return std::optional<VectorItem>();
  return std::optional(items_.at(found->second));
}

Result<bool> MemoryVectors::remove(std::string_view id) {
  WARREN_TRY(check_blob_key(id));
  std::lock_guard lock(mutex_);
  auto found = keys_.find(id);
  if (found == keys_.end()) return false;
  vectors_->remove(found->second);
  items_.erase(found->second);
  keys_.erase(found);
  if (keys_.empty()) vectors_.reset();
  return true;
}

Result<std::uint64_t> MemoryVectors::count() {
  std::lock_guard lock(mutex_);
  return std::uint64_t{keys_.size()};
}

Result<VectorPage> MemoryVectors::list(const VectorListOptions& options) {
  std::lock_guard lock(mutex_);
  VectorPage page;
  std::size_t limit = std::max<std::size_t>(options.limit, 1);
  auto place = options.after < options.prefix ? keys_.lower_bound(options.prefix) : keys_.upper_bound(options.after);
  for (; place != keys_.end() && place->first.starts_with(options.prefix); ++place) {
    if (page.ids.size() == limit) {
      page.next = page.ids.back();
      break;
    }
    page.ids.push_back(place->first);
  }
  return page;
}

}  // namespace warren
