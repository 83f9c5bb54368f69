#include "embed/model/safetensors.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "embed/model/tiny_model_testing.h"
#include "testing/matchers.h"
#include "testing/mutations.h"
#include "testing/temp_dir.h"

namespace warren {
namespace {

using testing::error_of;
using testing::float_tensor;
using ::testing::HasSubstr;
using testing::safetensors_bytes;
using testing::safetensors_with_header;
using testing::TempDir;
using testing::write_text;

Result<std::unique_ptr<Safetensors>> open_bytes(const TempDir& dir, const std::string& bytes) {
  write_text(dir.file("t"), bytes);
  return Safetensors::open(dir.file("t"));
}

TEST(Safetensors, ReadsNumbersOfEveryFloatingPointType) {
  TempDir dir;
  using namespace std::string_literals;
  auto opened = open_bytes(dir, safetensors_bytes({{"f32", float_tensor({2, 2}, {1, -2, 0.5F, 1e10F})},
                                                   {"f16", {"F16", {3}, "\x00\x3C\x00\xC0\x01\x00"s}},
                                                   {"bf16", {"BF16", {2}, "\x80\x3F\x00\xC0"s}},
                                                   {"other", {"I64", {1}, "12345678"}}}));
  ASSERT_OK(opened);
  EXPECT_EQ((*opened)->read("f32", {2, 2}).value(), (std::vector<float>{1, -2, 0.5F, 1e10F}));
  EXPECT_EQ((*opened)->read("f16", {3}).value(), (std::vector<float>{1, -2, 0x1p-24F}));
  EXPECT_EQ((*opened)->read("bf16", {2}).value(), (std::vector<float>{1, -2}));
  EXPECT_EQ(error_of((*opened)->read("other", {1})), Code::kUnsupported);
  EXPECT_EQ(error_of((*opened)->read("f32", {4})), Code::kCorrupt);
  EXPECT_EQ(error_of((*opened)->read("none", {4})), Code::kNotFound);
  std::vector<float> part(2);
  EXPECT_OK((*opened)->read_part(*(*opened)->find("f32"), 1, part));
  EXPECT_EQ(part, (std::vector<float>{-2, 0.5F}));
  EXPECT_EQ(error_of((*opened)->read_part(*(*opened)->find("f32"), 3, part)), Code::kCorrupt);
  EXPECT_EQ(error_of((*opened)->read_part(*(*opened)->find("f32"), UINT64_MAX / 4 - 1, part)), Code::kCorrupt);
}

TEST(Safetensors, WhatIsNotANumberIsRefused) {
  TempDir dir;
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto opened = open_bytes(dir, safetensors_bytes({{"a", float_tensor({2}, {1, bad})}}));
    ASSERT_OK(opened);
    EXPECT_EQ(error_of((*opened)->read("a", {2})), Code::kCorrupt);
  }
}

TEST(Safetensors, AWrongHeaderIsAnErrorThatSaysWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> headers{
      {"", "not JSON"},
      {"[]", "not an object"},
      {"{", "not JSON"},
      {R"({"a": 5})", "not an object"},
      {R"({"a": {"shape": [1], "data_offsets": [0, 4]}})", "no dtype"},
      {R"({"a": {"dtype": "F31", "shape": [1], "data_offsets": [0, 4]}})", "not known"},
      {R"({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})", "shape"},
      {R"({"a": {"dtype": "F32", "shape": [1.5], "data_offsets": [0, 4]}})", "shape"},
      {R"({"a": {"dtype": "F32", "shape": "x", "data_offsets": [0, 4]}})", "shape"},
      {R"({"a": {"dtype": "F32", "shape": [1,1,1,1,1,1,1,1,1], "data_offsets": [0, 4]}})", "shape"},
      {R"({"a": {"dtype": "F32", "shape": [4611686018427387905, 4], "data_offsets": [0, 4]}})", "too large"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}})", "needs 8"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})", "within the file"},
      {R"({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}})", "within the file"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}})", "within the file"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [18446744073709551612, 18446744073709551615]}})",
       "within"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})", "end at"},
      {R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})", "gap"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",
       "overlap"},
      {R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})",
       "twice"}};
  TempDir dir;
  for (const auto& [header, message] : headers) {
    SCOPED_TRACE(header);
    auto opened = open_bytes(dir, safetensors_with_header(header, "12345678"));
    ASSERT_EQ(error_of(opened), Code::kCorrupt);
    EXPECT_THAT(opened.error().message(), HasSubstr(message));
  }
}

TEST(Safetensors, AFileThatIsCutAnywhereIsAnError) {
  TempDir dir;
  const std::string whole = safetensors_bytes({{"a", float_tensor({3}, {1, 2, 3})}});
  ASSERT_OK(open_bytes(dir, whole));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_EQ(error_of(open_bytes(dir, whole.substr(0, length))), Code::kCorrupt) << length;
  }
  EXPECT_EQ(error_of(open_bytes(dir, whole + "x")), Code::kCorrupt);
}

TEST(Safetensors, AHugeSparseFileIsRefused) {
  TempDir dir;
  constexpr std::uint64_t kSize = (std::uint64_t{8} << 30) + 4;
  std::string header =
      fmt::format(R"({{"a": {{"dtype": "F32", "shape": [{}], "data_offsets": [0, {}]}}}})", kSize / 4, kSize);
  const std::string path = dir.file("sparse");
  write_text(path, safetensors_with_header(header, ""));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + kSize);
  EXPECT_EQ(error_of(Safetensors::open(path)), Code::kTooLarge);
}

TEST(Safetensors, AHugeHeaderIsNotRead) {
  TempDir dir;
  for (std::uint64_t length : {std::uint64_t{1} << 20, std::uint64_t{1} << 62, UINT64_MAX}) {
    std::string bytes = safetensors_bytes({{"a", float_tensor({1}, {1})}});
    std::memcpy(bytes.data(), &length, 8);
    auto opened = open_bytes(dir, bytes);
    ASSERT_EQ(error_of(opened), Code::kCorrupt);
    EXPECT_THAT(opened.error().message(), HasSubstr("limit"));
  }
}

TEST(Safetensors, AFileThatIsCutAfterItWasOpenedIsAnError) {
  TempDir dir;
  auto opened = open_bytes(dir, safetensors_bytes({{"a", float_tensor({1000}, std::vector<float>(1000))}}));
  ASSERT_OK(opened);
  ASSERT_EQ(::truncate(dir.file("t").c_str(), 500), 0);
  EXPECT_EQ(error_of((*opened)->read("a", {1000})), Code::kCorrupt);
}

TEST(Safetensors, OnlyAFileCanBeOpened) {
  EXPECT_EQ(error_of(Safetensors::open("/dev/zero")), Code::kInvalid);
  EXPECT_EQ(error_of(Safetensors::open("/nothing/there")), Code::kNotFound);
  EXPECT_FALSE(Safetensors::open("/tmp").ok());
}

TEST(Safetensors, AnyHeaderIsReadOrRefused) {
  testing::Mutations mutations(7);
  const std::string header = R"({"__metadata__": {"format": "pt"},
      "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
      "b": {"dtype": "F16", "shape": [4], "data_offsets": [24, 32]}})";
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string changed = mutations.of(header);
    const std::uint64_t file_bytes = 8 + changed.size() + 32;
    auto parsed = parse_safetensors_header(changed, file_bytes);
    if (!parsed.ok()) continue;
    ++accepted;
    for (const auto& [name, tensor] : *parsed) {
      ASSERT_LE(tensor.offset, file_bytes);
      ASSERT_LE(tensor.size_bytes, file_bytes - tensor.offset);
    }
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace warren
