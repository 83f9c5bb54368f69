// Agents (or Lead) that have become active, and whose stored or held deliveries go before new ones.
#pragma once

#include <set>
#include <string>
#include <utility>

namespace warren::relay {

class WaitingRecipients {
 public:
  void add(std::string name) { names_.insert(std::move(name)); }
  void add_all(std::set<std::string> names) { names_.merge(names); }
  void remove(const std::string& name) { names_.erase(name); }
  bool contains(const std::string& name) const { return names_.contains(name); }
  const std::set<std::string>& names() const { return names_; }

  // One of its deliveries needs an attachment that is being hashed or fetched.
  void pause(const std::string& name) { paused_.insert(name); }
  bool is_paused(const std::string& name) const { return paused_.contains(name); }
  void resume_all() { paused_.clear(); }
  bool has_work() const { return names_.size() > paused_.size(); }

 private:
  std::set<std::string> names_;
  std::set<std::string> paused_;  // of these
};

}  // namespace warren::relay
