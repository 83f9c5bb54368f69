// An agent to measure, in a scratch directory. Ends the program on any failure.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "bench_util.h"
#include "store/files/sqlite_fs.h"
#include "store/store.h"

namespace bench {

template <class T>
T must(warren::Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.error().message().c_str());
    std::abort();
  }
  if constexpr (!std::is_void_v<T>) return std::move(result).take_value();
}

class Agent {
 public:
  explicit Agent(warren::Durability durability)
      : store_(
            must(warren::Store::open(path(), {.mode = warren::OpenMode::kCreate, .durability = durability}, clock_))) {}

  warren::Store& store() { return *store_; }
  warren::SqliteFs& fs() { return store_->fs(); }
  std::string path() const { return scratch_.file("agent.db"); }
  void close() { store_.reset(); }

  // Runs many calls as one transaction, so that setting up does not take longer than measuring.
  void set_up(const std::function<void(int)>& call, int count) {
    auto unit = must(store_->begin_write());
    for (int i = 0; i < count; ++i) call(i);
    must(unit.commit());
  }

 private:
  Scratch scratch_;
  warren::SystemClock clock_;
  std::unique_ptr<warren::Store> store_;
};

}  // namespace bench
