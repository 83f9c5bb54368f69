// Shared by the conformance suites: a new filesystem, a clock, and helpers to prepare a tree.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "conformance/factories.h"
#include "fs/file_system.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"

namespace warren::testing {

// Returns the value, and fails the test if there is none.
template <class T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message());
  return std::move(result).take_value();
}
inline void must(Status status) {
  if (!status.ok()) throw std::runtime_error(status.error().message());
}

inline constexpr std::uint64_t kChunk = 4096;

class FileSystemTest : public ::testing::TestWithParam<Factory> {
 protected:
  void SetUp() override {
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string suite = test->test_suite_name();  // "Each/FileTest"
    std::string name = test->name();              // "ARule/memory"
    name = suite.substr(suite.find('/') + 1) + "." + name.substr(0, name.find('/'));
    if (GetParam().cannot.contains(name)) GTEST_SKIP() << "not supported here";
  }

  Inode make_file(std::string_view name, std::string_view text = "", Inode parent = kRootInode) {
    Inode inode = must(fs_.make_node(parent, name, {.mode = S_IFREG | 0644})).inode;
    if (!text.empty()) must(fs_.write(inode, 0, as_bytes(text)));
    return inode;
  }
  Inode make_dir(std::string_view name, Inode parent = kRootInode) {
    return must(fs_.make_dir(parent, name, {.mode = 0755})).inode;
  }
  Inode make_symlink(std::string_view name, std::string_view target, Inode parent = kRootInode) {
    return must(fs_.make_symlink(parent, name, target, {})).inode;
  }
  Inode make_fifo(std::string_view name) {
    return must(fs_.make_node(kRootInode, name, {.mode = S_IFIFO | 0600})).inode;
  }

  Attributes attributes(Inode node) { return must(fs_.get_attributes(node)); }
  std::uint64_t size(Inode node) { return attributes(node).size; }
  void write(Inode node, std::uint64_t offset, std::string_view text) { must(fs_.write(node, offset, as_bytes(text))); }

  std::string read(Inode node, std::uint64_t offset, std::size_t length) {
    std::string out(length, '?');
    out.resize(must(fs_.read(node, offset, as_mutable_bytes(out))));
    return out;
  }
  std::string read(Inode node) { return read(node, 0, size(node)); }

  bool has_name(Inode parent, std::string_view name) { return fs_.lookup(parent, name).ok(); }

  std::vector<std::string> names(Inode dir, std::size_t page = 1000) {
    auto stream = must(fs_.open_dir(dir));
    std::vector<std::string> found;
    std::uint64_t cookie = 0;
    for (;;) {
      std::vector<DirEntry> entries = must(stream->read(cookie, page, DirDetail::kTypes));
      if (entries.empty()) return found;
      for (const DirEntry& entry : entries) found.push_back(entry.name);
      cookie = entries.back().cookie;
    }
  }

  // Advances the clock by seconds and nanoseconds, so that a test notices if either is dropped.
  Timestamp tick() {
    clock_.advance_ns(1'000'000'007);
    return clock_.now();
  }

  FakeClock clock_;
  std::unique_ptr<TestFs> owner_ = GetParam().make(clock_);
  FileSystem& fs_ = owner_->fs();
};

}  // namespace warren::testing

#define WARREN_EACH_FILE_SYSTEM(Suite)                                                        \
  INSTANTIATE_TEST_SUITE_P(Each, Suite, ::testing::ValuesIn(::warren::testing::factories()),  \
                           [](const auto& with) { return with.param.name; });                 \
  INSTANTIATE_TEST_SUITE_P(Blob, Suite, ::testing::Values(::warren::testing::blob_factory()), \
                           [](const auto& with) { return with.param.name; })
