// Random calls, applied to the memory filesystem and to another one: every result and every tree must agree.
//
// A failure prints the seed and the last calls. To replay it: WARREN_MODEL_SEED=<seed> model_test.
// WARREN_MODEL_STEPS changes how many calls a seed makes; WARREN_CHECK_FULL=yes tries many more seeds.
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include <gtest/gtest.h>

#include "conformance/factories.h"
#include "model/operations.h"
#include "model/snapshot.h"
#include "testing/fake_clock.h"

namespace warren::testing {
namespace {

constexpr std::size_t kKnownMax = 60;
constexpr int kStepsBetweenSnapshots = 100;
constexpr std::size_t kLogTail = 40;

class Model {
 public:
  Model(const Factory& oracle, const Factory& subject, std::uint64_t seed)
      : seed_(seed), generator_(seed), oracle_owner_(oracle.make(clock_)), subject_owner_(subject.make(clock_)) {
    if (subject_owner_->has_content()) give_content();
    level_the_root(oracle_);
    level_the_root(subject_);
    known_.push_back({.oracle = kRootInode, .subject = kRootInode, .type = S_IFDIR});
  }

  // The first disagreement, or nullopt.
  std::optional<std::string> run(int steps) {
    for (int step = 1; step <= steps && !failure_; ++step) {
      one_step();
      if (step % kStepsBetweenSnapshots == 0) compare_all();
    }
    while (!units_.empty() && !failure_) end_unit();
    forget_all();
    compare_all();
    return failure_ ? std::optional(report()) : std::nullopt;
  }

 private:
  struct Units {
    std::unique_ptr<Unit> oracle;
    std::unique_ptr<Unit> subject;
  };

  // Copies the subject's initial content to the oracle, with exact times.
  void give_content() {
    std::map<Inode, Inode> made;
    Timestamp start = clock_.now();
    if (!copy_tree(subject_, kRootInode, oracle_, kRootInode, clock_, made).ok()) fail("the tree cannot be copied");
    clock_.jump_to(start);
  }

  // The root's initial mode and owner depend on the filesystem; make both equal.
  void level_the_root(FileSystem& fs) {
    SetTime start = SetTime::to(clock_.now());
    AttributeChanges changes{.mode = 0755, .uid = 0, .gid = 0, .atime = start, .mtime = start};
    if (!fs.set_attributes(kRootInode, changes).ok()) fail("the root cannot be changed");
  }

  void fail(std::string what) {
    if (!failure_) failure_ = std::move(what);
  }

  void log(std::string line) {
    log_.push_back(std::move(line));
    if (log_.size() > kLogTail) log_.pop_front();
  }

  void one_step() {
    if (generator_.below(2) == 0) clock_.advance_ns(static_cast<std::int64_t>(generator_.below(3'000'000'000)));
    Operation operation = generator_.next(known_, units_.size());
    if (is_about_copied_holes(operation)) operation.call = Call::kGetAttributes;
    if (operation.call == Call::kBegin) return begin_unit();
    if (operation.call == Call::kEnd) return end_unit();
    Known node = known_[operation.node];
    Known other = known_[operation.other];
    Outcome expected = apply(oracle_, operation, node.oracle, other.oracle);
    Outcome got = apply(subject_, operation, node.subject, other.subject);
    while (generator_.below(3) != 0 && subject_.run_idle_work()) continue;
    log(describe(operation) + "\n      " + expected.text);
    if (operation.call == Call::kSync && expected.text != "ok") return;  // nothing is guaranteed for a deleted node
    if (expected.text != got.text) return fail("got   " + got.text);
    remember(operation, expected, got);
  }

  bool is_about_copied_holes(const Operation& operation) const {
    bool is_seek = operation.call == Call::kSeekData || operation.call == Call::kSeekHole;
    return is_seek && known_[operation.node].was_copied_to;
  }

  void begin_unit() {
    Result<std::unique_ptr<Unit>> oracle = oracle_.begin(UnitAccess::kWrite);
    Result<std::unique_ptr<Unit>> subject = subject_.begin(UnitAccess::kWrite);
    if (!oracle.ok() || !subject.ok()) return fail("a unit does not begin");
    units_.push_back({std::move(oracle).take_value(), std::move(subject).take_value()});
    log("begin");
  }

  void end_unit() {
    log("commit");
    bool ok = units_.back().oracle->commit().ok() && units_.back().subject->commit().ok();
    units_.pop_back();
    if (!ok) fail("a unit does not commit");
  }

  void remember(const Operation& operation, const Outcome& expected, const Outcome& got) {
    bool succeeded = !expected.text.starts_with("fails");
    Known& node = known_[operation.node];
    if (operation.call == Call::kCopyRange) known_[operation.other].was_copied_to = true;
    if (operation.call == Call::kRetain && succeeded) ++node.held;
    if (operation.call == Call::kOpen && succeeded) ++node.held;
    if (operation.call == Call::kForget) node.held -= std::min(node.held, operation.length);
    if (!expected.node) return;
    std::size_t at = index_of(expected.node->inode, got.node->inode, expected.node->mode & S_IFMT);
    if (operation.call == Call::kCreate && at < known_.size()) ++known_[at].held;
  }

  // The index of the node, which is added if it is new. Inode numbers must correspond on both sides.
  std::size_t index_of(Inode oracle, Inode subject, std::uint32_t type) {
    auto mapped = subject_of_.emplace(oracle, subject);
    auto back = oracle_of_.emplace(subject, oracle);
    if (mapped.first->second != subject || back.first->second != oracle) {
      fail("a different node than before has this name");
      return known_.size();
    }
    for (std::size_t i = 0; i < known_.size(); ++i) {
      if (known_[i].oracle == oracle) return i;
    }
    Known added{.oracle = oracle, .subject = subject, .type = type, .was_copied_to = copied_to_.contains(oracle)};
    if (known_.size() < kKnownMax) {
      known_.push_back(added);
      return known_.size() - 1;
    }
    std::size_t at = 1 + generator_.below(kKnownMax - 1);
    drop(known_[at]);
    known_[at] = added;
    return at;
  }

  void drop(const Known& node) {
    if (node.was_copied_to) copied_to_.insert(node.oracle);
    oracle_.forget(node.oracle, node.held);
    subject_.forget(node.subject, node.held);
  }

  void forget_all() {
    for (Known& node : known_) {
      drop(node);
      node.held = 0;
    }
  }

  void compare_all() {
    if (failure_) return;
    Result<std::vector<std::string>> expected = snapshot(oracle_);
    Result<std::vector<std::string>> got = snapshot(subject_);
    if (!expected.ok() || !got.ok()) {
      return fail("the tree cannot be read: " + (got.ok() ? expected.error().message() : got.error().message()));
    }
    if (*expected != *got) return fail(first_difference(*expected, *got));
    for (const Known& node : known_) {
      Result<std::string> left = snapshot_node(oracle_, node.oracle);
      Result<std::string> right = snapshot_node(subject_, node.subject);
      std::string left_text = left.ok() ? *left : std::string(name_of(left.error().code()));
      std::string right_text = right.ok() ? *right : std::string(name_of(right.error().code()));
      if (left_text != right_text) return fail("node differs\n want  " + left_text + "\n got   " + right_text);
    }
  }

  static std::string first_difference(const std::vector<std::string>& expected, const std::vector<std::string>& got) {
    std::size_t at = 0;
    while (at < expected.size() && at < got.size() && expected[at] == got[at]) ++at;
    auto line = [&](const std::vector<std::string>& lines) { return at < lines.size() ? lines[at] : "(nothing)"; };
    return "trees differ\n want  " + line(expected) + "\n got   " + line(got);
  }

  std::string report() const {
    std::string text = "WARREN_MODEL_SEED=" + std::to_string(seed_) + "\n the last calls, and what memory answered:\n";
    for (const std::string& line : log_) text += "   " + line + "\n";
    return text + " " + *failure_;
  }

  const std::uint64_t seed_;
  Generator generator_;
  FakeClock clock_;
  std::unique_ptr<TestFs> oracle_owner_;
  std::unique_ptr<TestFs> subject_owner_;
  FileSystem& oracle_ = oracle_owner_->fs();
  FileSystem& subject_ = subject_owner_->fs();
  std::vector<Known> known_;
  std::map<Inode, Inode> subject_of_{{kRootInode, kRootInode}};
  std::map<Inode, Inode> oracle_of_{{kRootInode, kRootInode}};
  std::set<Inode> copied_to_;
  std::vector<Units> units_;
  std::deque<std::string> log_;
  std::optional<std::string> failure_;
};

std::optional<std::uint64_t> from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

bool is_full_check() {
  const char* full = std::getenv("WARREN_CHECK_FULL");
  return full != nullptr && std::string_view(full) == "yes";
}

class ModelTest : public ::testing::TestWithParam<Factory> {};

TEST_P(ModelTest, AnswersAndTreesAgreeWithMemory) {
  int steps = static_cast<int>(from_environment("WARREN_MODEL_STEPS").value_or(2000));
  std::optional<std::uint64_t> only = from_environment("WARREN_MODEL_SEED");
  std::uint64_t first = only.value_or(1);
  std::uint64_t count = only ? 1 : is_full_check() ? 300 : 10;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    std::optional<std::string> failure = Model(factories().front(), GetParam(), seed).run(steps);
    ASSERT_FALSE(failure) << *failure;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, ModelTest, ::testing::ValuesIn(model_factories()),
                         [](const auto& with) { return with.param.name; });

}  // namespace
}  // namespace warren::testing
