// Loads a relay, the bare write protocol, or a queue server, and prints what it measured as one line of JSON.
//
//   relay_load agents ROOT COUNT                      makes their directories
//   relay_load fsync DIR                              what syncing costs on this disk
//   relay_load bare DIR WRITERS MESSAGES [RATE]       the specification's write protocol, nobody listening
//   relay_load relay ROOT SENDERS MESSAGES SENDING RECEIVING [RATE | alone]
//   relay_load fill ROOT AGENTS MESSAGES              a backlog, synced once at the end
//   relay_load drain ROOT AGENTS MESSAGES             says "ready", then takes what is delivered
//   relay_load redis|beanstalk PORT CLIENTS MESSAGES  whole cycles, unpipelined
//
// relay: SENDERS processes send MESSAGES in all as agents 0 to SENDING - 1, in turn, to agents 0 to RECEIVING - 1, in
// turn. Without RATE each sends as fast as its own syncs allow; with it, messages are due at random moments (Poisson),
// RATE a second in all, whatever happened to earlier ones; alone, each waits until the one before was seen, and longer
// than the relay takes to have nothing left to do. Every message must be seen exactly once.
#include <atomic>
#include <cmath>
#include <string_view>

#include "agents.h"
#include "rivals.h"
#include "workers.h"

namespace {

using namespace bench;  // NOLINT

constexpr std::size_t kBodyBytes = 256;
constexpr int kStuckSeconds = 120;             // without a message
constexpr std::int64_t kAloneNs = 30'000'000;  // the relay records "delivered" after 20 ms
constexpr std::size_t kSyncs = 300;

// What was seen, each once.
class Tally {
 public:
  explicit Tally(std::size_t messages) : seen_(messages) {}

  void note(const Letter& letter, std::int64_t seen_ns) {
    bool is_right = letter.number < seen_.size() && !seen_[letter.number];
    if (!is_right) {
      fmt::print(stderr, "message {} was delivered twice, or never sent\n", letter.number);
      std::exit(1);
    }
    seen_[letter.number] = true;
    if (count_++ == 0) first_ns_ = seen_ns;
    last_ns_ = seen_ns;
    latency_ns_.push_back(seen_ns - letter.sent_ns);
    late_ns_.push_back(seen_ns - letter.due_ns);
  }

  bool is_complete() const { return count_ == seen_.size(); }
  std::size_t count() const { return count_; }
  std::int64_t first_ns() const { return first_ns_; }
  std::int64_t last_ns() const { return last_ns_; }
  const std::vector<std::int64_t>& latency_ns() const { return latency_ns_; }
  const std::vector<std::int64_t>& late_ns() const { return late_ns_; }

 private:
  std::vector<bool> seen_;
  std::size_t count_ = 0;
  std::int64_t first_ns_ = 0;
  std::int64_t last_ns_ = 0;
  std::vector<std::int64_t> latency_ns_;
  std::vector<std::int64_t> late_ns_;
};

// Takes messages until all are there; `often` is called now and then.
void receive_all(Receiver& receiver, Tally& tally, const std::function<void()>& often) {
  std::int64_t last = monotonic_ns();
  while (!tally.is_complete()) {
    if (receiver.take(100) > 0) last = monotonic_ns();
    often();
    if (monotonic_ns() - last < kStuckSeconds * std::int64_t{1'000'000'000}) continue;
    fmt::print(stderr, "only {} messages came; none for {} s\n", tally.count(), kStuckSeconds);
    std::exit(1);
  }
}

double seconds_of(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

void show_rate(std::size_t messages, std::int64_t took_ns, const std::string& more) {
  fmt::print("{{\"messages\": {}, \"seconds\": {:.3f}, \"rate\": {:.1f}{}}}\n", messages, seconds_of(took_ns),
             static_cast<double>(messages) / seconds_of(took_ns), more);
}

struct Load {
  std::string root;
  std::size_t senders = 1;
  std::size_t messages = 0;
  std::size_t sending = 1;    // agents
  std::size_t receiving = 1;  // agents
  double rate = 0;            // of all senders; 0: as fast as they can
  bool is_alone = false;
};

struct Progress {
  Shared<std::int64_t> sending_ns;  // what each send took
  Shared<std::atomic<std::size_t>> seen;
};

// Sender `me` sends messages me, me + senders, …; its agents are numbered so too.
void send_share(const Load& load, std::size_t me, Gate& gate, Progress& progress) {
  std::vector<std::unique_ptr<Outbox>> outboxes;
  for (std::size_t agent = me; agent < load.sending; agent += load.senders) {
    outboxes.push_back(std::make_unique<Outbox>(load.root, agent));
  }
  Random random(me * 7919 + 17);
  double due = static_cast<double>(gate.pass());
  std::size_t turn = 0;
  for (std::size_t number = me; number < load.messages; number += load.senders, ++turn) {
    if (load.is_alone) {
      while (progress.seen[0].load() < number) ::usleep(1000);
      sleep_until_ns(monotonic_ns() + kAloneNs);
    } else if (load.rate > 0) {
      double part = (static_cast<double>(random.next() >> 11) + 1) * 0x1p-53;
      due += -std::log(part) / load.rate * static_cast<double>(load.senders) * 1e9;
      sleep_until_ns(static_cast<std::int64_t>(due));
    }
    std::int64_t begin = monotonic_ns();
    Letter letter{begin, load.rate > 0 ? static_cast<std::int64_t>(due) : begin, number};
    std::string content = write_letter(letter, number % load.receiving, kBodyBytes);
    outboxes[turn % outboxes.size()]->send(content, Sync::kYes);
    progress.sending_ns[number] = monotonic_ns() - begin;
  }
}

void load_relay(const Load& load) {
  Tally tally(load.messages);
  Receiver receiver(load.root, load.receiving,
                    [&](const Letter& letter, std::int64_t seen_ns) { tally.note(letter, seen_ns); });
  Progress progress{Shared<std::int64_t>(load.messages), Shared<std::atomic<std::size_t>>(1)};
  Workers senders(load.senders, [&](std::size_t me, Gate& gate) { send_share(load, me, gate, progress); });
  std::int64_t begin = senders.start();
  receive_all(receiver, tally, [&] { progress.seen[0].store(tally.count()); });
  senders.wait();
  show_rate(load.messages, tally.last_ns() - begin,
            fmt::format(", {}, {}, {}", percentiles_json("latency_us", tally.latency_ns()),
                        percentiles_json("from_due_us", tally.late_ns()),
                        percentiles_json("send_us", progress.sending_ns.copy(load.messages))));
}

void load_bare(const Load& load) {
  make_agents(load.root, load.sending);
  Progress progress{Shared<std::int64_t>(load.messages), Shared<std::atomic<std::size_t>>(1)};
  Workers workers(load.senders, [&](std::size_t me, Gate& gate) { send_share(load, me, gate, progress); });
  std::int64_t begin = workers.start();
  workers.wait();
  show_rate(load.messages, monotonic_ns() - begin,
            ", " + percentiles_json("send_us", progress.sending_ns.copy(load.messages)));
}

// A new file of one message, written and synced; and a block written in place, as a database's log does.
void measure_fsync(const std::string& dir) {
  std::string content = write_letter({}, 0, kBodyBytes);
  std::vector<std::int64_t> create;
  std::vector<std::int64_t> append;
  Fd log(dir + "/log", O_WRONLY | O_CREAT);
  std::string block(4096, 'b');
  for (std::size_t i = 0; i < kSyncs; ++i) {
    Fd file(fmt::format("{}/{}", dir, i), O_WRONLY | O_CREAT | O_EXCL);
    write_all(file.get(), content);
    std::int64_t begin = monotonic_ns();
    must(::fsync(file.get()) == 0, "fsync");
    create.push_back(monotonic_ns() - begin);
    must(::pwrite(log.get(), block.data(), block.size(), static_cast<off_t>(i % 16) * 4096) == 4096, "write");
    begin = monotonic_ns();
    must(::fdatasync(log.get()) == 0, "fdatasync");
    if (i >= 16) append.push_back(monotonic_ns() - begin);
  }
  fmt::print("{{{}, {}}}\n", percentiles_json("new_file_us", create), percentiles_json("in_place_us", append));
}

void fill(const std::string& root, std::size_t agents, std::size_t messages) {
  constexpr std::size_t kFillers = 2;
  make_agents(root, agents);
  Workers fillers(kFillers, [&](std::size_t me, Gate& gate) {
    std::vector<std::unique_ptr<Outbox>> outboxes;
    for (std::size_t agent = me; agent < agents; agent += kFillers) {
      outboxes.push_back(std::make_unique<Outbox>(root, agent));
    }
    gate.pass();
    std::size_t turn = 0;
    for (std::size_t number = me; number < messages; number += kFillers) {
      std::string content = write_letter({monotonic_ns(), monotonic_ns(), number}, (number * 7) % agents, kBodyBytes);
      outboxes[turn++ % outboxes.size()]->send(content, Sync::kNo);
    }
  });
  std::int64_t begin = fillers.start();
  fillers.wait();
  Fd dir(root, O_RDONLY | O_DIRECTORY);
  must(::syncfs(dir.get()) == 0, "syncfs");
  show_rate(messages, monotonic_ns() - begin, "");
}

// Prints when the first message came and how many there were every tenth of a second, on the monotonic clock.
void drain(const std::string& root, std::size_t agents, std::size_t messages) {
  constexpr std::int64_t kSampleNs = 100'000'000;
  Tally tally(messages);
  Receiver receiver(root, agents, [&](const Letter& letter, std::int64_t seen_ns) { tally.note(letter, seen_ns); });
  fmt::print("ready\n");
  std::fflush(stdout);
  std::string samples;
  std::int64_t next = 0;
  receive_all(receiver, tally, [&] {
    std::int64_t now = monotonic_ns();
    if (tally.count() == 0 || now < next) return;
    next = now + kSampleNs;
    samples += fmt::format("{}[{}, {}]", samples.empty() ? "" : ", ", now, tally.count());
  });
  show_rate(messages, tally.last_ns() - tally.first_ns(),
            fmt::format(", \"first_ns\": {}, \"last_ns\": {}, \"samples\": [{}]", tally.first_ns(), tally.last_ns(),
                        samples));
}

template <typename Cycle>
void load_server(std::uint16_t port, std::size_t clients, std::size_t messages) {
  Shared<std::int64_t> took_ns(messages);
  Workers workers(clients, [&](std::size_t me, Gate& gate) {
    Cycle cycle(port, me);
    std::string body(kBodyBytes, '.');
    gate.pass();
    for (std::size_t number = me; number < messages; number += clients) {
      std::int64_t begin = monotonic_ns();
      cycle.run(body);
      took_ns[number] = monotonic_ns() - begin;
    }
  });
  std::int64_t begin = workers.start();
  workers.wait();
  std::int64_t took = monotonic_ns() - begin;
  show_rate(messages, took, ", " + percentiles_json("cycle_us", took_ns.copy(messages)));
}

std::size_t number_of(const char* text) {
  char* end = nullptr;
  std::size_t number = std::strtoull(text, &end, 10);
  if (end != text && *end == '\0' && number > 0) return number;
  fmt::print(stderr, "relay_load: '{}' is no positive number\n", text);
  std::exit(2);
}

int usage() {
  fmt::print(stderr, "usage: relay_load agents|fsync|bare|relay|fill|drain|redis|beanstalk …: see relay_load.cc\n");
  return 2;
}

}  // namespace

int main(int count, char** words) {
  std::string_view mode = count > 1 ? words[1] : "";
  auto number = [&](int index) { return number_of(words[index]); };
  if (mode == "agents" && count == 4) {
    make_agents(words[2], number(3));
  } else if (mode == "fsync" && count == 3) {
    measure_fsync(words[2]);
  } else if (mode == "bare" && (count == 5 || count == 6)) {
    Load load{words[2], number(3), number(4), number(3), number(3)};
    if (count == 6) load.rate = static_cast<double>(number(5));
    load_bare(load);
  } else if (mode == "relay" && (count == 7 || count == 8)) {
    Load load{words[2], number(3), number(4), number(5), number(6)};
    load.is_alone = count == 8 && std::string_view(words[7]) == "alone";
    if (count == 8 && !load.is_alone) load.rate = static_cast<double>(number(7));
    if (load.sending < load.senders || load.sending > load.messages) return usage();
    load_relay(load);
  } else if (mode == "fill" && count == 5) {
    fill(words[2], number(3), number(4));
  } else if (mode == "drain" && count == 5) {
    drain(words[2], number(3), number(4));
  } else if (mode == "redis" && count == 5) {
    load_server<RedisCycle>(static_cast<std::uint16_t>(number(2)), number(3), number(4));
  } else if (mode == "beanstalk" && count == 5) {
    load_server<BeanstalkCycle>(static_cast<std::uint16_t>(number(2)), number(3), number(4));
  } else {
    return usage();
  }
  return 0;
}
