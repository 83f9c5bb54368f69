// Agents of a relay as the specification has them: they send by writing, syncing and renaming a file, and receive by
// watching their inboxes and moving what comes to inbox/.done.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "files.h"

namespace bench {

std::string agent_name(std::size_t number);

// Makes the directories of agents 0 to count - 1.
void make_agents(const std::string& root, std::size_t count);

// What a message of these benchmarks carries, to be told apart and timed.
struct Letter {
  std::int64_t sent_ns = 0;  // when its sender began to write
  std::int64_t due_ns = 0;   // when its sender wanted to
  std::size_t number = 0;    // of all messages of a run
};

std::string write_letter(const Letter& letter, std::size_t recipient, std::size_t body_bytes);
Letter read_letter(std::string_view content);

enum class Sync { kNo, kYes };

class Outbox {
 public:
  Outbox(const std::string& root, std::size_t agent);

  // The specification's protocol: write to .pending, sync, rename, sync the directory. Sync::kNo leaves out the syncs.
  void send(const std::string& content, Sync sync);

 private:
  Fd pending_;
  Fd outbox_;
  Random random_;
};

// The inboxes of several agents, watched by one thread.
class Receiver {
 public:
  using Seen = std::function<void(const Letter& letter, std::int64_t seen_ns)>;

  Receiver(const std::string& root, std::size_t agents, Seen seen);

  // Takes what comes for up to `wait_ms`. How many messages it took.
  std::size_t take(int wait_ms);

 private:
  struct Inbox {
    std::unique_ptr<Fd> dir;
    std::unique_ptr<Fd> done;
  };
  bool take_one(const Inbox& inbox, const char* name, std::int64_t seen_ns);
  std::size_t look_through();

  Seen seen_;
  int inotify_;
  std::map<int, Inbox> inboxes_;
};

}  // namespace bench
