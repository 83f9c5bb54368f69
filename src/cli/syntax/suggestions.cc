#include "cli/syntax/suggestions.h"

#include <algorithm>

#include <fcntl.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/checkpoints/checkpoints.h"
#include "agent/locate.h"
#include "agent/sessions.h"
#include "base/below.h"
#include "base/path.h"
#include "base/printable.h"
#include "changes/filter.h"
#include "changes/upper/open_overlay.h"
#include "cli/changes/session_here.h"
#include "cli/relay/relay_commands.h"
#include "fs/path_ops.h"
#include "os/files/host_files.h"

namespace warren::cli {
namespace {

constexpr std::size_t kOffersMax = 1000;
constexpr std::size_t kOfferedNamesRead = 20'000;  // of a directory

// Ids and names that a shell takes as they are. An id that begins with a dash would be read as an option.
bool is_plain_id(std::string_view id) { return is_agent_id(id) && !id.starts_with('-'); }

// Shells quote the rest. A line end or a control character would break the answer to them, or the terminal's line; a
// word that begins with a dash would be read as an option.
bool can_be_offered(std::string_view word) {
  return !word.empty() && !word.starts_with('-') && printable(word) == word;
}

void offer_word(Completion& completion, std::string_view current, const std::string& word) {
  if (completion.offers.size() >= kOffersMax || !word.starts_with(current) || !can_be_offered(word)) return;
  completion.offers.push_back({completion.prefix + word, ""});
}

std::vector<std::string> ids_of(Suggest suggest) {
  std::vector<std::string> ids;
  Result<std::vector<std::string>> agents = list_agents();
  if (suggest == Suggest::kAgents && agents.ok()) ids = *std::move(agents);
  Result<std::vector<std::string>> sessions = list_session_ids();
  if (sessions.ok()) ids.insert(ids.end(), sessions->begin(), sessions->end());
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  return ids;
}

void offer_ids(Completion& completion, std::string_view current) {
  bool is_session = current.starts_with(kSessionPrefix);
  for (const std::string& id : ids_of(is_session ? Suggest::kSessions : completion.suggest)) {
    if (!is_plain_id(id)) continue;
    completion.offers.push_back({completion.prefix + (is_session ? std::string(kSessionPrefix) + id : id), ""});
  }
}

// The agent of the command line, if it may be looked into here.
std::optional<std::string> suggested_id(const Completion& completion) {
  std::optional<std::string> id = completion.arguments.find("ID");
  if (!id) id = find_session_here();
  if (!id || *id == kMemoryAgent) return std::nullopt;
  Result<std::string> path = locate_agent(*id);
  return path.ok() && is_plain_database(*path) ? id : std::nullopt;
}

// Null if there is none, or looking would be recorded.
std::unique_ptr<Agent> open_suggested(Context& context, const Completion& completion, Layers layers) {
  std::optional<std::string> id = suggested_id(completion);
  if (!id) return nullptr;
  Result<std::unique_ptr<Agent>> agent =
      Agent::open({.id_or_path = *id, .mode = OpenMode::kReadOnly, .layers = layers}, context.clock);
  if (!agent.ok() || (*agent)->audit_level() == AuditLevel::kReads) return nullptr;
  return std::move(*agent);
}

// The names of one directory that begin with `begun`; directories have a '/' at the end.
Result<std::vector<std::string>> names_in(FileSystem& fs, std::string_view dir, std::string_view begun) {
  Attributes node = WARREN_TRY(stat(fs, dir));
  auto stream = WARREN_TRY(fs.open_dir(node.inode));
  std::vector<std::string> names;
  std::size_t read = 0;
  for (std::uint64_t cookie = 0; read < kOfferedNamesRead;) {
    std::vector<DirEntry> page = WARREN_TRY(stream->read(cookie, limits::kDirPage, DirDetail::kTypes));
    if (page.empty()) break;
    read += page.size();
    cookie = page.back().cookie;
    for (const DirEntry& entry : page) {
      bool is_shown = entry.name.starts_with(begun) && (!entry.name.starts_with('.') || begun.starts_with('.'));
      if (is_shown) names.push_back(entry.name + (S_ISDIR(entry.type) ? "/" : ""));
    }
  }
  std::ranges::sort(names);
  return names;
}

// Offers what is in `dir` of the agent, for a word that begins with `shown`, its directory as it is typed.
void offer_names(Completion& completion, FileSystem& fs, std::string_view current, const std::string& dir,
                 const std::string& shown) {
  std::size_t slash = current.rfind('/');
  Result<std::vector<std::string>> names =
      names_in(fs, dir, slash == current.npos ? current : current.substr(slash + 1));
  if (!names.ok()) return;
  for (const std::string& name : *names) offer_word(completion, current, shown + name);
}

std::string typed_directory(std::string_view current) {
  std::size_t slash = current.rfind('/');
  return std::string(slash == current.npos ? "" : current.substr(0, slash + 1));
}

void offer_paths(Context& context, Completion& completion, std::string_view current) {
  auto agent = open_suggested(context, completion, Layers::kMerged);
  if (agent == nullptr) return;
  std::string dir = typed_directory(current);
  offer_names(completion, agent->fs(), current, "/" + dir, current.empty() ? "/" : dir);
}

// As the commands about changes read them: changes/filter.h.
void offer_base_paths(Context& context, Completion& completion, std::string_view current) {
  std::optional<std::string> id = suggested_id(completion);
  if (!id) return;
  Result<OverlayAgent> opened = open_overlay(*id, OpenMode::kReadOnly, context.clock);
  if (!opened.ok() || opened->agent->audit_level() == AuditLevel::kReads) return;
  const std::string& base = opened->overlay.base_path;
  Result<std::string> here = canonical_host_path(".");
  if (!here.ok()) return;
  std::string dir = typed_directory(current);
  bool is_inside = base != "/" && is_at_or_below(*here, base);
  bool is_absolute = current.starts_with('/') || !is_inside;
  Result<std::vector<std::string>> resolved = resolve_patterns({dir.empty() ? "." : dir}, base, *here);
  if (!resolved.ok()) return;
  std::string shown = current.empty() && is_absolute ? "/" : dir;
  offer_names(completion, opened->agent->fs(), current, "/" + resolved->front(), shown);
}

void offer_keys(Context& context, Completion& completion, std::string_view current) {
  auto agent = open_suggested(context, completion, Layers::kOwn);
  if (agent == nullptr) return;
  Result<std::vector<KvEntry>> keys = agent->kv().list({.prefix = std::string(current), .limit = kOffersMax});
  if (!keys.ok()) return;
  for (const KvEntry& entry : *keys) offer_word(completion, current, entry.key);
}

void offer_checkpoints(Context& context, Completion& completion, std::string_view current) {
  auto agent = open_suggested(context, completion, Layers::kOwn);
  if (agent == nullptr) return;
  Result<std::vector<Checkpoint>> all = list_checkpoints(*agent);
  if (!all.ok()) return;
  std::vector<std::string> words;
  for (const Checkpoint& one : *all) {
    words.push_back(one.name);
    words.push_back(std::to_string(one.id));
  }
  std::ranges::sort(words);
  words.erase(std::ranges::unique(words).begin(), words.end());
  for (const std::string& word : words) offer_word(completion, current, word);
}

std::unique_ptr<relay::Root> open_suggested_relay(const Completion& completion) {
  Result<std::unique_ptr<relay::Root>> root = open_agent_root(completion.arguments);
  return root.ok() ? std::move(*root) : nullptr;
}

// Only from a ledger on this machine: pressing TAB does not wait for another one.
void offer_relay_channels(Context& context, Completion& completion, std::string_view current) {
  auto root = open_suggested_relay(completion);
  if (root == nullptr) return;
  Result<std::optional<struct stat>> file = find_host_file(root->ledger_path());
  if (!file.ok() || !*file) return;
  Result<std::unique_ptr<relay::Ledger>> ledger = open_relay_ledger(context, *root, relay::LedgerUse::kRead);
  if (!ledger.ok()) return;
  auto channels = (*ledger)->list_subscriptions();
  if (!channels.ok()) return;
  for (const auto& [channel, members] : *channels) {
    std::string name = channel.starts_with('#') ? channel.substr(1) : channel;
    offer_word(completion, current, current.starts_with('#') ? "#" + name : name);
  }
}

// Messages go to agents and to channels, whose names begin with a '#' there.
void offer_relay_agents(Context& context, Completion& completion, std::string_view current) {
  if (current.starts_with('#')) return offer_relay_channels(context, completion, current);
  auto root = open_suggested_relay(completion);
  if (root == nullptr) return;
  Result<std::vector<std::string>> names = root->list_agents();
  if (!names.ok()) return;
  for (const std::string& name : *names) offer_word(completion, current, name);
}

}  // namespace

void add_suggestions(Context& context, Completion& completion, std::string_view current) {
  if (current.starts_with(completion.prefix)) current.remove_prefix(completion.prefix.size());
  switch (completion.suggest) {
    case Suggest::kAgents:
    case Suggest::kSessions: return offer_ids(completion, current);
    case Suggest::kPaths: return offer_paths(context, completion, current);
    case Suggest::kBasePaths: return offer_base_paths(context, completion, current);
    case Suggest::kKeys: return offer_keys(context, completion, current);
    case Suggest::kCheckpoints: return offer_checkpoints(context, completion, current);
    case Suggest::kRelayAgents: return offer_relay_agents(context, completion, current);
    case Suggest::kRelayChannels: return offer_relay_channels(context, completion, current);
    case Suggest::kHostFiles:
    case Suggest::kHostDirs:
    case Suggest::kNothing: return;
  }
}

}  // namespace warren::cli
