#include "changes/git/raw_diff.h"

#include <algorithm>

#include "changes/git/git.h"

namespace warren {

// ":100644 100644 OLD NEW M", then the path.
std::vector<RawDiff> parse_raw_diff(std::string_view text) {
  std::vector<std::string> parts = split_at_nul(text);
  std::vector<RawDiff> all;
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    std::string_view rest = parts[i];
    if (!rest.starts_with(':')) break;
    rest.remove_prefix(1);
    auto next = [&rest] {
      std::string word(rest.substr(0, rest.find(' ')));
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
      return word;
    };
    RawDiff one;
    one.path = parts[i + 1];
    one.old_mode = next();
    one.new_mode = next();
    one.old_id = next();
    one.new_id = next();
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace warren
