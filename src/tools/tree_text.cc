#include "tools/tree_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/printable.h"
#include "tools/context_support.h"

namespace warren {
namespace {

std::string counted(std::size_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// As deep as depth_max, which the caller bounds.
class TreeDrawer {
 public:
  TreeDrawer(Items& items, const TreeOptions& options) : items_(items), options_(options) {}

  Status draw(const Ref& dir, const std::string& indent, std::size_t depth) {
    std::vector<Items::Entry> entries = WARREN_TRY(items_.list(dir));
    std::size_t shown = std::min(entries.size(), options_.entries_max);
    for (std::size_t i = 0; i < shown; ++i) {
      if (lines_ >= options_.lines_max) shown = i;
      else WARREN_TRY(draw_entry(dir, entries[i], indent, depth, i + 1 == entries.size()));
    }
    if (shown == entries.size()) return Ok{};
    tree_.is_complete = false;
    tree_.text += fmt::format("{}└── ... (+{} more)\n", indent, entries.size() - shown);
    return Ok{};
  }

  TreeText take() { return std::move(tree_); }

 private:
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
    if (depth >= options_.depth_max) return note_depth(below);
    tree_.text += '\n';
    return draw(below, indent + (is_last ? "    " : "│   "), depth + 1);
  }

  // What is in a directory that is not entered.
  Status note_depth(const Ref& dir) {
    Result<std::vector<Items::Entry>> entries = items_.list(dir);
    if (!entries.ok() && entries.error().code() == Code::kDenied) {
      tree_.text += " (not to be listed)\n";
      return Ok{};
    }
    std::vector<Items::Entry> all = WARREN_TRY(std::move(entries));
    auto directories = static_cast<std::size_t>(
        std::ranges::count_if(all, [](const Items::Entry& entry) { return entry.node.is_directory(); }));
    if (!all.empty()) tree_.is_complete = false;
    tree_.text += all.empty() ? " (empty)\n"
                              : fmt::format(" ({}, {})\n", counted(directories, "directory", "directories"),
                                            counted(all.size() - directories, "file", "files"));
    return Ok{};
  }

  Items& items_;
  const TreeOptions& options_;
  TreeText tree_;
  std::size_t lines_ = 0;
};

}  // namespace

Result<TreeText> draw_tree(Items& items, const Ref& top, const TreeOptions& options) {
  TreeDrawer drawer(items, options);
  WARREN_TRY(drawer.draw(top, "", 1));
  TreeText tree = drawer.take();
  tree.text = fmt::format("{}\n{}", printable(to_string(top)), tree.text);
  return tree;
}

std::string tree_hint(const TreeText& tree, const Ref& top, const TreeOptions& options) {
  std::string shown = fmt::format("{} and {}", counted(tree.directories, "directory", "directories"),
                                  counted(tree.files, "file", "files"));
  if (tree.is_complete) return fmt::format("Complete: {}.", shown);
  return fmt::format(
      "Not complete: {} shown, at most {} of each directory and {} deep. Call {} with the path of a directory, or with "
      "larger max_items and max_depth, to see more.",
      shown, options.entries_max, counted(options.depth_max, "level", "levels"), next_call("context_tree", top));
}

}  // namespace warren
