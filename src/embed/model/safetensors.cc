#include "embed/model/safetensors.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/path.h"
#include "base/strict_json.h"
#include "embed/model/half.h"
#include "os/error.h"

namespace warren {
namespace {

static_assert(std::endian::native == std::endian::little, "the numbers in the file are little-endian");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kHeaderBytes = std::uint64_t{256} << 10;
constexpr std::size_t kDimensionsMax = 8;
constexpr std::uint64_t kFileBytes = std::uint64_t{8} << 30;
constexpr std::uint64_t kTensorBytes = std::uint64_t{4} << 30;

using TensorMap = std::map<std::string, TensorInfo, std::less<>>;

struct TypeRow {
  std::string_view name;
  NumberType type;
  std::uint64_t size_bytes;
};
constexpr TypeRow kNumberTypes[] = {
    {"F32", NumberType::kFloat32, 4}, {"F16", NumberType::kFloat16, 2},   {"BF16", NumberType::kBfloat16, 2},
    {"F64", NumberType::kOther, 8},   {"I64", NumberType::kOther, 8},     {"U64", NumberType::kOther, 8},
    {"I32", NumberType::kOther, 4},   {"U32", NumberType::kOther, 4},     {"I16", NumberType::kOther, 2},
    {"U16", NumberType::kOther, 2},   {"I8", NumberType::kOther, 1},      {"U8", NumberType::kOther, 1},
    {"BOOL", NumberType::kOther, 1},  {"F8_E4M3", NumberType::kOther, 1}, {"F8_E5M2", NumberType::kOther, 1}};

Error bad_tensor(std::string_view name, std::string_view why) {
  return {Code::kCorrupt, fmt::format("tensor {}: {}", quote(name), why)};
}

Result<std::vector<std::uint64_t>> whole_numbers(const Json& tensor, const char* member, std::string_view name) {
  auto list = tensor.find(member);
  if (list == tensor.end() || !list->is_array() || list->size() > kDimensionsMax) {
    return bad_tensor(name, fmt::format("{} is not a list of at most {} numbers", member, kDimensionsMax));
  }
  std::vector<std::uint64_t> numbers;
  for (const Json& number : *list) {
    if (!number.is_number_unsigned()) return bad_tensor(name, fmt::format("{} has an invalid number", member));
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

Result<TensorInfo> tensor_of(std::string_view name, const Json& json, std::uint64_t data_at, std::uint64_t data_bytes) {
  if (!json.is_object()) return bad_tensor(name, "it is not an object");
  auto type = json.find("dtype");
  if (type == json.end() || !type->is_string()) return bad_tensor(name, "it has no dtype");
  const auto* row = std::find_if(std::begin(kNumberTypes), std::end(kNumberTypes),
                                 [&](const TypeRow& one) { return one.name == type->get_ref<const std::string&>(); });
  if (row == std::end(kNumberTypes)) {
    return bad_tensor(name, fmt::format("the type {} is not known", quote(type->get<std::string>())));
  }
  TensorInfo info{.type = row->type, .shape = {}};
  info.shape = WARREN_TRY(whole_numbers(json, "shape", name));
  std::uint64_t bytes = row->size_bytes;
  for (std::uint64_t length : info.shape) {
    if (__builtin_mul_overflow(bytes, length, &bytes)) return bad_tensor(name, "its shape is too large");
  }
  std::vector<std::uint64_t> place = WARREN_TRY(whole_numbers(json, "data_offsets", name));
  if (place.size() != 2 || place[0] > place[1] || place[1] > data_bytes) {
    return bad_tensor(name, "its place is not within the file");
  }
  if (place[1] - place[0] != bytes) {
    return bad_tensor(name, fmt::format("it has {} bytes, and its shape needs {}", place[1] - place[0], bytes));
  }
  info.offset = data_at + place[0];
  info.size_bytes = bytes;
  return info;
}

// As the format demands: one after the other, without gaps.
Status check_places(const TensorMap& tensors, std::uint64_t data_at, std::uint64_t file_bytes) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
  for (const auto& [name, tensor] : tensors) places.emplace_back(tensor.offset, tensor.offset + tensor.size_bytes);
  std::sort(places.begin(), places.end());
  std::uint64_t end = data_at;
  for (const auto& [from, to] : places) {
    if (from < end) return Error(Code::kCorrupt, "tensors overlap in the file");
    if (from > end) return Error(Code::kCorrupt, "there is a gap between tensors in the file");
    end = to;
  }
  if (end != file_bytes) {
    return Error(Code::kCorrupt, fmt::format("the file has {} bytes, and its tensors end at {}", file_bytes, end));
  }
  return Ok{};
}

Status read_at(int file, std::uint64_t offset, MutableBytes out) {
  while (!out.empty()) {
    const ssize_t count = ::pread(file, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(errno, "read");
    if (count == 0) return Error(Code::kCorrupt, "the file ends too early");
    out = out.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return Ok{};
}

std::uint64_t number_bytes(NumberType type) { return type == NumberType::kFloat32 ? 4 : 2; }

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text;
  for (std::uint64_t length : shape) text += fmt::format("{}{}", text.empty() ? "" : " × ", length);
  return text;
}

}  // namespace

Result<TensorMap> parse_safetensors_header(std::string_view header, std::uint64_t file_bytes) {
  const std::uint64_t data_at = kLengthBytes + header.size();
  if (data_at > file_bytes) return Error(Code::kCorrupt, "the file ends within its header");
  Result<Json> json = parse_strict_json(header);
  if (!json.ok()) return Error(Code::kCorrupt, json.error().message()).within("the header");
  if (!json->is_object()) return Error(Code::kCorrupt, "the header is not an object");
  TensorMap tensors;
  for (const auto& [name, tensor] : json->items()) {
    if (name == "__metadata__") continue;
    tensors[name] = WARREN_TRY(tensor_of(name, tensor, data_at, file_bytes - data_at));
  }
  WARREN_TRY(check_places(tensors, data_at, file_bytes));
  return tensors;
}

Result<std::unique_ptr<Safetensors>> Safetensors::open(const std::string& path) {
  std::unique_ptr<Safetensors> opened(new Safetensors);
  opened->path_ = path;
  opened->file_ = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe must not block
  if (!opened->file_.is_open()) return system_error(errno, fmt::format("open {}", quote(path)));
  struct stat attributes {};
  if (::fstat(opened->file_.get(), &attributes) != 0) return system_error(errno, fmt::format("stat {}", quote(path)));
  if (!S_ISREG(attributes.st_mode)) return Error(Code::kInvalid, fmt::format("{} is not a file", quote(path)));
  const auto file_bytes = static_cast<std::uint64_t>(attributes.st_size);
  if (file_bytes > kFileBytes) {  // a sparse file of any size costs nothing, and its numbers do
    return Error(Code::kTooLarge, fmt::format("{} has {} bytes; the limit is {}", quote(path), file_bytes, kFileBytes));
  }
  std::string prefix(kLengthBytes, '\0');
  WARREN_TRY(read_at(opened->file_.get(), 0, as_mutable_bytes(prefix)).within(quote(path)));
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, prefix.data(), sizeof header_bytes);
  if (header_bytes > kHeaderBytes) {
    return Error(
        Code::kCorrupt,
        fmt::format("{}: its header has {} bytes, which is over the limit of {}; it is probably not a safetensors "
                    "file",
                    quote(path), header_bytes, kHeaderBytes));
  }
  std::string header(header_bytes, '\0');
  WARREN_TRY(read_at(opened->file_.get(), kLengthBytes, as_mutable_bytes(header)).within(quote(path)));
  opened->tensors_ = WARREN_TRY(parse_safetensors_header(header, file_bytes).within(quote(path)));
  return opened;
}

const TensorInfo* Safetensors::find(std::string_view name) const {
  auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

Result<std::vector<float>> Safetensors::read(std::string_view name, const std::vector<std::uint64_t>& shape) const {
  const TensorInfo* tensor = find(name);
  if (tensor == nullptr) return Error(Code::kNotFound, fmt::format("{} has no tensor {}", quote(path_), quote(name)));
  if (tensor->shape != shape) {
    return Error(Code::kCorrupt, fmt::format("{}: tensor {} is {}, and the configuration says {}", quote(path_),
                                             quote(name), shape_text(tensor->shape), shape_text(shape)));
  }
  if (tensor->type == NumberType::kOther) {
    return Error(Code::kUnsupported,
                 fmt::format("{}: tensor {} is not of the type F32, F16 or BF16", quote(path_), quote(name)));
  }
  if (tensor->size_bytes > kTensorBytes) {
    return Error(Code::kTooLarge, fmt::format("{}: tensor {} is too large", quote(path_), quote(name)));
  }
  std::vector<float> numbers(tensor->size_bytes / number_bytes(tensor->type));
  WARREN_TRY(read_part(*tensor, 0, numbers).within(quote(name)));
  return numbers;
}

Status Safetensors::read_part(const TensorInfo& tensor, std::uint64_t first_number, std::vector<float>& out) const {
  const std::uint64_t each = number_bytes(tensor.type);
  const std::uint64_t begin = first_number * each;
  if (begin > tensor.size_bytes || out.size() * each > tensor.size_bytes - begin) {
    return Error(Code::kCorrupt, fmt::format("{}: a part is not within its tensor", quote(path_)));
  }
  // 16-bit numbers are read into the second half of the result, and each is widened before it is overwritten.
  auto* bytes = reinterpret_cast<std::byte*>(out.data());
  const std::size_t read_at_byte = out.size() * (4 - each);
  const MutableBytes part{bytes + read_at_byte, out.size() * each};
  WARREN_TRY(read_at(file_.get(), tensor.offset + begin, part).within(quote(path_)));
  if (each == 2) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::uint16_t number = 0;
      std::memcpy(&number, bytes + read_at_byte + i * 2, 2);
      out[i] = tensor.type == NumberType::kFloat16 ? float_of_half(number) : float_of_bfloat(number);
    }
  }
  for (float number : out) {
    if (!std::isfinite(number)) {
      return Error(Code::kCorrupt, fmt::format("{}: a weight is infinite or not a number", quote(path_)));
    }
  }
  return Ok{};
}

}  // namespace warren
