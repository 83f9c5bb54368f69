#include "fs/path_walk.h"

#include <vector>

#include <fmt/format.h>

#include "base/limits.h"
#include "base/path.h"

namespace warren {
namespace {

bool ends_in_slash(std::string_view path) { return path.ends_with('/') || path.ends_with("/.") || path == "."; }

bool is_root(std::string_view path) {
  Result<std::vector<std::string_view>> parts = split_path(path);
  return parts.ok() && parts->empty();
}

// The last component as written, including '.' and '..'.
std::string_view last_component(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return base_name(path);
}

std::vector<std::string_view> split_normal(std::string_view path) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; path != "/" && at != path.npos;) {
    std::size_t start = at + 1;
    at = path.find('/', start);
    parts.push_back(path.substr(start, at - start));
  }
  return parts;
}

// For Result::within.
auto named(std::string_view path) {
  return [path] { return quote_path(path); };
}

class Walker {
 public:
  Walker(FileSystem& fs, std::string_view path, const PlaceOptions& options)
      : fs_(fs), path_(path), options_(options) {}

  Result<Place> walk() {
    WARREN_TRY(push(path_, Source::kPath).within(named(path_)));
    while (!todo_.empty()) {
      Component next = std::move(todo_.back());
      todo_.pop_back();
      if (next.name == "..") {
        if (stack_.size() > 1) stack_.pop_back();
        continue;
      }
      std::optional<Attributes> node = WARREN_TRY(find(next.name));
      bool is_last = todo_.empty();
      if (node && node->is_symlink() && (!is_last || needs_directory_ || options_.follow == Follow::kYes)) {
        WARREN_TRY(follow_link(*node));
        continue;
      }
      if (is_last) return last(std::move(next.name), std::move(node));
      WARREN_TRY(enter(next, node));
    }
    Attributes here = WARREN_TRY(fs_.get_attributes(stack_.back()).within(named(path_)));
    return Place{.parent = here.inode, .name = "", .node = here, .needs_directory = needs_directory_};
  }

 private:
  enum class Source { kPath, kLink };

  struct Component {
    std::string name;
    Source source;
  };

  // Puts the components of a path before the remaining ones.
  Status push(std::string_view path, Source source) {
    // A path that was found in a tree, name by name, may be longer than one that a caller may make up.
    std::vector<std::string_view> parts;
    if (source == Source::kPath && is_normal_path(path)) parts = split_normal(path);
    else parts = WARREN_TRY(split_path(path));
    if (todo_.empty()) needs_directory_ = needs_directory_ || ends_in_slash(path);
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      todo_.push_back({.name = std::string(*part), .source = source});
    }
    return Ok{};
  }

  Result<std::optional<Attributes>> find(std::string_view name) {
    Result<Attributes> found = fs_.lookup(stack_.back(), name);
    if (found.ok()) return std::optional(std::move(found).take_value());
    if (found.error().code() == Code::kNotFound) return std::optional<Attributes>();
    return std::move(found).take_error().within(quote_path(path_));
  }

  Status follow_link(const Attributes& link) {
    if (++links_ > limits::kSymlinkDepth) {
      return Error(Code::kLoop, fmt::format("{} goes through more than {} symbolic links", quote_path(path_),
                                            limits::kSymlinkDepth));
    }
    std::string target = WARREN_TRY(fs_.read_link(link.inode).within(named(path_)));
    if (target.starts_with('/')) stack_.resize(1);
    return push(target, Source::kLink).within(named(path_));
  }

  Status enter(const Component& component, std::optional<Attributes> node) {
    if (!node && options_.missing_dirs && component.source == Source::kPath) {
      Result<Attributes> made = fs_.make_dir(stack_.back(), component.name, *options_.missing_dirs);
      bool was_made_by_another = !made.ok() && made.error().code() == Code::kExists;
      if (was_made_by_another) made = fs_.lookup(stack_.back(), component.name);
      node = WARREN_TRY(std::move(made).within(named(path_)));
    }
    if (!node) {
      return Error(Code::kNotFound, fmt::format("no {}: there is no {}", quote_path(path_), quote(component.name)));
    }
    if (!node->is_directory()) {
      return Error(Code::kNotDirectory,
                   fmt::format("no {}: {} is not a directory", quote_path(path_), quote(component.name)));
    }
    stack_.push_back(node->inode);
    return Ok{};
  }

  Result<Place> last(std::string name, std::optional<Attributes> node) {
    if (node && needs_directory_ && !node->is_directory()) {
      return Error(Code::kNotDirectory, fmt::format("{} is not a directory", quote_path(path_)));
    }
    return Place{
        .parent = stack_.back(), .name = std::move(name), .node = std::move(node), .needs_directory = needs_directory_};
  }

  FileSystem& fs_;
  const std::string_view path_;
  const PlaceOptions& options_;
  std::vector<Inode> stack_{kRootInode};  // the directories from the root to here
  std::vector<Component> todo_;           // last one first
  bool needs_directory_ = false;
  int links_ = 0;
};

}  // namespace

std::string quote_path(std::string_view path) {
  constexpr std::size_t kShownBytes = 512;
  if (path.size() <= kShownBytes) return quote(path);
  return quote(path.substr(0, kShownBytes)) + "…";
}

Result<Place> find_place(FileSystem& fs, std::string_view path, const PlaceOptions& options) {
  return Walker(fs, path, options).walk();
}

Result<Place> find_name(FileSystem& fs, std::string_view path) {
  if (is_root(path)) return Error(Code::kBusy, fmt::format("{} is the root", quote_path(path)));
  std::string_view name = last_component(path);
  if (name == "." || name == "..") {
    return Error(Code::kInvalid, fmt::format("{} does not end in a name", quote_path(path)));
  }
  std::string_view bare = path;
  while (bare.ends_with('/')) bare.remove_suffix(1);
  Place place = WARREN_TRY(find_place(fs, bare, {.follow = Follow::kNo}));
  place.needs_directory = bare.size() < path.size();
  if (place.node && place.needs_directory && !place.node->is_directory()) {
    return Error(Code::kNotDirectory, fmt::format("{} is not a directory", quote_path(path)));
  }
  return place;
}

}  // namespace warren
