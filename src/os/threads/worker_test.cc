#include "os/threads/worker.h"

#include <future>
#include <memory>
#include <set>

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "testing/matchers.h"

namespace warren {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using ::warren::testing::error_of;

// Makes every new thread want a stack larger than the address space.
class NoThreads {
 public:
  NoThreads() {
    EXPECT_EQ(::pthread_getattr_default_np(&usual_), 0);
    pthread_attr_t huge;
    EXPECT_EQ(::pthread_getattr_default_np(&huge), 0);
    EXPECT_EQ(::pthread_attr_setstacksize(&huge, std::size_t{1} << 60), 0);
    EXPECT_EQ(::pthread_setattr_default_np(&huge), 0);
    ::pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    EXPECT_EQ(::pthread_setattr_default_np(&usual_), 0);
    ::pthread_attr_destroy(&usual_);
  }

 private:
  pthread_attr_t usual_{};
};

// Waits until every job submitted so far is over, in a worker of one thread.
void finish_jobs(Worker& worker) {
  std::promise<void> over;
  ASSERT_OK(worker.submit([&] { over.set_value(); }));
  over.get_future().wait();
}

TEST(Worker, RunsJobsInOrderInOneThreadOfItsOwn) {
  Worker worker;
  std::vector<int> order;
  std::set<std::thread::id> threads;
  for (int i = 0; i < 100; ++i) {
    ASSERT_OK(worker.submit([&, i] {
      order.push_back(i);
      threads.insert(std::this_thread::get_id());
    }));
  }
  finish_jobs(worker);
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
  EXPECT_EQ(threads.size(), 1U);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST(Worker, AJobWithADelayLetsOthersPass) {
  Worker worker;
  std::promise<void> late;
  std::vector<std::string> order;
  ASSERT_OK(worker.submit([&] { ADD_FAILURE() << "due in an hour"; }, hours(1)));
  ASSERT_OK(worker.submit(
      [&] {
        order.emplace_back("late");
        late.set_value();
      },
      milliseconds(50)));
  ASSERT_OK(worker.submit([&] { order.emplace_back("soon"); }));
  late.get_future().wait();
  EXPECT_EQ(order, (std::vector<std::string>{"soon", "late"}));
}

TEST(Worker, AJobMaySubmitItselfAgain) {
  Worker worker;
  std::promise<void> over;
  int runs = 0;
  std::function<void()> again = [&] {
    if (++runs == 3) over.set_value();
    else EXPECT_OK(worker.submit(again, milliseconds(1)));
  };
  ASSERT_OK(worker.submit(again));
  over.get_future().wait();
  EXPECT_EQ(runs, 3);
}

TEST(Worker, StoppingDropsWhatHasNotStartedAndWaitsForTheRest) {
  auto held = std::make_shared<int>(0);
  std::promise<void> begun;
  bool has_seen_it = false;
  Worker worker;
  ASSERT_OK(worker.submit([&] {
    begun.set_value();
    while (!worker.is_stopping()) std::this_thread::yield();
    has_seen_it = true;
    EXPECT_OK(worker.submit([] { ADD_FAILURE() << "submitted while stopping"; }));
  }));
  ASSERT_OK(worker.submit([held] { ADD_FAILURE() << "had not started"; }));
  begun.get_future().wait();
  worker.stop();
  EXPECT_TRUE(has_seen_it);
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_OK(worker.submit([] { ADD_FAILURE() << "submitted after stopping"; }));
  worker.stop();
}

TEST(Worker, AWorkerWithoutJobsHasNoThread) {
  NoThreads none;
  Worker worker;
  worker.stop();
}

TEST(Worker, AThreadThatCannotBeStartedIsAnErrorAndTheNextSubmitTriesAgain) {
  Worker worker;
  bool has_run = false;
  {
    NoThreads none;
    Status submitted = worker.submit([] { ADD_FAILURE() << "was refused"; });
    ASSERT_EQ(error_of(submitted), Code::kLimit);
    EXPECT_EQ(submitted.error().message(), "cannot start a thread: Resource temporarily unavailable");
  }
  ASSERT_OK(worker.submit([&] { has_run = true; }));
  finish_jobs(worker);
  EXPECT_TRUE(has_run);
}

TEST(Worker, SeveralThreadsRunJobsAtTheSameTime) {
  constexpr std::size_t kThreads = 3;
  Worker worker({.threads_max = kThreads});
  std::atomic<std::size_t> running = 0;
  std::promise<void> gate;
  std::shared_future<void> open = gate.get_future().share();
  std::vector<std::future<void>> over;
  for (std::size_t i = 0; i < 2 * kThreads; ++i) {
    auto done = std::make_shared<std::promise<void>>();
    over.push_back(done->get_future());
    ASSERT_OK(worker.submit([&, done] {
      ++running;
      open.wait();
      done->set_value();
    }));
  }
  while (running < kThreads) std::this_thread::yield();
  EXPECT_EQ(running, kThreads) << "no more than allowed";
  gate.set_value();
  for (auto& one : over) one.wait();
}

TEST(Worker, OneThreadIsEnoughIfNoMoreCanBeStarted) {
  Worker worker({.threads_max = 4});
  finish_jobs(worker);
  NoThreads none;
  std::vector<std::promise<void>> over(20);
  for (auto& one : over) ASSERT_OK(worker.submit([&] { one.set_value(); }));
  for (auto& one : over) one.get_future().wait();
}

TEST(Worker, StoppingEndsASleep) {
  Worker worker;
  std::promise<void> begun;
  bool slept = true;
  ASSERT_OK(worker.submit([&] {
    EXPECT_TRUE(worker.sleep_for(milliseconds(1)));
    begun.set_value();
    slept = worker.sleep_for(hours(1));
    EXPECT_FALSE(worker.sleep_until_woken(hours(1)));
  }));
  begun.get_future().wait();
  worker.stop();
  EXPECT_FALSE(slept);
}

TEST(Worker, AWakeEndsOneSleepAlsoOneThatBeginsLater) {
  Worker worker;
  std::promise<void> woken;
  worker.wake();
  ASSERT_OK(worker.submit([&] {
    EXPECT_TRUE(worker.sleep_until_woken(hours(1)));
    EXPECT_TRUE(worker.sleep_until_woken(milliseconds(1)));
    woken.set_value();
    EXPECT_TRUE(worker.sleep_until_woken(hours(1)));
  }));
  woken.get_future().wait();
  worker.wake();
  finish_jobs(worker);
}

TEST(Worker, LowPriorityGivesWayToOtherThreads) {
  auto own_nice = [] { return ::getpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid))); };
  Worker worker({.priority = Worker::Priority::kLow});
  int nice = 0;
  ASSERT_OK(worker.submit([&] { nice = own_nice(); }));
  finish_jobs(worker);
  EXPECT_EQ(nice, own_nice() + 5);
}

}  // namespace
}  // namespace warren
