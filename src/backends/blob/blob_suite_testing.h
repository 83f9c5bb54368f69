// What every BlobStore owes (blob_store.h), as tests that each store runs:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, BlobStoreTest, ::testing::Values(BlobSuiteCase{
//       .name = "memory", .make = [] { return make_store(); }}), name_of_case);
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/blob/blob_store.h"

namespace warren::testing {

struct BlobSuiteCase {
  std::string name;                                         // letters and digits
  std::function<std::unique_ptr<BlobStore>()> make;         // an empty store; null fails the test
  std::function<std::unique_ptr<BlobStore>()> open_again;   // the store made last, once more; unset: not possible
  std::function<void(std::chrono::milliseconds)> let_pass;  // unset: sleeps
  std::string secret;                                       // part of the address that no message may contain

  // Where a store stays behind the interface for a reason that its documentation gives.
  bool versions_by_content = false;  // equal content has equal versions
  bool binary_keys = true;           // without it, a key that is not UTF-8 is kInvalid
  bool control_keys = true;          // without it, a key with a control character other than \t, \n, \r is kInvalid
  std::size_t longest_key = 1024;

  // Smaller where each call is slow.
  std::size_t many_keys = 10'000;
  std::size_t large_bytes = std::size_t{8} << 20;
  int rounds = 25;  // of each of the threads
};

void PrintTo(const BlobSuiteCase& store, std::ostream* out);
std::string name_of_case(const ::testing::TestParamInfo<BlobSuiteCase>& info);

class BlobStoreTest : public ::testing::TestWithParam<BlobSuiteCase> {
 protected:
  void SetUp() override;

  BlobStore& store() { return *store_; }
  BlobAbilities abilities() { return store_->abilities(); }

  BlobInfo put(const std::string& key, std::string_view content, const PutOptions& options = {});
  std::optional<std::string> content_of(const std::string& key);
  std::vector<std::string> keys(ListOptions options);    // of all pages, folders among them, in order
  std::vector<BlobInfo> all_blobs(ListOptions options);  // of all pages
  void let_pass(std::chrono::milliseconds time);
  void put_many(const std::vector<std::string>& keys);  // by batches, each with its key as its content

 private:
  std::unique_ptr<BlobStore> store_;
};

}  // namespace warren::testing
