#include "tools/context/tree_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/path.h"
#include "base/printable.h"
#include "tools/context/context_support.h"

namespace warren {
namespace {

std::string counted(std::size_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// As deep as depth_max, which the caller bounds.
class TreeDrawer {
 public:
  TreeDrawer(Items& items, const TreeOptions& options) : items_(items), options_(options) {}

  Status draw_top(const Ref& top) {
    std::vector<Items::Entry> entries = WARREN_TRY(items_.list(top));
    if (!options_.after.empty()) {
      auto last = std::ranges::find(entries, options_.after, &Items::Entry::name);
      if (last == entries.end()) {
        return Error(Code::kNotFound, fmt::format("'after': no entry {} in {}", quote(options_.after), to_string(top)),
                     fmt::format("Call {} to begin again.", next_call("context_tree", top)));
      }
      entries.erase(entries.begin(), last + 1);
    }
    std::size_t shown = WARREN_TRY(draw(top, entries, "", 1));
    tree_.has_more_entries = shown < entries.size();
    entries.resize(shown);
    tree_.entries = std::move(entries);
    return Ok{};
  }
  TreeText take() { return std::move(tree_); }

 private:
  // Returns how many of the entries it has shown.
  Result<std::size_t> draw(const Ref& dir, const std::vector<Items::Entry>& entries, const std::string& indent,
                           std::size_t depth) {
    std::size_t shown = std::min(entries.size(), options_.entries_max);
    for (std::size_t i = 0; i < shown; ++i) {
      if (lines_ >= options_.lines_max) shown = i;
      else WARREN_TRY(draw_entry(dir, entries[i], indent, depth, i + 1 == entries.size()));
    }
    if (shown == entries.size()) return shown;
    tree_.is_complete = false;
    tree_.text += fmt::format("{}└── ... (+{} more)\n", indent, entries.size() - shown);
    return shown;
  }

  Status draw_entry(const Ref& dir, const Items::Entry& entry, const std::string& indent, std::size_t depth,
                    bool is_last) {
    ++lines_;
    tree_.text += fmt::format("{}{}{}", indent, is_last ? "└── " : "├── ", printable(entry.name));
    if (!entry.node.is_directory()) {
      ++tree_.files;
      tree_.text += '\n';
      return Ok{};
    }
    ++tree_.directories;
    tree_.text += '/';
    Ref below = child_of(dir, entry.name);
    Result<std::vector<Items::Entry>> entries = items_.list(below);
    if (!entries.ok() && entries.error().code() == Code::kDenied) {
      tree_.is_complete = false;
      tree_.text += " (not to be listed)\n";
      return Ok{};
    }
    std::vector<Items::Entry> all = WARREN_TRY(std::move(entries));
    if (depth >= options_.depth_max) {
      note_counts(all);
      return Ok{};
    }
    tree_.text += '\n';
    WARREN_TRY(draw(below, all, indent + (is_last ? "    " : "│   "), depth + 1));
    return Ok{};
  }

  // What is in a directory that is not entered.
  void note_counts(const std::vector<Items::Entry>& entries) {
    auto directories = static_cast<std::size_t>(
        std::ranges::count_if(entries, [](const Items::Entry& entry) { return entry.node.is_directory(); }));
    if (!entries.empty()) tree_.is_complete = false;
    tree_.text += entries.empty() ? " (empty)\n"
                                  : fmt::format(" ({}, {})\n", counted(directories, "directory", "directories"),
                                                counted(entries.size() - directories, "file", "files"));
  }

  Items& items_;
  const TreeOptions& options_;
  TreeText tree_;
  std::size_t lines_ = 0;
};

}  // namespace

Result<TreeText> draw_tree(Items& items, const Ref& top, const TreeOptions& options) {
  TreeDrawer drawer(items, options);
  WARREN_TRY(drawer.draw_top(top));
  TreeText tree = drawer.take();
  tree.text = fmt::format("{}\n{}", printable(to_string(top)), tree.text);
  return tree;
}

std::string tree_hint(const TreeText& tree, const Ref& top, const TreeOptions& options) {
  std::string shown = fmt::format("{} and {}", counted(tree.directories, "directory", "directories"),
                                  counted(tree.files, "file", "files"));
  if (tree.is_complete) return fmt::format("Complete: {}.", shown);
  std::string hint = fmt::format("Not complete: {} shown, at most {} of each directory, {} in all and {} deep.", shown,
                                 options.entries_max, options.lines_max, counted(options.depth_max, "level", "levels"));
  if (tree.has_more_entries && !tree.entries.empty()) {
    Json next{{"drive", top.drive},
              {"path", top.path},
              {"max_depth", options.depth_max},
              {"max_items", options.entries_max},
              {"after", tree.entries.back().name}};
    hint += fmt::format(" Call {} for the next entries.", next_call("context_tree", next));
  }
  return fmt::format("{} Call {} with the path of a directory{} to see more of it.", hint,
                     next_call("context_tree", top),
                     options.entries_max < kDrawnEntriesMax ? ", or with larger max_items or max_depth," : "");
}

}  // namespace warren
