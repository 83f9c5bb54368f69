#include "text/nearest.h"

#include <algorithm>

#include "base/ascii.h"

namespace warren {
namespace {

// The number of single-letter edits (insert, delete, replace, swap of neighbours) between two words.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + change});
      bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string nearest(std::string_view typed, const std::vector<std::string_view>& known) {
  constexpr std::size_t kWordBytes = 64;  // longer words are not misspelled commands; keeps the comparison cheap
  bool is_number = std::all_of(typed.begin(), typed.end(), is_digit);  // another number is another thing
  if (is_number || typed.size() > kWordBytes) return "";
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(1, typed.size() / 3) + 1;
  for (std::string_view word : known) {
    std::size_t distance = edit_distance(typed, word);
    if (typed.size() >= 2 && word.starts_with(typed)) distance = std::min<std::size_t>(distance, 1);
    if (distance < best_distance) {
      best = word;
      best_distance = distance;
    }
  }
  return std::string(best);
}

}  // namespace warren
