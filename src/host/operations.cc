#include "host/operations.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <initializer_list>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/vector/vector_item.h"
#include "base/path.h"
#include "fs/expiry.h"
#include "fs/path_ops.h"
#include "vfs/values.h"

namespace warren {
namespace {

constexpr std::size_t kEmbeddingBytes = std::size_t{1} << 20;

using Operation = Result<Frame> (*)(const std::string& path, const Frame& request, const OperationPlace& place);

Error wrong_member(std::string_view name, std::string_view what) {
  return Error(Code::kInvalid, fmt::format("{} must be {}", quote(name), what));
}

Result<std::optional<std::uint64_t>> find_count(const Json& head, const char* name) {
  auto found = head.find(name);
  if (found == head.end()) return std::optional<std::uint64_t>();
  if (!found->is_number_unsigned()) return wrong_member(name, "a whole number, 0 or more");
  return std::optional(found->get<std::uint64_t>());
}

Result<bool> find_flag(const Json& head, const char* name) {
  auto found = head.find(name);
  if (found == head.end()) return false;
  if (!found->is_boolean()) return wrong_member(name, "true or false");
  return found->get<bool>();
}

// A misspelt option must not be ignored: what was meant would not happen.
Status check_members(const Json& head, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : head.items()) {
    bool is_known = name == "op" || name == "path" || name == "path64" ||
                    std::find(known.begin(), known.end(), name) != known.end();
    if (!is_known) return Error(Code::kInvalid, fmt::format("this request has no member {}", quote(name)));
  }
  return Ok{};
}

// For a caller that only walks through a directory, the directory itself is not there.
Result<Attributes> look_at(const std::string& path, const OperationPlace& place) {
  Attributes node = WARREN_TRY(lstat(place.view, path));
  if (place.view.caller().grants && !WARREN_TRY(place.view.has_rights(node.inode))) {
    return Error(Code::kNotFound, fmt::format("{} does not exist", quote(path)));
  }
  return node;
}

Result<Frame> do_read(const std::string& path, const Frame& request, const OperationPlace& place) {
  WARREN_TRY(check_members(request.head, {"offset", "length"}));
  std::optional<std::uint64_t> offset = WARREN_TRY(find_count(request.head, "offset"));
  std::optional<std::uint64_t> length = WARREN_TRY(find_count(request.head, "length"));
  Frame answer{.head = {{"ok", true}}, .body = {}};
  if (!offset && !length) {
    Result<std::string> content = read_file(place.view, path, {.size_bytes_max = kFrameBodyBytes});
    if (!content.ok() && content.error().code() == Code::kTooLarge) {
      return std::move(content).take_error().with_hint("read it in parts, with 'offset' and 'length'");
    }
    answer.body = WARREN_TRY(std::move(content));
    return answer;
  }
  if (length.value_or(kFrameBodyBytes) > kFrameBodyBytes) {
    return wrong_member("length", fmt::format("at most {}", kFrameBodyBytes));
  }
  std::unique_ptr<Unit> unit = WARREN_TRY(place.view.begin(UnitAccess::kRead));
  Attributes node = WARREN_TRY(stat(place.view, path));
  std::uint64_t from = std::min(offset.value_or(0), node.size);
  answer.body.resize(std::min(length.value_or(kFrameBodyBytes), node.size - from));
  // Also if nothing is left to read: whether it may be read is decided there.
  std::size_t got = WARREN_TRY(read_at(place.view, path, from, as_mutable_bytes(answer.body)));
  answer.body.resize(got);
  answer.head["size"] = node.size;
  return answer;
}

// Before anything about the value is said.
Status check_may_change(const std::string& path, std::string_view op, std::initializer_list<Rights::Operation> any,
                        const OperationPlace& place) {
  if (!place.view.caller().grants) return Ok{};
  for (Rights::Operation operation : any) {
    if (WARREN_TRY(place.view.may(operation, path))) return Ok{};
  }
  Error refused(Code::kNotFound, fmt::format("{} does not exist", quote(path)));
  WARREN_TRY(place.view.record(op, path, Status(refused)));
  return refused;
}

Result<Frame> do_write(const std::string& path, const Frame& request, const OperationPlace& place) {
  WARREN_TRY(check_may_change(path, "write", {Rights::kCreate, Rights::kOverwrite, Rights::kAppend}, place));
  WARREN_TRY(check_members(request.head, {"as_is", "ttl_ms"}));
  bool as_is = WARREN_TRY(find_flag(request.head, "as_is"));
  std::optional<std::uint64_t> ttl = WARREN_TRY(find_count(request.head, "ttl_ms"));
  std::optional<std::int64_t> expires_at_ms;
  if (ttl) {
    constexpr std::uint64_t kLongest = std::uint64_t{1} << 53;
    if (*ttl > kLongest) return wrong_member("ttl_ms", "less than 2^53");
    expires_at_ms = WARREN_TRY(expiry_after(place.clock, std::chrono::milliseconds(*ttl)));
  }
  AsIs how = as_is ? AsIs::kYes : AsIs::kNo;
  // Whether the value fits among the items that are there is not for others to know.
  bool is_own = place.view.caller().grants == nullptr;
  if (is_own) WARREN_TRY(place.names.write(place.view, path, request.body, how, expires_at_ms));
  else WARREN_TRY(write_value(place.view, path, request.body, how, expires_at_ms));
  return Frame{.head = {{"ok", true}}, .body = {}};
}

Result<Frame> do_append(const std::string& path, const Frame& request, const OperationPlace& place) {
  WARREN_TRY(check_may_change(path, "append", {Rights::kAppend, Rights::kCreate}, place));
  WARREN_TRY(check_members(request.head, {"as_is"}));
  bool as_is = WARREN_TRY(find_flag(request.head, "as_is"));
  WARREN_TRY(append_value(place.view, path, request.body, as_is ? AsIs::kYes : AsIs::kNo));
  return Frame{.head = {{"ok", true}}, .body = {}};
}

// The number of a node, its other names, the directories in it and when somebody read it tell of what is not shared.
Attributes shown_to_peers(Attributes node) {
  node.inode = Inode{0};
  node.nlink = 1;
  node.atime = node.mtime;
  return node;
}

Result<Json> entry_to_wire(std::string_view name, const Attributes& node, const OperationPlace& place) {
  Json json = attributes_to_wire(place.view.caller().grants ? shown_to_peers(node) : node);
  if (!name.empty()) set_frame_bytes(json, "name", name);
  if (!node.is_file()) return json;
  Result<std::optional<std::int64_t>> expires = find_expiry(place.view, node.inode);
  if (expires.ok() && *expires) json["expires_at_ms"] = **expires;
  return json;
}

// A JSON list that is never more than an answer can be.
class ListBody {
 public:
  Status add(const Json& element) {
    if (text_.size() > 1) text_ += ',';
    text_ += dump_json(element);
    if (text_.size() < kFrameBodyBytes) return Ok{};
    return Error(Code::kTooLarge, fmt::format("an answer has at most {} bytes", kFrameBodyBytes));
  }
  std::string take() { return std::move(text_ += ']'); }

 private:
  std::string text_ = "[";
};

Result<Frame> do_list(const std::string& path, const Frame& request, const OperationPlace& place) {
  WARREN_TRY(check_members(request.head, {}));
  std::vector<NamedAttributes> entries = WARREN_TRY(read_dir_plus(place.view, path));
  ListBody body;
  for (const NamedAttributes& entry : entries) {
    // By its other names it may be something that is not shared.
    if (place.view.caller().grants && entry.attributes.nlink > 1 && !entry.attributes.is_directory() &&
        !WARREN_TRY(place.view.has_rights(entry.attributes.inode))) {
      continue;
    }
    Json one = WARREN_TRY(entry_to_wire(entry.name, entry.attributes, place));
    WARREN_TRY(body.add(one).within([&] { return fmt::format("the directory has {} entries", entries.size()); }));
  }
  return Frame{.head = {{"ok", true}}, .body = body.take()};
}

Result<Frame> do_stat(const std::string& path, const Frame& request, const OperationPlace& place) {
  WARREN_TRY(check_members(request.head, {}));
  Attributes node = WARREN_TRY(look_at(path, place));
  Json found = WARREN_TRY(entry_to_wire("", node, place));
  return Frame{.head = {{"ok", true}, {"attributes", std::move(found)}}, .body = {}};
}

Result<Frame> do_exists(const std::string& path, const Frame& request, const OperationPlace& place) {
  WARREN_TRY(check_members(request.head, {}));
  Result<Attributes> node = look_at(path, place);
  if (!node.ok() && node.error().code() != Code::kNotFound && node.error().code() != Code::kNotDirectory) {
    return std::move(node).take_error();
  }
  return Frame{.head = {{"ok", true}, {"exists", node.ok()}}, .body = {}};
}

Result<Frame> do_remove(const std::string& path, const Frame& request, const OperationPlace& place) {
  WARREN_TRY(check_members(request.head, {"recursive"}));
  bool is_recursive = WARREN_TRY(find_flag(request.head, "recursive"));
  WARREN_TRY(look_at(path, place));
  WARREN_TRY(remove(place.view, path, {.recursive = is_recursive ? Recursive::kYes : Recursive::kNo}));
  return Frame{.head = {{"ok", true}}, .body = {}};
}

Result<Frame> do_query(const std::string& path, const Frame& request, const OperationPlace& place) {
  WARREN_TRY(check_members(request.head, {"top_k", "filter"}));
  if (!WARREN_TRY(place.view.may_read(path, OtherNames::kNo))) {
    return Error(place.view.caller().grants ? Code::kNotFound : Code::kDenied,
                 fmt::format("{} cannot be read by {}", quote(path), quote(place.view.caller().agent)));
  }
  VectorQuery query;
  if (request.body.size() > kEmbeddingBytes) {
    return Error(Code::kTooLarge, fmt::format("an embedding has at most {} bytes", kEmbeddingBytes));
  }
  Json embedding = WARREN_TRY(parse_json(request.body).within("the embedding after the request"));
  query.embedding = WARREN_TRY(parse_embedding(embedding));
  query.top_k = WARREN_TRY(find_count(request.head, "top_k"))
  .value_or(query.top_k);
  if (auto filter = request.head.find("filter"); filter != request.head.end()) {
    query.filter = WARREN_TRY(parse_vector_filter(*filter));
  }
  auto may_read = [&](const std::string& at, OtherNames names) { return place.view.may_read(at, names); };
  WARREN_TRY(check_query(query, 0));
  Result<std::vector<VectorMatch>> found = place.names.query(path, query, may_read);
  WARREN_TRY(place.view.record("query", path, found.ok() ? Status(Ok{}) : Status(found.error())));
  if (!found.ok() && found.error().code() == Code::kInvalid && place.view.caller().grants) {
    found = std::vector<VectorMatch>();  // the reason would tell of items that are not shared
  }
  std::vector<VectorMatch> matches = WARREN_TRY(std::move(found));
  ListBody body;
  for (VectorMatch& match : matches) {
    Json one{
        {"score", match.score}, {"text", std::move(match.item.text)}, {"metadata", std::move(match.item.metadata)}};
    set_frame_bytes(one, "path", place.prefix + match.item.id);
    WARREN_TRY(body.add(one).within([&] { return fmt::format("{} results", matches.size()); }));
  }
  return Frame{.head = {{"ok", true}}, .body = body.take()};
}

struct NamedOperation {
  std::string_view name;
  Operation run;
};
constexpr std::array<NamedOperation, 8> kOperations{{{"read", do_read},
                                                     {"write", do_write},
                                                     {"append", do_append},
                                                     {"list", do_list},
                                                     {"stat", do_stat},
                                                     {"exists", do_exists},
                                                     {"remove", do_remove},
                                                     {"query", do_query}}};

Result<std::uint64_t> wire_number(const Json& json, const char* name) {
  auto found = json.find(name);
  if (found == json.end() || !found->is_number_unsigned()) return wrong_member(name, "a whole number");
  return found->get<std::uint64_t>();
}

Result<Timestamp> wire_time(const Json& json, const char* name) {
  auto found = json.find(name);
  bool is_pair = found != json.end() && found->is_array() && found->size() == 2 && (*found)[0].is_number_integer() &&
                 (*found)[1].is_number_integer();
  if (!is_pair) return wrong_member(name, "two numbers: seconds and nanoseconds");
  return Timestamp{.seconds = (*found)[0].get<std::int64_t>(), .nanoseconds = (*found)[1].get<std::int32_t>()};
}

Json time_to_wire(Timestamp time) { return Json::array({time.seconds, time.nanoseconds}); }

}  // namespace

Status check_operation(std::string_view op) {
  std::vector<std::string_view> names;
  for (const NamedOperation& one : kOperations) {
    if (one.name == op) return Ok{};
    names.push_back(one.name);
  }
  return Error(Code::kInvalid, fmt::format("no operation {}; it is one of {}", quote(op), fmt::join(names, ", ")));
}

Result<Frame> run_operation(const std::string& op, const std::string& path, const Frame& request,
                            const OperationPlace& place) {
  for (const NamedOperation& one : kOperations) {
    if (one.name == op) return one.run(path, request, place);
  }
  return check_operation(op).take_error();
}

Json attributes_to_wire(const Attributes& node) {
  Json json{{"mode", node.mode},
            {"inode", node.inode.value},
            {"links", node.nlink},
            {"uid", node.owner.uid},
            {"gid", node.owner.gid},
            {"size", node.size},
            {"atime", time_to_wire(node.atime)},
            {"mtime", time_to_wire(node.mtime)},
            {"ctime", time_to_wire(node.ctime)}};
  if (node.rdev != 0) json["rdev"] = node.rdev;
  return json;
}

Result<Attributes> attributes_from_wire(const Json& json) {
  if (!json.is_object()) return Error(Code::kInvalid, "attributes must be an object");
  Attributes node;
  node.mode = static_cast<std::uint32_t>(WARREN_TRY(wire_number(json, "mode")));
  node.inode = Inode { WARREN_TRY(wire_number(json, "inode")) };
  node.nlink = static_cast<std::uint32_t>(WARREN_TRY(wire_number(json, "links")));
  node.owner.uid = static_cast<std::uint32_t>(WARREN_TRY(wire_number(json, "uid")));
  node.owner.gid = static_cast<std::uint32_t>(WARREN_TRY(wire_number(json, "gid")));
  node.size = WARREN_TRY(wire_number(json, "size"));
  node.atime = WARREN_TRY(wire_time(json, "atime"));
  node.mtime = WARREN_TRY(wire_time(json, "mtime"));
  node.ctime = WARREN_TRY(wire_time(json, "ctime"));
  if (json.contains("rdev")) node.rdev = WARREN_TRY(wire_number(json, "rdev"));
  return node;
}

Json directory_entry(std::string_view name) {
  Json json = attributes_to_wire({.mode = S_IFDIR | 0555U, .nlink = 1});
  set_frame_bytes(json, "name", name);
  return json;
}

}  // namespace warren
