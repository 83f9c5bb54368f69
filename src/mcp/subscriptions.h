// Who wants to know when a resource changes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "fs/types.h"
#include "mcp/service.h"
#include "os/threads/worker.h"

namespace warren::mcp {

// A thread looks at the subscribed paths after the agent's journal has grown, by whatever process of ours, and once a
// second; at those in other backends ten times a second. Thread-safe. The service outlives it.
class Subscriptions {
 public:
  using Notice = std::function<void()>;  // called without any lock

  explicit Subscriptions(Service& service) : service_(service) {}
  ~Subscriptions();

  // Changes from now on are reported. kLimit.
  Result<std::uint64_t> add(const std::string& path, Notice notice);
  // Reports that names have come or gone in the agent file, or may have. kLimit.
  Result<std::uint64_t> add_list(Notice notice);
  void remove(std::uint64_t id);  // a notice may still be under way

 private:
  // What is compared; nullopt: the path does not exist.
  using Look = std::optional<Attributes>;
  struct Entry {
    std::string path;
    bool is_in_agent_file = true;
    Look seen;
    Notice notice;
    bool is_list = false;  // of names; it has no path
  };

  Look look_at(const std::string& path) const;
  bool is_in_agent_file(const std::string& path) const;
  Result<std::uint64_t> keep(Entry entry);
  void watch(std::int64_t seen_row);
  bool has_lists();
  // Whether the journal says so after this row, which becomes its last one.
  bool have_names_changed(std::int64_t& seq) const;
  void report_changes(bool has_file_changed);
  void report_lists();

  Service& service_;
  std::mutex mutex_;
  std::map<std::uint64_t, Entry> entries_;  // under mutex_, as what follows
  std::uint64_t last_id_ = 0;
  bool is_watching_ = false;
  Worker worker_;  // last: its job uses the rest
};

}  // namespace warren::mcp
