#include "sandbox/view/plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/path.h"
#include "os/files/host_files.h"
#include "sandbox/view/aliases.h"
#include "sandbox/view/home_rules.h"
#include "sandbox/view/named_sockets.h"

namespace warren {
namespace {

using Kind = Plan::Kind;
using Place = Plan::Place;

constexpr std::array<std::string_view, 8> kAgentFsAllows{".amp",   ".cache",  ".claude", ".claude.json",
                                                         ".codex", ".gemini", ".npm",    ".local"};

constexpr std::array<std::string_view, 4> kScratch{"/tmp", "/var/tmp", "/dev/shm", "/run"};
constexpr std::string_view kNamespaceRoot = "/agent";
constexpr std::array<std::string_view, 3> kSystem{"/proc", "/sys", "/dev"};
// A link to one of these, in the place of a secret, must not hide the system.
constexpr std::array<std::string_view, 9> kNeverHidden{"/usr",   "/bin",    "/sbin", "/lib", "/lib32",
                                                       "/lib64", "/libx32", "/etc",  "/opt"};
constexpr std::string_view kHomes = "/home";
constexpr std::string_view kHomebrew = "/home/linuxbrew";  // programs for all users

struct Found {
  std::string path;
  bool is_directory = false;
};

// nullopt if nothing is there, or nothing that we may inspect.
std::optional<Found> find_place(const std::string& path) {
  Result<std::optional<struct stat>> there = find_host_file(path);
  if (!there.ok() || !*there) return std::nullopt;
  Result<std::string> canonical = canonical_host_path(path);
  if (!canonical.ok()) return std::nullopt;
  return Found{*std::move(canonical), S_ISDIR((*there)->st_mode)};
}

Result<Found> get_place(const std::string& path, std::string_view option) {
  if (path.empty()) return Error(Code::kInvalid, fmt::format("{} needs a path, which cannot be empty", option));
  std::optional<struct stat> there = WARREN_TRY(find_host_file(path).within(option));
  if (!there) return Error(Code::kNotFound, fmt::format("{}: {} does not exist", option, quote(path)));
  std::string canonical = WARREN_TRY(canonical_host_path(path).within(option));
  if (canonical == "/") {
    return Error(Code::kInvalid, fmt::format("{}: '/' would be everything; name a directory in it", option));
  }
  for (std::string_view system : kSystem) {
    bool is_shm = canonical == "/dev/shm" || canonical.starts_with("/dev/shm/");
    if (!is_shm && is_within(canonical, std::string(system))) {
      return Error(Code::kInvalid, fmt::format("{}: {} belongs to the system, and the sandbox has its own {}", option,
                                               quote(path), system));
    }
  }
  bool is_directory = S_ISDIR(there->st_mode);
  bool is_allowed_socket = S_ISSOCK(there->st_mode) && option == "--allow";
  if (!is_directory && !S_ISREG(there->st_mode) && !is_allowed_socket) {
    return Error(Code::kInvalid, fmt::format("{}: {} is neither a file nor a directory", option, quote(path)));
  }
  return Found{std::move(canonical), is_directory};
}

// Collects the places; the first one with a path wins.
class Planner {
 public:
  Planner(const PlanOptions& options, const Aliases& aliases) : options_(options), aliases_(aliases) {}

  Result<Plan> make() {
    plan_.has_network = options_.has_network;
    WARREN_TRY(set_base());
    WARREN_TRY(add_guarded());
    WARREN_TRY(add_operator_places());
    WARREN_TRY(add_asked());
    choose_home();
    add_defaults();
    add_scratch();
    if (options_.has_network) keep_name_service();
    cover_sockets();
    list_parents();
    if (plan_.home) plan_.home->shown = make_home_view(home_view_options());
    auto depth = [](const Place& place) { return std::count(place.path.begin(), place.path.end(), '/'); };
    std::stable_sort(plan_.places.begin(), plan_.places.end(),
                     [&](const Place& a, const Place& b) { return depth(a) < depth(b); });
    drop_readable_already();
    WARREN_TRY(place_namespace());
    return std::move(plan_);
  }

 private:
  Status set_base() {
    Found base = WARREN_TRY(get_place(options_.base, "--base"));
    if (!base.is_directory) {
      return Error(Code::kNotDirectory, fmt::format("--base: {} is not a directory", quote(options_.base)));
    }
    plan_.base = base.path;
    add(std::move(base), Kind::kBase);
    return Ok{};
  }

  Status add_guarded() {
    for (const std::string& path : options_.guarded) {
      std::optional<Found> found = find_place(path);
      if (!found) continue;
      for (Found& place : with_aliases(*std::move(found))) {
        if (is_within(plan_.base, place.path)) {
          return Error(Code::kInvalid, fmt::format("--base: {} is where agent files are kept, which no agent may see",
                                                   quote(options_.base)));
        }
        guarded_.push_back(place.path);
        add(std::move(place), Kind::kHidden);
      }
    }
    return Ok{};
  }

  Status add_operator_places() {
    for (const std::string& path : options_.operator_places) {
      Result<std::optional<struct stat>> there = find_host_link(path);
      if (!there.ok() || !*there) continue;
      bool is_link = S_ISLNK((*there)->st_mode);
      for (Found& place : with_aliases({path, S_ISDIR((*there)->st_mode)})) {
        operator_places_.push_back(place.path);
        if (is_link) continue;  // where it leads is another of these paths
        if (is_within(plan_.base, place.path)) {
          return Error(Code::kInvalid, fmt::format("--base: {} is in {}, where keys and settings of Warren are kept, "
                                                   "which no agent may see",
                                                   quote(options_.base), quote(place.path)));
        }
        guarded_.push_back(place.path);
        add(std::move(place), Kind::kHidden);
      }
    }
    return Ok{};
  }

  Status add_asked() {
    for (const std::string& path : options_.hide) {
      Found found = WARREN_TRY(get_place(path, "--hide"));
      if (found.path == plan_.base) {
        return Error(Code::kInvalid, fmt::format("--hide: {} is the base", quote(path)));
      }
      for (Found& place : with_aliases(std::move(found))) add(std::move(place), Kind::kHidden);
    }
    for (const std::string& path : options_.allow) WARREN_TRY(add_opened(path, "--allow", Kind::kAllowed));
    for (const std::string& path : options_.read) WARREN_TRY(add_opened(path, "--read", Kind::kReadable));
    return Ok{};
  }

  Status add_opened(const std::string& path, std::string_view option, Kind kind) {
    Found found = WARREN_TRY(get_place(path, option));
    for (const std::string& guarded : guarded_) {
      if (!is_within(found.path, guarded)) continue;
      if (!found.is_directory && found.path == guarded) {
        return Error(Code::kInvalid,
                     fmt::format("{}: {} has the key of an agent file, which no agent may see", option, quote(path)));
      }
      return Error(Code::kInvalid,
                   fmt::format("{}: {} is where agent files are kept, which no agent may see", option, quote(path)),
                   "an agent must not change the record of what it did");
    }
    if (kind == Kind::kAllowed) WARREN_TRY(check_no_operator_place_in(found.path, path));
    const Place* same = find(found.path);
    if (same != nullptr && same->kind == Kind::kBase) {
      if (kind == Kind::kReadable) return Ok{};
      return Error(Code::kInvalid, fmt::format("{}: {} is the base, which is copy-on-write", option, quote(path)));
    }
    if (same != nullptr && same->kind == Kind::kHidden) {
      return Error(Code::kInvalid, fmt::format("{} and --hide name the same path {}", option, quote(path)));
    }
    opened_.push_back(found.path);
    add(std::move(found), kind);
    return Ok{};
  }

  // A cover would hide what is in it, but the directories above the cover could be moved, on the host too.
  Status check_no_operator_place_in(const std::string& canonical, const std::string& as_typed) const {
    const std::string* inside = find_operator_place_in(canonical);
    if (inside == nullptr) return Ok{};
    return Error(
        Code::kInvalid,
        fmt::format("--allow: {} contains {}, which is or leads to keys and settings of Warren that no command "
                    "may see or move",
                    quote(as_typed), quote(*inside)),
        "allow the directories in it that are needed, each with an --allow of its own");
  }

  const std::string* find_operator_place_in(const std::string& canonical) const {
    auto inside = std::find_if(operator_places_.begin(), operator_places_.end(),
                               [&](const std::string& place) { return is_within(place, canonical); });
    return inside == operator_places_.end() ? nullptr : &*inside;
  }

  // A layer of its own, unless the user decided otherwise about the whole of it.
  void choose_home() {
    std::optional<Found> home = options_.homes.empty() ? std::nullopt : find_place(options_.homes.front());
    bool is_usable = home && home->is_directory && home->path != "/" && !is_within(home->path, plan_.base);
    if (!is_usable) return;
    HomeView view = options_.home_view;
    for (const Place& place : plan_.places) {
      if (place.kind == Kind::kBase || !is_within(home->path, place.path)) continue;
      if (place.kind != Kind::kReadable) return;
      view = HomeView::kAll;
    }
    plan_.home = Plan::Home{.path = home->path, .view = view, .shown = {}, .sign_ins = {}, .kept_sign_ins = {}};
    std::erase_if(plan_.places, [&](const Place& place) { return place.path == home->path; });
    add(*std::move(home), Kind::kHome);
  }

  void add_defaults() {
    for (const std::string& home : options_.homes) add_secrets_of(home);
    if (options_.is_root) add_system_secrets();
    hide_other_homes();
    bool has_allows = options_.default_allows != DefaultAllows::kNone && !options_.homes.empty();
    if (!has_allows) return;
    if (options_.default_allows == DefaultAllows::kAgentFs) {
      for (std::string_view name : kAgentFsAllows) {
        std::optional<Found> found = find_place(fmt::format("{}/{}", options_.homes.front(), name));
        if (found && may_be_allowed(found->path)) add(*std::move(found), Kind::kAllowed);
      }
    }
    if (!plan_.home) return;
    for (std::string_view name : home_sign_ins()) add_sign_in(std::string(name));
  }

  // A link of the user is followed to a file of the same name in the home: no other file may become what a command
  // writes, even if a link to it came into the home with applied changes.
  void add_sign_in(const std::string& name) {
    Plan::Home& home = *plan_.home;
    std::string path = join_path(home.path, name);
    if (!plan_.is_in_home(path) || is_in_a_place(path)) return;
    std::optional<std::string> real = find_real_path(path);
    if (real == path) {
      home.sign_ins.push_back({name, name});
      return;
    }
    std::string why = why_not_followed(name, real);
    if (!why.empty()) {
      home.kept_sign_ins.push_back({name, std::move(why)});
      return;
    }
    std::string outside = path_in_home(*real, home.path);
    home.sign_ins.push_back({name, outside});  // if a program replaces the link
    home.sign_ins.push_back({outside, outside});
    linked_sign_ins_.push_back(*std::move(real));
  }

  std::string why_not_followed(const std::string& name, const std::optional<std::string>& real) const {
    if (!real) return "it is a link that leads nowhere";
    if (is_within(*real, plan_.base)) return fmt::format("it is a link to {}, in the base", quote(*real));
    if (!plan_.is_in_home(*real)) return fmt::format("it is a link to {}, outside your home directory", quote(*real));
    if (is_in_a_place(*real)) return fmt::format("it is a link to {}, which another rule covers", quote(*real));
    if (base_name(*real) != base_name(name)) return fmt::format("it is a link to another name, {}", quote(*real));
    Result<std::optional<struct stat>> there = find_host_file(*real);
    bool is_plain = there.ok() && (!*there || S_ISREG((*there)->st_mode));
    return is_plain ? "" : fmt::format("it is a link to {}, which is not a file", quote(*real));
  }

  // Where links lead, if the end of the path need not exist; nullopt for a link that leads nowhere.
  static std::optional<std::string> find_real_path(const std::string& path) {
    Result<std::string> real = canonical_host_path(path);
    if (real.ok()) return *real;
    Result<std::optional<struct stat>> link = find_host_link(path);
    if (link.ok() && *link) return std::nullopt;
    if (path == "/") return std::nullopt;
    std::optional<std::string> parent = find_real_path(std::string(directory_of(path)));
    if (!parent) return std::nullopt;
    return join_path(*parent, base_name(path));
  }

  bool is_in_a_place(const std::string& path) const {
    return std::any_of(plan_.places.begin(), plan_.places.end(), [&](const Place& place) {
      return (place.kind == Kind::kAllowed || place.kind == Kind::kHidden) && is_within(path, place.path);
    });
  }

  void add_secrets_of(const std::string& home) {
    std::optional<Found> found = find_place(home);
    bool is_layer = found && plan_.home && found->path == plan_.home->path;
    for (std::string_view name : home_secrets()) {
      hide_by_default(fmt::format("{}/{}", home, name));
      if (!is_layer) find_absent(home, name);  // in the layer the view decides
    }
  }

  void add_system_secrets() {
    for (std::string_view path : system_secrets()) {
      std::optional<Found> found = find_place(std::string(path));
      bool is_itself = found && found->path == path;  // not where a link leads
      if (is_itself) hide_by_default(found->path);
    }
  }

  // The home in the user database, where $HOME is another one; for root, the homes of everybody. Also where mounts show
  // them, or something in them.
  void hide_other_homes() {
    std::vector<std::string> others = options_.homes_of_others;
    bool hides_own = plan_.home && plan_.home->view == HomeView::kTools;
    if (hides_own) others.insert(others.end(), options_.homes.begin() + 1, options_.homes.end());
    if (options_.is_root) others.insert(others.end(), {std::string(kHomes), "/root"});
    if (hides_own) hide_aliases_of(plan_.home->path);
    for (const std::string& path : others) {
      std::optional<Found> found = find_place(path);
      bool is_other = found && found->is_directory && found->path != "/" && !is_within(found->path, plan_.base) &&
                      !(plan_.home && is_within(found->path, plan_.home->path));
      if (!is_other || is_needed(found->path)) continue;
      hide_aliases_of(found->path);
      if (!is_opened(found->path)) add(*std::move(found), Kind::kHidden);
    }
    if (find(std::string(kHomes)) == nullptr) return;
    std::optional<Found> homebrew = find_place(std::string(kHomebrew));
    if (homebrew && homebrew->path == kHomebrew) add(*std::move(homebrew), Kind::kReadable);
  }

  // Unlike a link, a mount in a system directory hides nothing of the system if it is covered.
  void hide_aliases_of(const std::string& home) {
    for (Aliases::Alias& alias : aliases_.of(home)) {
      bool is_served = is_within(alias.path, plan_.base) || (plan_.home && is_within(alias.path, plan_.home->path));
      bool is_around = std::any_of(kNeverHidden.begin(), kNeverHidden.end(),
                                   [&](std::string_view needed) { return is_within(std::string(needed), alias.path); });
      if (is_served || is_around || is_opened(alias.path)) continue;
      add({std::move(alias.path), alias.is_directory}, Kind::kHidden);
    }
  }

  // Whether the user asked to see it.
  bool is_opened(const std::string& path) const {
    return std::any_of(opened_.begin(), opened_.end(),
                       [&](const std::string& opened) { return is_within(path, opened); });
  }

  // Programs are there: hiding it would leave nothing to run.
  static bool is_needed(const std::string& path) {
    return std::any_of(kNeverHidden.begin(), kNeverHidden.end(), [&](std::string_view needed) {
      return is_within(path, std::string(needed)) || is_within(std::string(needed), path);
    });
  }

  HomeViewOptions home_view_options() const {
    HomeViewOptions options{.home = plan_.home->path,
                            .view = plan_.home->view,
                            .opened = {},
                            .hidden = {},
                            .mount_points = {},
                            .guarded = {}};
    for (const Place& place : plan_.places) {
      bool is_below = place.path != plan_.home->path && is_within(place.path, plan_.home->path);
      if (!is_below || (place.path != plan_.base && is_within(place.path, plan_.base))) continue;
      if (place.kind == Kind::kReadable) options.opened.push_back(place.path);
      if (place.kind == Kind::kHidden) options.hidden.push_back(place.path);
      if (place.kind == Kind::kAllowed || place.kind == Kind::kBase) options.mount_points.push_back(place.path);
    }
    for (const std::string& path : options_.read) add_as_typed(path, options.opened);
    options.opened.insert(options.opened.end(), linked_sign_ins_.begin(), linked_sign_ins_.end());
    for (const std::string& path : guarded_) {
      if (is_within(path, plan_.home->path)) options.guarded.push_back(path);
    }
    return options;
  }

  // The name by which the user knows it may be a link.
  void add_as_typed(const std::string& path, std::vector<std::string>& opened) const {
    Result<std::string> parent = canonical_host_path(std::string(directory_of(path)));
    if (!parent.ok()) return;
    std::string typed = join_path(*parent, base_name(path));
    if (typed != plan_.home->path && is_within(typed, plan_.home->path)) opened.push_back(std::move(typed));
  }

  // A link could lead anywhere: a path the user did not name is allowed only outside the base, the system and hidden
  // paths.
  bool may_be_allowed(const std::string& path) const {
    if (path == "/" || is_within(plan_.base, path) || find_operator_place_in(path) != nullptr) return false;
    for (std::string_view system : kSystem) {
      if (is_within(path, std::string(system))) return false;
    }
    return std::none_of(plan_.places.begin(), plan_.places.end(),
                        [&](const Place& place) { return place.kind == Kind::kHidden && is_within(path, place.path); });
  }

  void hide_by_default(const std::string& path) {
    std::optional<Found> found = find_place(path);
    if (!found) return;
    if (is_link_to_system(*found, path)) return;
    for (Found& place : with_aliases(*std::move(found))) {
      bool is_asked_for = std::any_of(opened_.begin(), opened_.end(), [&](const std::string& opened) {
        return is_within(place.path, opened) && !is_guarded(opened);
      });
      if (!is_asked_for) add(std::move(place), Kind::kHidden);
    }
  }

  // A link in the place of a secret could lead anywhere, and hiding the system or what the run works on would prevent
  // every run.
  bool is_link_to_system(const Found& found, const std::string& path) const {
    Result<std::string> parent = canonical_host_path(std::string(directory_of(path)));
    bool is_itself = parent.ok() && found.path == join_path(*parent, base_name(path));
    if (is_itself) return false;
    bool is_around = is_within(plan_.base, found.path) || (plan_.home && is_within(plan_.home->path, found.path));
    bool is_of_kernel = std::any_of(kSystem.begin(), kSystem.end(), [&](std::string_view system) {
      return is_within(found.path, std::string(system));
    });
    bool is_top_level = found.path.rfind('/') == 0;
    return is_around || is_of_kernel || is_top_level || is_needed(found.path);
  }

  // The directory of a secret, present or future, and the first missing name on the way to it.
  void find_absent(const std::string& home, std::string_view secret) {
    std::optional<Found> dir = find_place(home);
    for (std::size_t at = 0; dir && dir->is_directory;) {
      std::size_t end = std::min(secret.find('/', at), secret.size());
      std::string next = join_path(dir->path, secret.substr(at, end - at));
      Result<std::optional<struct stat>> there = find_host_link(next);
      if (!there.ok()) return;
      bool is_absent = !there->has_value();
      if (is_absent || end == secret.size()) {
        std::set<std::string>& absent = parents_of_secrets_[dir->path];
        if (is_absent) absent.emplace(secret.substr(at, end - at));
        return;
      }
      dir = find_place(next);
      at = end + 1;
    }
  }

  // The place, and the other paths where mounts show it.
  std::vector<Found> with_aliases(Found found) const {
    std::vector<Found> all{std::move(found)};
    for (Aliases::Alias& alias : aliases_.of(all.front().path))
      all.push_back({std::move(alias.path), alias.is_directory});
    return all;
  }

  // Opening a whole home does not open the secrets in it.
  bool is_guarded(const std::string& opened) const {
    return std::any_of(options_.homes.begin(), options_.homes.end(), [&](const std::string& home) {
      Result<std::string> canonical = canonical_host_path(home);
      return canonical.ok() && is_within(*canonical, opened);
    });
  }

  void add_scratch() {
    for (std::string_view path : kScratch) {
      std::optional<Found> found = find_place(std::string(path));
      if (found && found->is_directory && found->path != "/") add(*std::move(found), Kind::kScratch);
    }
  }

  // /etc/resolv.conf is often a link into /run. Only the file: beside it are sockets that resolve names for anyone.
  void keep_name_service() {
    std::optional<Found> found = find_place("/etc/resolv.conf");
    if (found && !found->is_directory && is_within(found->path, "/run")) add(*std::move(found), Kind::kReadable);
  }

  // Sockets that the command could see and connect to. Those in the base are not the host's.
  void cover_sockets() {
    auto is_out_of_reach = [&](const std::string& path) {
      const Place* around = nearest_around(path);
      return around != nullptr && around->kind != Kind::kReadable;
    };
    for (const std::string& path : find_named_sockets()) {
      if (is_out_of_reach(path)) continue;
      std::optional<Found> found = find_place(path);
      if (!found || found->is_directory) continue;
      for (Found& place : with_aliases(*std::move(found))) {
        if (!is_out_of_reach(place.path)) add(std::move(place), Kind::kHidden);
      }
    }
  }

  // A cover disappears when the host replaces the file it is on. So the directory is rebuilt without the hidden
  // entries, and without secrets that do not exist yet. Not where the agent may write: files it creates there must be
  // the host's.
  void list_parents() {
    std::vector<std::string> parents;
    for (const auto& [path, absent] : parents_of_secrets_) {
      for (const Found& dir : with_aliases({path, true})) {
        const Place* around = nearest_around(dir.path + "/");
        bool is_as_on_host = around == nullptr || around->kind == Kind::kReadable;
        bool is_known = std::find(parents.begin(), parents.end(), dir.path) != parents.end();
        if (dir.path == "/" || !is_as_on_host || is_known) continue;
        parents.push_back(dir.path);
        for (const std::string& name : absent) plan_.absent.push_back(join_path(dir.path, name));
      }
    }
    for (const Place& file : plan_.places) {
      if (file.kind != Kind::kHidden || file.is_directory || is_within(file.path, plan_.base)) continue;
      std::string parent(split_parent(file.path).parent);
      const Place* around = nearest_around(file.path);
      bool is_as_on_host = around == nullptr || around->kind == Kind::kReadable;
      bool is_known = std::find(parents.begin(), parents.end(), parent) != parents.end();
      if (parent != "/" && is_as_on_host && !is_known) parents.push_back(std::move(parent));
    }
    for (std::string& parent : parents) plan_.places.push_back({std::move(parent), Kind::kListed});
  }

  Status place_namespace() {
    if (options_.namespace_id.empty()) return Ok{};
    std::string in_root = join_path(kNamespaceRoot, options_.namespace_id);
    if (!WARREN_TRY(find_host_link(std::string(kNamespaceRoot)))) {
      plan_.namespace_path = std::move(in_root);
      return Ok{};
    }
    const Place* scratch = find("/run");
    if (scratch == nullptr || scratch->kind != Kind::kScratch) {
      return Error(Code::kUnsupported,
                   fmt::format("the namespace has no place: the host has {}, and /run is not private", kNamespaceRoot),
                   "--no-namespace runs the command without it");
    }
    plan_.namespace_path = "/run" + in_root;
    return Ok{};
  }

  const Place* nearest_around(const std::string& path) const {
    const Place* nearest = nullptr;
    for (const Place& place : plan_.places) {
      if (place.path == path || place.kind == Kind::kListed || !is_within(path, place.path)) continue;
      if (nearest == nullptr || place.path.size() > nearest->path.size()) nearest = &place;
    }
    return nearest;
  }

  // If nothing above it is hidden, everything is readable already; and in the base the overlay's view applies.
  void drop_readable_already() {
    auto is_covered = [&](const Place& readable) {
      const Place* nearest = nearest_around(readable.path);
      return nearest != nullptr && (nearest->kind == Kind::kHidden || nearest->kind == Kind::kScratch);
    };
    std::vector<Place> kept;
    for (const Place& place : plan_.places) {
      if (place.kind != Kind::kReadable || is_covered(place)) kept.push_back(place);
    }
    plan_.places = std::move(kept);
  }

  const Place* find(const std::string& path) const {
    auto same =
        std::find_if(plan_.places.begin(), plan_.places.end(), [&](const Place& place) { return place.path == path; });
    return same == plan_.places.end() ? nullptr : &*same;
  }

  void add(Found found, Kind kind) {
    if (find(found.path) != nullptr) return;
    plan_.places.push_back({std::move(found.path), kind, found.is_directory});
  }

  const PlanOptions& options_;
  const Aliases& aliases_;
  Plan plan_;
  std::vector<std::string> guarded_;
  std::vector<std::string> operator_places_;
  std::vector<std::string> opened_;
  std::vector<std::string> linked_sign_ins_;                         // files that links lead to, to be shown
  std::map<std::string, std::set<std::string>> parents_of_secrets_;  // with the names missing in them
};

}  // namespace

std::vector<std::string> Plan::paths_of(Kind kind) const {
  std::vector<std::string> paths;
  for (const Place& place : places) {
    if (place.kind == kind) paths.push_back(place.path);
  }
  return paths;
}

bool Plan::is_in_home(const std::string& path) const {
  return home && is_within(path, home->path) && !is_within(path, base);
}

bool Plan::is_served(const std::string& path) const {
  return is_within(path, base) || (home && is_within(path, home->path));
}

const Plan::Place* Plan::find_allowed_around(const std::string& path) const {
  const Place* nearest = nullptr;
  for (const Place& place : places) {
    if (place.path == path || place.kind == Kind::kListed || !is_within(path, place.path)) continue;
    if (nearest == nullptr || place.path.size() > nearest->path.size()) nearest = &place;
  }
  return nearest != nullptr && nearest->kind == Kind::kAllowed ? nearest : nullptr;
}

std::size_t Plan::filesystems() const { return 1 + (home ? 1U : 0U) + (namespace_path ? 1U : 0U); }

bool Plan::needs_own_root() const { return namespace_path && namespace_path->starts_with(kNamespaceRoot); }

Result<Plan> make_plan(const PlanOptions& options) {
  Aliases aliases = WARREN_TRY(Aliases::read().within("find other names of hidden paths"));
  return Planner(options, aliases).make();
}

bool is_within(const std::string& path, const std::string& dir) {
  if (dir == "/") return true;
  return path == dir || (path.starts_with(dir) && path.size() > dir.size() && path[dir.size()] == '/');
}

}  // namespace warren
