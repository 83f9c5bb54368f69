#include "agent/copies/create.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <random>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fmt/format.h>

#include "agent/agent.h"
#include "agent/base_note.h"
#include "agent/checkpoints/checkpoints.h"
#include "agent/keys/encrypted_note.h"
#include "agent/locate.h"
#include "agent/namespace_parts.h"
#include "agent/record/audit_note.h"
#include "agent/record/audit_trail.h"
#include "base/path.h"
#include "os/error.h"
#include "os/files/host_files.h"
#include "store/identity.h"
#include "store/overlay/overlay_schema.h"
#include "store/store.h"
#include "store/vacant.h"

namespace warren {
namespace {

Status check_chunk_bytes(std::uint32_t bytes) {
  if (bytes >= limits::kChunkBytesMin && bytes <= limits::kChunkBytesMax) return Ok{};
  return Error(Code::kInvalid, fmt::format("the chunk size cannot be {} bytes", bytes),
               fmt::format("choose a size from {} to {} bytes", limits::kChunkBytesMin, limits::kChunkBytesMax));
}

Result<std::string> check_base(const std::string& base) {
  std::optional<struct stat> there = WARREN_TRY(find_host_file(base));
  if (!there) return Error(Code::kNotFound, fmt::format("the base directory {} does not exist", quote(base)));
  if (!S_ISDIR(there->st_mode)) {
    return Error(Code::kNotDirectory, fmt::format("the base {} is not a directory", quote(base)));
  }
  return canonical_host_path(base);
}

// Creates the agent in a file beside its place.
Status fill_agent(const std::string& draft, const CreatedAgent& agent, const CreateOptions& options,
                  const SharedDatabaseKey& key, Clock& clock) {
  auto store = WARREN_TRY(
      Store::open(draft, {.mode = OpenMode::kCreate, .chunk_bytes = options.chunk_bytes, .key = key}, clock));
  if (agent.base) WARREN_TRY(make_overlay(*store, *agent.base));
  WARREN_TRY(ensure_identity(*store));
  if (options.audit) WARREN_TRY(switch_audit(*store, agent.id, AuditLevel::kOn, "init", clock));
  return store->database().empty_log();  // the log has the draft's name
}

Status note_new_trail(const std::string& path, Clock& clock) {
  auto store = WARREN_TRY(Store::open(path, {.mode = OpenMode::kReadOnly, .find_key = agent_keys(path)}, clock));
  return note_audit_head(store->audit(), path);
}

// Removes the files that belong to an agent file that is about to go: SQLite's, our index and working memory.
Status remove_companions(const std::string& path) {
  WARREN_TRY(remove_working_memory(path));
  for (std::string_view suffix : {"-wal", "-shm"}) {
    WARREN_TRY(remove_host_file(path + std::string(suffix)));
  }
  std::string_view stem(path);
  if (stem.ends_with(".db")) stem.remove_suffix(3);
  WARREN_TRY(remove_host_file(std::string(stem) + ".index.db"));
  return Ok{};
}

void remove_draft(const std::string& draft) {
  remove_base_note(draft).ignore("it is for a file that does not exist");
  // The draft itself last: it is what the next one finds.
  for (const char* suffix : {"-wal", "-shm", "-journal", ""}) {
    remove_host_file(draft + suffix).ignore("the first error is the one to report");
  }
}

// Database::backup_to locks what it is writing. The lock is held meanwhile, so whoever gets it next sees that the file
// has no name any more.
void remove_draft_unless_locked(const std::string& draft) {
  Fd fd(::open(draft.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.is_open() && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return;
  remove_draft(draft);
}

// What Database::backup_to is writing to is locked for as long as it has this name; its journal is not.
bool is_locked_while_in_use(std::string_view name) {
  constexpr std::string_view kMark = ".partial-";
  std::size_t mark = name.rfind(kMark);
  return mark != name.npos && name.size() - mark == kMark.size() + 16;
}

// "a.db.draft-" or "a.db.new-" (which Store begins with) and 16 hexadecimal digits: nobody names a copy like that.
bool is_name_of_draft(std::string_view name, std::string_view file) {
  if (!name.starts_with(file)) return false;
  name.remove_prefix(file.size());
  for (std::string_view kind : {".draft-", ".new-"}) {
    if (!name.starts_with(kind)) continue;
    std::string_view number = name.substr(kind.size(), 16);
    std::string_view rest = name.substr(kind.size() + number.size());  // ".partial-…": a copy to the draft
    return number.size() == 16 && number.find_first_not_of("0123456789abcdef") == number.npos &&
           (rest.empty() || rest.starts_with(".partial-"));
  }
  return false;
}

Status check_closed(const std::string& path) {
  if (!WARREN_TRY(is_open_somewhere(path))) return Ok{};
  return Error(Code::kBusy, fmt::format("{} is open in another process", quote(path)),
               "stop that process, then try again: `warren ps` shows mounts and runs");
}

// Also moves what a killed process left in the log to the file.
Status check_not_open(const std::string& path, Clock& clock) {
  bool lacks_key = false;
  KeyFinder find_key = [&, find = agent_keys(path)](std::string_view salt) -> Result<SharedDatabaseKey> {
    Result<SharedDatabaseKey> key = find(salt);
    lacks_key = !key.ok();
    return key;
  };
  Result<std::unique_ptr<Store>> store = Store::open(path, {.find_key = find_key}, clock);
  // One that is too damaged to open, or whose key is lost, may be replaced: that is what a backup is for.
  bool is_unreadable = !store.ok() && (store.error().code() == Code::kCorrupt || lacks_key);
  if (!store.ok() && !is_unreadable) return std::move(store).take_error();
  if (store.ok()) std::move(store).take_value().reset();
  return check_closed(path);
}

Error faulty_backup(const std::string& file, const CopyFaults& faults) {
  std::string repair = fmt::format("`warren fsck {} --repair` repairs it; ", file);
  return {Code::kCorrupt, fmt::format("{} has {}", quote(file), faults.text()),
          fmt::format("{}--unchecked takes it as it is, if all its pages can be read",
                      faults.are_repairable ? repair : "")};
}

Status move_into_place(const std::string& draft, const std::string& path, Replace replace) {
  if (replace == Replace::kYes) WARREN_TRY(remove_companions(path));
  unsigned flags = replace == Replace::kYes ? 0U : static_cast<unsigned>(RENAME_NOREPLACE);
  if (::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, path.c_str(), flags) != 0) {
    return system_error(errno, fmt::format("rename {} to {}", quote(draft), quote(path)));
  }
  return sync_host_dir(std::string(directory_of(path)))
      .within(fmt::format("{} is in place, but may not survive a power failure", quote(path)));
}

// Whoever could read the agent can read it afterwards, and nobody else.
Status give_owner_and_mode(const std::string& from, const std::string& to) {
  std::optional<struct stat> there = WARREN_TRY(find_host_file(from));
  if (!there) return Error(Code::kNotFound, fmt::format("{} was removed meanwhile", quote(from)));
  bool is_other = there->st_uid != ::geteuid() || there->st_gid != ::getegid();
  if (is_other && ::chown(to.c_str(), there->st_uid, there->st_gid) != 0) {
    return system_error(errno, fmt::format("give {} the owner of {}", quote(to), quote(from)));
  }
  if (::chmod(to.c_str(), there->st_mode & 07777) == 0) return Ok{};
  return system_error(errno, fmt::format("give {} the mode of {}", quote(to), quote(from)));
}

// For --force: an agent of another schema or without its key, or no agent at all, may be replaced too.
Status check_replaceable(const std::string& path, Clock& clock) {
  Status checked = check_not_open(path, clock);
  if (checked.ok()) return Ok{};
  Code why = checked.error().code();
  if (why == Code::kBusy || why == Code::kConflict) return checked;
  return check_closed(path);  // one whose key is missing here may be mounted with it
}

}  // namespace

// Each process that has the database open holds a shared lock on this byte of its -shm file. A -wal file
// alone may also be left by a process that was killed.
Result<bool> is_open_somewhere(const std::string& path) {
  constexpr off_t kSharedByte = 128;  // WAL_DMS of SQLite
  std::string index = path + "-shm";
  Fd fd(::open(index.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.is_open() && errno == ENOENT) return false;
  if (!fd.is_open()) return system_error(errno, fmt::format("open {}", quote(index)));
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = kSharedByte;
  range.l_len = 1;
  if (::fcntl(fd.get(), F_OFD_GETLK, &range) != 0) return system_error(errno, fmt::format("lock {}", quote(index)));
  return range.l_type != F_UNLCK;
}

Status remove_working_memory(const std::string& agent_path) {
  if (!WARREN_TRY(find_host_file(agent_path))) return Ok{};
  Result<std::string> file = working_file(agent_path);
  if (!file.ok()) return Ok{};  // without a folder for it there is none
  if (!WARREN_TRY(find_host_link(*file))) return Ok{};
  if (WARREN_TRY(is_open_somewhere(*file))) {
    return Error(Code::kBusy,
                 fmt::format("the working memory of {} is open in another process", quote(agent_id_of(agent_path))),
                 "stop that process, then try again: `warren ps` shows mounts and runs");
  }
  for (const char* suffix : {"", "-wal", "-shm"}) WARREN_TRY(remove_host_file(*file + suffix));
  return Ok{};
}

std::string name_of_draft(const std::string& path) {
  std::random_device random;
  return fmt::format("{}.draft-{:08x}{:08x}", path, random(), random());
}

namespace {

// Those that were last written to before `before`, if it is given, and those that would be locked if they were in use.
void sweep_drafts(const std::string& path, std::optional<std::int64_t> before) {
  std::string folder(directory_of(path));
  Result<Fd> dir = open_host_dir(folder);
  if (!dir.ok()) return;
  Result<std::vector<HostEntry>> entries = list_host_dir(dir->get());
  if (!entries.ok()) return;
  for (const HostEntry& entry : *entries) {
    if (!is_name_of_draft(entry.name, base_name(path)) || !S_ISREG(entry.attributes.st_mode)) continue;
    bool is_young = before && entry.attributes.st_mtime > *before;
    if (is_young && !is_locked_while_in_use(entry.name)) continue;
    std::string draft = join_path(folder, entry.name);
    Result<bool> is_open = is_open_somewhere(draft);
    if (is_open.ok() && !*is_open) remove_draft_unless_locked(draft);
  }
}

}  // namespace

void remove_old_drafts(const std::string& path, Clock& clock) {
  constexpr std::int64_t kDraftSeconds = 60;  // one in use was written to lately, or is open
  sweep_drafts(path, clock.now().seconds - kDraftSeconds);
}

void remove_drafts(const std::string& path) { sweep_drafts(path, std::nullopt); }

Status check_new_agent_id(std::string_view id) {
  WARREN_TRY(check_agent_id(id));
  if (!id.starts_with('-')) return Ok{};
  return Error(Code::kInvalid, fmt::format("{} is not a valid agent id", quote(id)),
               "begin it with a letter, a digit or '_': commands take '-' for an option");
}

Result<CreatedAgent> create_agent(const CreateOptions& options, Clock& clock) {
  CreatedAgent agent;
  agent.id = options.id ? *options.id : fmt::format("agent-{}", clock.now().seconds);
  WARREN_TRY(check_new_agent_id(agent.id));
  WARREN_TRY(check_chunk_bytes(options.chunk_bytes));
  if (options.base) agent.base = WARREN_TRY(check_base(*options.base));
  agent.path = path_of_agent(agent.id);
  if (WARREN_TRY(find_host_link(agent.path))) {
    if (options.replace == Replace::kNo) {
      return Error(Code::kExists, fmt::format("agent {} already exists at {}", quote(agent.id), quote(agent.path)),
                   "--force replaces it and deletes everything in it");
    }
    WARREN_TRY(check_replaceable(agent.path, clock));
  } else {
    WARREN_TRY(check_vacant(agent.path));
  }
  WARREN_TRY(make_host_dirs(std::string(kAgentsDir), 0755));
  remove_old_drafts(agent.path, clock);
  std::string draft = name_of_draft(agent.path);
  std::optional<NewFileKey> key;
  if (options.encryption) key = WARREN_TRY(make_file_key(options.encryption->key, agent.path));
  Status filled = fill_agent(draft, agent, options, key ? key->key : nullptr, clock);
  if (filled.ok() && agent.base)
    put_base_note(draft, *agent.base, NoteFor::kNewAgent).ignore("without it, the first apply asks");
  if (filled.ok()) filled = move_into_place(draft, agent.path, options.replace);
  if (!filled.ok()) {
    remove_draft(draft);
    if (key) remove_key_note(*key);
    return std::move(filled).take_error();
  }
  if (key) agent.key_note = key->note;
  forget_audit_notes(agent.path).ignore("verify then says that another file was here");
  note_encrypted(agent.path, key ? key->key.get() : nullptr).ignore("the next opening says so, and what to do");
  if (options.audit) note_new_trail(agent.path, clock).ignore("the next process that records something notes it");
  return agent;
}

namespace {

// Of a draft that nobody else knows.
Status go_back_to(const std::string& draft, const std::string& checkpoint, Clock& clock) {
  auto agent = WARREN_TRY(Agent::open({.id_or_path = draft, .layers = Layers::kOwn}, clock));
  Checkpoint wanted = WARREN_TRY(get_checkpoint(*agent, checkpoint));
  WARREN_TRY(History(agent->store()).restore(wanted.id));  // the fork is what goes on record, under its own name
  WARREN_TRY(encrypt_restored(*agent));
  note_encrypted(draft, nullptr).ignore("nobody opens it under this name again");
  return agent->store().database().empty_log();  // the log has the draft's name
}

}  // namespace

Status copy_agent(Agent& source, const std::string& path, const FinishCopy& finish, Clock& clock) {
  remove_old_drafts(path, clock);
  std::string draft = name_of_draft(path);
  std::optional<BaseNote> note = WARREN_TRY(find_base_note(source.path()));
  Status done = source.backup_to(draft);
  if (done.ok() && note && note->base == source.base()) done = put_base_note(draft, *note);
  if (done.ok()) done = finish(draft);
  if (done.ok()) done = move_into_place(draft, path, Replace::kNo);
  if (!done.ok()) {
    remove_draft(draft);
    return done;
  }
  forget_audit_notes(path).ignore("verify then says that another file was here");
  note_encrypted(path, nullptr).ignore("the next opening says so, and what to do");
  return Ok{};
}

Result<CreatedAgent> fork_agent(const ForkOptions& options, Clock& clock) {
  WARREN_TRY(check_new_agent_id(options.id));
  CreatedAgent fork{.id = options.id, .path = path_of_agent(options.id), .base = {}, .key_note = {}};
  AgentOptions how{.id_or_path = options.id_or_path, .mode = OpenMode::kReadOnly, .layers = Layers::kOwn};
  how.caller = {.agent = {}, .space = Space::kKernel, .door = "fork", .session = {}};
  how.may_record = true;
  auto source = WARREN_TRY(Agent::open(how, clock));
  if (source->path() == kMemoryAgent) return Error(Code::kInvalid, "an agent in memory cannot be forked");
  if (options.checkpoint) WARREN_TRY(get_checkpoint(*source, *options.checkpoint));
  if (WARREN_TRY(find_host_link(fork.path))) {
    return Error(Code::kExists, fmt::format("agent {} already exists at {}", quote(fork.id), quote(fork.path)),
                 "choose another id");
  }
  WARREN_TRY(check_vacant(fork.path));
  WARREN_TRY(record_reading(*source, "fork", {}, fork.path));
  fork.base = source->base();
  WARREN_TRY(make_host_dirs(std::string(kAgentsDir), 0755));
  WARREN_TRY(copy_agent(
      *source, fork.path,
      [&](const std::string& draft) {
        return options.checkpoint ? go_back_to(draft, *options.checkpoint, clock) : Status(Ok{});
      },
      clock));
  return fork;
}

Result<RestorePlace> find_restore_place(const std::string& id_or_path, Replace replace, Clock& clock) {
  Result<std::string> there = locate_agent(id_or_path);
  bool is_unclear = !there.ok() && (!is_agent_id(id_or_path) || there.error().code() == Code::kConflict);
  if (is_unclear) return std::move(there).take_error();
  RestorePlace place{.path = there.ok() ? *there : path_of_agent(id_or_path), .exists = there.ok()};
  if (place.path == kMemoryAgent) return Error(Code::kInvalid, "cannot restore into an agent in memory");
  if (!place.exists) {
    WARREN_TRY(check_new_agent_id(id_or_path));
    WARREN_TRY(check_vacant(place.path));
    WARREN_TRY(make_host_dirs(std::string(kAgentsDir), 0755));
    return place;
  }
  if (replace == Replace::kNo) {
    return Error(Code::kExists, fmt::format("agent {} already exists at {}", quote(id_or_path), quote(place.path)),
                 "--force replaces it and deletes its current content");
  }
  WARREN_TRY(check_not_open(place.path, clock));
  return place;
}

Result<RestoredAgent> restore_agent(const RestoreOptions& options, Clock& clock) {
  const std::string& file = options.file;
  std::optional<struct stat> there = WARREN_TRY(find_host_file(file));
  if (!there) return Error(Code::kNotFound, fmt::format("backup file {} does not exist", quote(file)));
  CopyFaults faults = WARREN_TRY(find_copy_faults(file, agent_keys(file), clock));
  if (faults.count > 0 && options.faulty == FaultyCopy::kRefuse) return faulty_backup(file, faults);
  std::string path = WARREN_TRY(make_agent_from(options.id_or_path, file, options.replace, clock));
  return RestoredAgent{.path = std::move(path), .faults = std::move(faults)};
}

Result<std::string> make_agent_from(const std::string& id_or_path, const std::string& file, Replace replace,
                                    Clock& clock) {
  RestorePlace place = WARREN_TRY(find_restore_place(id_or_path, replace, clock));
  const std::string& path = place.path;
  auto backup = WARREN_TRY(Store::open(file, {.mode = OpenMode::kReadOnly, .find_key = agent_keys(file)}, clock));
  // What the user agreed to, and what was hidden, is about the agent and not about one file.
  std::optional<BaseNote> note;
  if (place.exists) note = WARREN_TRY(find_base_note(path));
  std::optional<std::string> base = WARREN_TRY(find_overlay_base(*backup));
  if (place.exists) WARREN_TRY(check_replaceable_by(*backup, path));
  remove_old_drafts(path, clock);
  std::string draft = name_of_draft(path);
  Status done = backup->backup_to(draft);
  if (done.ok() && place.exists) done = give_owner_and_mode(path, draft);
  if (done.ok() && note && note->base == base) done = put_base_note(draft, *note);
  if (done.ok()) done = move_into_place(draft, path, replace);
  if (!done.ok()) {
    remove_draft(draft);
    return std::move(done).take_error();
  }
  note_encrypted(path, nullptr).ignore("the next opening says so, and what to do");
  return path;
}

namespace {

// What cannot be read as an agent (damaged, or encrypted without its key here) is taken for one only at the place of
// agents: a path may be mistyped.
Status check_is_agent(const std::string& path, Clock& clock) {
  std::optional<struct stat> there = WARREN_TRY(find_host_link(path));
  if (there && S_ISLNK(there->st_mode)) {
    return Error(Code::kInvalid, fmt::format("{} is a symbolic link, not an agent file", quote(path)),
                 "name the file that it leads to");
  }
  std::string folder(directory_of(path));
  bool is_at_place = path.ends_with(".db") && base_name(folder) == kAgentsDir;
  if (is_at_place) return Ok{};
  Result<std::unique_ptr<Store>> store =
      Store::open(path, {.mode = OpenMode::kReadOnly, .find_key = agent_keys(path)}, clock);
  if (store.ok()) return Ok{};
  return std::move(store).take_error().with_hint(
      fmt::format("outside of a folder {} only readable agent files are deleted; `rm` deletes any file", kAgentsDir));
}

}  // namespace

Status delete_agent(const std::string& path, Clock& clock) {
  if (path == kMemoryAgent) return Error(Code::kInvalid, "an agent in memory cannot be deleted");
  WARREN_TRY(check_is_agent(path, clock));
  WARREN_TRY(check_replaceable(path, clock));
  WARREN_TRY(remove_companions(path));  // first: working memory may be in use, and then all stays
  remove_base_note(path).ignore("a note without its file has no effect");
  WARREN_TRY(remove_host_file(path));
  remove_drafts(path);
  forget_audit_notes(path).ignore("verify then says that another file was here");
  note_encrypted(path, nullptr).ignore("the next opening says so, and what to do");
  return sync_host_dir(std::string(directory_of(path)));
}

Status remove_search_index(std::string path) {
  constexpr std::string_view kAgentEnding = ".db";
  if (path.ends_with(kAgentEnding)) path.resize(path.size() - kAgentEnding.size());
  for (const char* ending : {".index.db", ".index.db-wal", ".index.db-shm"})
    WARREN_TRY(remove_host_file(path + ending));
  return Ok{};
}

namespace {

// What is not an agent, or an older one, is left alone; what a killed process left is finished.
Status check_rekeyable(const std::string& path, const KeyFinder& find_key, NewKey change, Clock& clock) {
  auto store = WARREN_TRY(Store::open(path, {.find_key = find_key}, clock));
  bool is_encrypted = store->database().key() != nullptr;
  std::string who = quote(agent_id_of(path));
  if (change == NewKey::kFirst && is_encrypted) {
    return Error(Code::kExists, fmt::format("agent {} is encrypted already", who), "`warren rekey` changes its key");
  }
  if (change == NewKey::kFirst || is_encrypted) return Ok{};
  return Error(Code::kInvalid, fmt::format("agent {} is not encrypted", who), "`warren encrypt` encrypts it");
}

enum class Written { kNo, kYes };

// Tidies up after an error. If the written draft is gone, it has become the agent: then its key stays, and is named.
Error undo_rekeying(const std::string& draft, Written written, const std::optional<NewFileKey>& key,
                    const std::function<void(Written)>& note_result, Error why) {
  Result<std::optional<struct stat>> left = find_host_link(draft);
  bool is_in_place = written == Written::kYes && (!left.ok() || !*left);
  remove_draft(draft);
  note_result(is_in_place ? Written::kYes : Written::kNo);
  if (key && is_in_place) return std::move(why).with_hint(fmt::format("the new key is noted in {}", quote(key->note)));
  if (key) remove_key_note(*key);
  return why;
}

}  // namespace

Result<RekeyedAgent> rekey_agent(const RekeyOptions& options, Clock& clock) {
  std::string path = WARREN_TRY(locate_agent(options.id_or_path));
  if (path == kMemoryAgent) return Error(Code::kInvalid, "an agent in memory has no key");
  KeyFinder find_key = agent_keys(path);
  WARREN_TRY(check_rekeyable(path, find_key, options.change, clock));
  auto database = WARREN_TRY(
      Database::open(path, {.mode = OpenMode::kReadWrite, .find_key = find_key, .conversion = Conversion::kPossible}));
  WARREN_TRY(database->hold_alone());
  WARREN_TRY(database->leave_no_journal());
  std::optional<BaseNote> note = WARREN_TRY(find_base_note(path));
  remove_drafts(path);
  std::string draft = name_of_draft(path);
  std::optional<NewFileKey> key;
  if (options.change != NewKey::kNone) key = WARREN_TRY(make_file_key(options.source, path));
  Status done = options.change == NewKey::kAnother ? database->backup_to(draft, CopyOf::kSound, key->key)
                                                   : database->write_anew(draft, key ? key->key : nullptr);
  Written written = done.ok() ? Written::kYes : Written::kNo;
  if (done.ok()) done = give_owner_and_mode(path, draft);
  if (done.ok() && note) done = put_base_note(draft, *note);
  const DatabaseKey* before = database->key().get();
  const DatabaseKey* after = key ? key->key.get() : nullptr;
  if (done.ok()) note_key_change(path, before, after).ignore("whoever opens it at this moment is told, and what to do");
  if (done.ok()) done = move_into_place(draft, path, Replace::kYes);
  if (done.ok()) {
    database->outwait_others();
    done = remove_search_index(path);
  }
  auto note_result = [&](Written result) {
    note_encrypted(path, result == Written::kYes ? after : before).ignore("the next opening says so, and what to do");
  };
  if (!done.ok()) return undo_rekeying(draft, written, key, note_result, std::move(done).take_error());
  note_result(Written::kYes);
  return RekeyedAgent{.path = path, .key_note = key ? std::optional(key->note) : std::nullopt};
}

Status compact_agent(const std::string& path) {
  auto database = WARREN_TRY(Database::open(
      path, {.mode = OpenMode::kReadWrite, .find_key = agent_keys(path), .conversion = Conversion::kPossible}));
  if (database->key()) return Ok{};
  WARREN_TRY(database->hold_alone());
  WARREN_TRY(database->leave_no_journal());
  std::optional<BaseNote> note = WARREN_TRY(find_base_note(path));
  remove_drafts(path);
  std::string draft = name_of_draft(path);
  Status done = database->write_anew(draft, nullptr);
  if (done.ok()) done = give_owner_and_mode(path, draft);
  if (done.ok() && note) done = put_base_note(draft, *note);
  if (done.ok()) done = move_into_place(draft, path, Replace::kYes);
  if (done.ok()) database->outwait_others();
  else remove_draft(draft);
  return done;
}

}  // namespace warren
