#include "agents.h"

#include <array>
#include <cerrno>
#include <climits>

#include <dirent.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/random.h>

#include "workers.h"

namespace bench {
namespace {

constexpr std::size_t kLetterBytes = 4096;

std::string agent_path(const std::string& root, std::size_t agent) {
  return fmt::format("{}/agents/{}", root, agent_name(agent));
}

}  // namespace

std::string agent_name(std::size_t number) { return fmt::format("agent{:04}", number); }

void make_agents(const std::string& root, std::size_t count) {
  auto make = [](const std::string& path) { must(::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST, path.c_str()); };
  make(root);
  make(root + "/agents");
  for (std::size_t i = 0; i < count; ++i) {
    for (const char* part : {"", "/outbox", "/outbox/.pending", "/inbox", "/inbox/.done"}) {
      make(agent_path(root, i) + part);
    }
  }
}

std::string write_letter(const Letter& letter, std::size_t recipient, std::size_t body_bytes) {
  std::string text = fmt::format("TO: {}\n\n", agent_name(recipient));
  std::size_t whole = text.size() + body_bytes;
  text += fmt::format("{} {} {}\n", letter.sent_ns, letter.due_ns, letter.number);
  text.resize(std::max(whole, text.size()), '.');
  return text;
}

Letter read_letter(std::string_view content) {
  std::size_t body = content.find("\n\n");
  must(body != content.npos, "a message without a body was delivered");
  std::string text(content.substr(body + 2, 80));
  Letter letter;
  char* end = nullptr;
  letter.sent_ns = std::strtoll(text.c_str(), &end, 10);
  letter.due_ns = std::strtoll(end, &end, 10);
  letter.number = std::strtoull(end, &end, 10);
  must(*end == '\n', "a message that nobody sent was delivered");
  return letter;
}

Outbox::Outbox(const std::string& root, std::size_t agent)
    : pending_(agent_path(root, agent) + "/outbox/.pending", O_RDONLY | O_DIRECTORY),
      outbox_(agent_path(root, agent) + "/outbox", O_RDONLY | O_DIRECTORY) {
  std::uint64_t seed = 0;
  must(::getrandom(&seed, sizeof seed, 0) == sizeof seed, "getrandom");
  random_ = Random(seed);
}

void Outbox::send(const std::string& content, Sync sync) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::string name = fmt::format("{}{:09}-{:016x}.msg", now.tv_sec, now.tv_nsec, random_.next());
  int file = ::openat(pending_.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  must(file >= 0, name.c_str());
  write_all(file, content);
  must(sync == Sync::kNo || ::fsync(file) == 0, "fsync");
  ::close(file);
  must(::renameat(pending_.get(), name.c_str(), outbox_.get(), name.c_str()) == 0, "rename");
  must(sync == Sync::kNo || ::fsync(outbox_.get()) == 0, "fsync");
}

Receiver::Receiver(const std::string& root, std::size_t agents, Seen seen)
    : seen_(std::move(seen)), inotify_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  must(inotify_ >= 0, "inotify");
  for (std::size_t i = 0; i < agents; ++i) {
    std::string path = agent_path(root, i) + "/inbox";
    int watch = ::inotify_add_watch(inotify_, path.c_str(), IN_MOVED_TO);
    must(watch >= 0, "watch an inbox (fs.inotify.max_user_watches?)");
    inboxes_[watch] = {std::make_unique<Fd>(path, O_RDONLY | O_DIRECTORY),
                       std::make_unique<Fd>(path + "/.done", O_RDONLY | O_DIRECTORY)};
  }
}

bool Receiver::take_one(const Inbox& inbox, const char* name, std::int64_t seen_ns) {
  int file = ::openat(inbox.dir->get(), name, O_RDONLY | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return false;  // found by looking, and then once more by its event
  must(file >= 0, name);
  std::array<char, kLetterBytes> content;
  ssize_t got = ::read(file, content.data(), content.size());
  ::close(file);
  must(got > 0, "read a message");
  must(::renameat(inbox.dir->get(), name, inbox.done->get(), name) == 0, "move to .done");
  seen_(read_letter(std::string_view(content.data(), static_cast<std::size_t>(got))), seen_ns);
  return true;
}

// Events were lost: what is there, oldest first.
std::size_t Receiver::look_through() {
  std::size_t taken = 0;
  for (const auto& [watch, inbox] : inboxes_) {
    DIR* stream = ::fdopendir(::openat(inbox.dir->get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    must(stream != nullptr, "read an inbox");
    std::vector<std::string> found;
    while (const dirent* entry = ::readdir(stream)) {
      if (entry->d_name[0] != '.') found.emplace_back(entry->d_name);
    }
    ::closedir(stream);
    std::sort(found.begin(), found.end());
    std::int64_t now = monotonic_ns();
    for (const std::string& name : found) taken += take_one(inbox, name.c_str(), now) ? 1 : 0;
  }
  return taken;
}

std::size_t Receiver::take(int wait_ms) {
  pollfd one{inotify_, POLLIN, 0};
  if (::poll(&one, 1, wait_ms) <= 0) return 0;
  std::int64_t now = monotonic_ns();
  alignas(inotify_event) std::array<char, 16'384> buffer;
  ssize_t got = ::read(inotify_, buffer.data(), buffer.size());
  must(got > 0 || errno == EAGAIN, "read events");
  std::size_t taken = 0;
  for (ssize_t at = 0; at < got;) {
    inotify_event event{};
    std::memcpy(&event, buffer.data() + at, sizeof event);
    if ((event.mask & IN_Q_OVERFLOW) != 0) {
      taken += look_through();
    } else if (auto inbox = inboxes_.find(event.wd); inbox != inboxes_.end() && event.len > 0) {
      taken += take_one(inbox->second, buffer.data() + at + sizeof event, now) ? 1 : 0;
    }
    at += static_cast<ssize_t>(sizeof event + event.len);
  }
  return taken;
}

}  // namespace bench
