#include "backends/vector/weaviate_vectors.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "backends/blob/blob_key.h"
#include "backends/vector/vector_item.h"
#include "base/path.h"
#include "base/printable.h"
#include "crypto/digest.h"

namespace warren {
namespace {

using Operator = VectorCondition::Operator;

constexpr std::size_t kWeaviateBatch = 100;
constexpr std::size_t kWeaviatePage = 1000;
constexpr std::uint16_t kWeaviatePort = 8080;
constexpr std::size_t kWeaviateProperties = 1000;    // of one class
constexpr std::size_t kWeaviatePropertyBytes = 200;  // of a name that is shown as it is; Weaviate takes 231
constexpr std::size_t kWeaviateClassBytes = 200;
constexpr std::size_t kMessageBytes = 500;  // of what the service says
constexpr std::string_view kIdProperty = "warren_id";
constexpr std::string_view kTextProperty = "warren_text";
constexpr std::string_view kNoUuid = "00000000-0000-0000-0000-000000000000";

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_class_name(std::string_view name) {
  return !name.empty() && name.size() <= kWeaviateClassBytes && name[0] >= 'A' && name[0] <= 'Z' &&
         std::all_of(name.begin(), name.end(), is_name_character);
}

bool is_uuid(std::string_view text) {
  if (text.size() != kNoUuid.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    bool is_digit = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
    if (kNoUuid[i] == '-' ? text[i] != '-' : !is_digit) return false;
  }
  return true;
}

// A UUID of version 8, from the id's hash. An id that is a UUID is that object's own, unless it has this version: it
// would be the object of another id.
std::string uuid_of(std::string_view id) {
  if (is_uuid(id) && id[14] != '8') return std::string(id);
  std::string hex = sha256_hex(as_bytes(id));
  return fmt::format("{}-{}-8{}-8{}-{}", hex.substr(0, 8), hex.substr(8, 4), hex.substr(12, 3), hex.substr(15, 3),
                     hex.substr(18, 12));
}

// The property that has a member of the metadata when its value is of the type of `value`: numbers as numbers; strings
// and booleans as JSON text, which keeps empty strings and spaces at the ends, and "true" apart from true. Weaviate
// refuses names that differ only in case.
std::string property_of(std::string_view key, const Json& value) {
  std::string_view kind = value.is_number() ? "number" : "text";
  auto is_plain = [](char c) { return is_name_character(c) && (c < 'A' || c > 'Z'); };
  bool is_name = key.size() <= kWeaviatePropertyBytes && std::all_of(key.begin(), key.end(), is_plain);
  if (is_name) return fmt::format("{}_{}", kind, key);
  return fmt::format("{}x_{}", kind, sha256_hex(as_bytes(key)));
}

bool has_property(const Json& value) { return value.is_string() || value.is_number() || value.is_boolean(); }

Json property_value(const Json& value) {
  if (value.is_number()) return value.get<double>();
  return dump_json(value);
}

enum class Filterable { kNo, kYes };

Json text_property(std::string_view name, Filterable filterable) {
  return {{"name", std::string(name)},
          {"dataType", Json::array({"text"})},
          {"tokenization", "field"},
          {"indexFilterable", filterable == Filterable::kYes},
          {"indexSearchable", false}};
}

Json new_property(const std::string& name) {
  if (name.starts_with("text")) return text_property(name, Filterable::kYes);
  return {{"name", name}, {"dataType", Json::array({"number"})}, {"indexFilterable", true}};
}

std::string_view graphql_operator(Operator op) {
  switch (op) {
    case Operator::kEqual:
    case Operator::kIn: return "Equal";
    case Operator::kNotEqual:
    case Operator::kNotIn: return "NotEqual";
    case Operator::kGreater: return "GreaterThan";
    case Operator::kGreaterEqual: return "GreaterThanEqual";
    case Operator::kLess: return "LessThan";
    case Operator::kLessEqual: return "LessThanEqual";
  }
  return "Equal";
}

// A string is written in GraphQL as in JSON.
std::string graphql_test(const std::string& property, Operator op, const Json& value) {
  return fmt::format("{{path:[\"{}\"],operator:{},{}:{}}}", property, graphql_operator(op),
                     value.is_number() ? "valueNumber" : "valueText", dump_json(property_value(value)));
}

std::string graphql_group(std::string_view op, const std::vector<std::string>& tests) {
  if (tests.size() == 1) return tests[0];
  return fmt::format("{{operator:{},operands:[{}]}}", op, fmt::join(tests, ","));
}

std::set<std::string, std::less<>> properties_of(const VectorFilter& filter) {
  std::set<std::string, std::less<>> names;
  for (const VectorCondition& condition : filter) {
    if (!condition.value.is_array()) names.insert(property_of(condition.key, condition.value));
    else
      for (const Json& value : condition.value) names.insert(property_of(condition.key, value));
  }
  return names;
}

// The argument `where`; empty if everything matches, unset if nothing can. A property that the class does not have is
// missing in every object. NotEqual also finds objects without the property.
std::optional<std::string> where_of(const VectorFilter& filter, const std::set<std::string, std::less<>>& known) {
  std::vector<std::string> all;
  for (const VectorCondition& condition : filter) {
    std::vector<std::string> tests;
    auto add = [&](const Json& value) {
      std::string property = property_of(condition.key, value);
      if (known.contains(property)) tests.push_back(graphql_test(property, condition.op, value));
    };
    if (!condition.value.is_array()) add(condition.value);
    else
      for (const Json& value : condition.value) add(value);
    bool is_negative = condition.op == Operator::kNotEqual || condition.op == Operator::kNotIn;
    if (!tests.empty()) all.push_back(graphql_group(is_negative ? "And" : "Or", tests));
    else if (!is_negative) return std::nullopt;
  }
  if (all.empty()) return std::string();
  return fmt::format(",where:{}", graphql_group("And", all));
}

std::string id_of(const Json& properties, const std::string& uuid) {
  std::string id = text_at(properties, fmt::format("/{}", kIdProperty));
  return id.empty() ? uuid : id;
}

// Of an object of another program, all properties are the metadata.
VectorItem item_of_object(const Json& properties, const std::string& uuid) {
  VectorItem item{.id = id_of(properties, uuid),
                  .embedding = {},
                  .text = text_at(properties, fmt::format("/{}", kTextProperty)),
                  .metadata = Json::object()};
  if (properties.is_object()) {
    for (const auto& [key, value] : properties.items()) {
      if (!value.is_null() && key != "_additional") item.metadata[key] = value;
    }
  }
  item.metadata = whole_metadata(item.metadata);
  return item;
}

std::string first_message(const Json& errors) {
  std::string message = text_at(errors, "/0/message");
  return printable(message.empty() ? dump_json(errors) : message).substr(0, kMessageBytes);
}

}  // namespace

Result<std::unique_ptr<VectorIndex>> WeaviateVectors::open(const Url& url, std::optional<std::string> password,
                                                           std::chrono::milliseconds timeout) {
  WARREN_TRY(check_url_options(url, {"tls"}));
  const std::string* tls = url.find("tls");
  std::string base = WARREN_TRY(http_base(url, tls != nullptr && *tls == "yes" ? 443 : kWeaviatePort, Tls::kNo));
  std::string class_name =
      url.path.empty() ? std::string() : WARREN_TRY(decode_percent(std::string_view(url.path).substr(1)));
  if (!is_class_name(class_name)) {
    return Error(Code::kInvalid,
                 fmt::format("the address must end in the name of a class, not {}: a capital letter, then letters, "
                             "digits and underscores",
                             quote(class_name)),
                 "write it as weaviate://host:8080/Notes");
  }
  HttpHeaders headers;
  if (!password) password = url.password;
  if (password) headers.emplace_back("Authorization", "Bearer " + *password);
  auto service = WARREN_TRY(JsonService::open(std::move(base), std::move(headers), timeout));
  return std::unique_ptr<VectorIndex>(
      new WeaviateVectors(without_secrets(url), std::move(service), std::move(class_name)));
}

WeaviateVectors::WeaviateVectors(std::string name, std::unique_ptr<JsonService> service, std::string class_name)
    : name_(std::move(name)), service_(std::move(service)), class_(std::move(class_name)) {}

// The class.

Result<WeaviateVectors::ClassProperties> WeaviateVectors::find_class(const Properties& wanted) {
  {
    std::lock_guard lock(mutex_);
    if (properties_ && std::includes(properties_->begin(), properties_->end(), wanted.begin(), wanted.end())) {
      return properties_;
    }
  }
  return load_class();
}

Result<WeaviateVectors::ClassProperties> WeaviateVectors::load_class() {
  Result<Json> answer = service_->get("/v1/schema/" + class_);
  if (!answer.ok() && answer.error().code() != Code::kNotFound) return std::move(answer).take_error().within(name_);
  ClassProperties found;
  if (answer.ok()) {
    auto names = std::make_shared<Properties>();
    for (const Json& property : list_at(*answer, "/properties")) names->insert(text_at(property, "/name"));
    bool has_cosine = text_at(*answer, "/vectorIndexConfig/distance") == "cosine";
    bool has_tenants = member_at(*answer, "/multiTenancyConfig/enabled") == Json(true);
    if (!names->contains(kIdProperty) || !has_cosine || has_tenants) {
      return Error(Code::kUnsupported,
                   fmt::format("{}: the class exists, but was not made by Warren: it needs the property {}, one vector "
                               "with cosine distances, and no tenants",
                               name_, kIdProperty),
                   "use another class; the first write makes it");
    }
    found = std::move(names);
  } else {
    dimension_ = 0;
  }
  std::lock_guard lock(mutex_);
  properties_ = found;
  return found;
}

Result<WeaviateVectors::ClassProperties> WeaviateVectors::make_class() {
  Json properties =
      Json::array({text_property(kIdProperty, Filterable::kYes), text_property(kTextProperty, Filterable::kNo),
                   text_property(kWholeMetadata, Filterable::kNo)});
  Result<Json> made = service_->post("/v1/schema", {{"class", class_},
                                                    {"description", "Items of Warren"},
                                                    {"vectorizer", "none"},
                                                    {"vectorIndexType", "hnsw"},
                                                    {"vectorIndexConfig", {{"distance", "cosine"}}},
                                                    {"properties", std::move(properties)}});
  ClassProperties known = WARREN_TRY(load_class());  // another process may have made it at the same time
  if (known) return known;
  if (!made.ok()) return std::move(made).take_error().within(fmt::format("{}: make the class", name_));
  return Error(Code::kUnavailable, fmt::format("{}: the class was made, but is not there", name_));
}

Status WeaviateVectors::add_properties(const ClassProperties& known, const Properties& wanted) {
  if (std::includes(known->begin(), known->end(), wanted.begin(), wanted.end())) return Ok{};
  std::size_t count = known->size();
  Result<Json> added = Json();
  for (const std::string& property : wanted) {
    if (known->contains(property)) continue;
    if (++count > kWeaviateProperties) {
      return Error(Code::kLimit,
                   fmt::format("{}: the metadata of all items together have more than {} different members", name_,
                               kWeaviateProperties),
                   "put what is never searched for into one member, as an object");
    }
    Result<Json> one = service_->post(fmt::format("/v1/schema/{}/properties", class_), new_property(property));
    if (!one.ok() && added.ok()) added = std::move(one);
  }
  ClassProperties now = WARREN_TRY(load_class());  // another process may have added some at the same time
  if (now && std::includes(now->begin(), now->end(), wanted.begin(), wanted.end())) return Ok{};
  if (!added.ok()) return std::move(added).take_error().within(fmt::format("{}: add a property", name_));
  return Error(Code::kUnavailable, fmt::format("{}: the class has changed meanwhile", name_));
}

Result<std::size_t> WeaviateVectors::load_dimension() {
  Json answer = WARREN_TRY(
      service_->get(fmt::format("/v1/objects?class={}&limit=1&include=vector", class_)).within([&] { return name_; }));
  std::size_t found = list_at(answer, "/objects/0/vector").size();
  dimension_ = found;
  return found;
}

template <class Check>
Result<std::size_t> WeaviateVectors::checked_dimension(const Check& check) {
  std::size_t seen = dimension_;
  if (seen != 0 && check(seen).ok()) return seen;
  std::size_t now = WARREN_TRY(load_dimension());
  WARREN_TRY(check(now));
  return now;
}

// Requests.

Result<std::optional<Json>> WeaviateVectors::ask(const std::string& query) {
  Result<Json> answer = service_->post("/v1/graphql", {{"query", query}});
  Json errors = answer.ok() ? member_at(*answer, "/errors") : Json();
  if (answer.ok() && errors.is_null()) {
    Json data = member_at(*answer, "/data");
    if (data.is_object()) return std::optional(std::move(data));
    return Error(Code::kUnavailable, fmt::format("{}: the service's answer is not that of a query", name_));
  }
  if (!answer.ok() && answer.error().code() != Code::kInvalid) return std::move(answer).take_error().within(name_);
  // It is refused where the class is not known, too.
  if (!WARREN_TRY(load_class())) return std::optional<Json>();
  if (!answer.ok()) return std::move(answer).take_error().within(name_);
  std::string message = first_message(errors);
  return Error(message.find("forbidden") != std::string::npos ? Code::kDenied : Code::kUnavailable,
               fmt::format("{}: the service said: {}", name_, message));
}

Result<std::optional<Json>> WeaviateVectors::call_object(std::string_view id, std::string_view method) {
  WARREN_TRY(check_blob_key(id));
  if (!WARREN_TRY(find_class())) return std::optional<Json>();
  std::string path = fmt::format("/v1/objects/{}/{}", class_, uuid_of(id));
  Result<Json> answer = method == "DELETE" ? service_->remove(path) : service_->get(path + "?include=vector");
  if (answer.ok()) return std::optional(std::move(answer).take_value());
  Code code = answer.error().code();
  if (code == Code::kNotFound) return std::optional<Json>();
  // The class was removed meanwhile.
  if (code == Code::kInvalid && !WARREN_TRY(load_class())) return std::optional<Json>();
  return std::move(answer).take_error().within(name_);
}

// Items.

Status WeaviateVectors::upsert(std::span<const VectorItem> items) {
  WARREN_TRY(check_items(items, 0));
  if (items.empty()) return Ok{};
  Properties wanted;
  std::map<std::string_view, const VectorItem*> by_id;  // the last of the same id counts
  for (const VectorItem& item : items) {
    by_id[item.id] = &item;
    for (const auto& [key, value] : item.metadata.items()) {
      if (has_property(value)) wanted.insert(property_of(key, value));
    }
  }
  ClassProperties known = WARREN_TRY(find_class(wanted));
  if (!known) known = WARREN_TRY(make_class());
  // What the service would refuse in a later batch must not leave the earlier ones behind.
  WARREN_TRY(checked_dimension([&](std::size_t dimension) { return check_items(items, dimension); }));
  WARREN_TRY(add_properties(known, wanted));
  std::vector<const VectorItem*> each;
  for (const auto& [id, item] : by_id) each.push_back(item);
  std::span<const VectorItem* const> left(each);
  while (!left.empty()) {
    std::size_t count = std::min(kWeaviateBatch, left.size());
    WARREN_TRY(upsert_some(left.first(count)));
    left = left.subspan(count);
  }
  return Ok{};
}

Status WeaviateVectors::upsert_some(std::span<const VectorItem* const> items) {
  Json objects = Json::array();
  for (const VectorItem* item : items) {
    Json properties = Json::object();
    properties[std::string(kIdProperty)] = item->id;
    properties[std::string(kTextProperty)] = item->text;
    properties[std::string(kWholeMetadata)] = dump_json(item->metadata);
    for (const auto& [key, value] : item->metadata.items()) {
      if (has_property(value)) properties[property_of(key, value)] = property_value(value);
    }
    objects.push_back({{"class", class_},
                       {"id", uuid_of(item->id)},
                       {"vector", embedding_json(item->embedding)},
                       {"properties", std::move(properties)}});
  }
  Json answer =
      WARREN_TRY(service_->post("/v1/batch/objects", {{"objects", std::move(objects)}}).within([&] { return name_; }));
  if (!answer.is_array() || answer.size() != items.size()) {
    return Error(Code::kUnavailable, fmt::format("{}: the service's answer is not that of a batch", name_));
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    Json errors = list_at(answer, fmt::format("/{}/result/errors/error", i));
    if (errors.empty()) continue;
    dimension_ = 0;  // it may have been another one
    return Error(Code::kUnavailable,
                 fmt::format("{}: item {} was not stored: {}", name_, quote(items[i]->id), first_message(errors)));
  }
  dimension_ = items[0]->embedding.size();
  return Ok{};
}

Result<std::vector<VectorMatch>> WeaviateVectors::query(const VectorQuery& query) {
  std::vector<VectorMatch> matches;
  WARREN_TRY(check_query(query, 0));
  ClassProperties known = WARREN_TRY(find_class(properties_of(query.filter)));
  if (!known) return matches;
  std::size_t dimension =
      WARREN_TRY(checked_dimension([&](std::size_t expected) { return check_query(query, expected); }));
  if (dimension == 0) return matches;  // no items
  std::optional<std::string> where = where_of(query.filter, *known);
  if (!where) return matches;
  std::optional<Json> data = WARREN_TRY(ask(fmt::format(
      "{{Get{{{}(limit:{},nearVector:{{vector:{}}}{}){{{} {} {} _additional{{id distance}}}}}}}}", class_, query.top_k,
      dump_json(embedding_json(query.embedding)), *where, kIdProperty, kTextProperty, kWholeMetadata)));
  if (!data) return matches;
  for (const Json& object : list_at(*data, "/Get/" + class_)) {
    Json distance = member_at(object, "/_additional/distance");
    std::string uuid = text_at(object, "/_additional/id");
    if (uuid.empty() || !distance.is_number()) {
      return Error(Code::kUnavailable, fmt::format("{}: the service's answer is not that of a query", name_));
    }
    matches.push_back({.item = item_of_object(object, uuid), .score = 1 - distance.get<double>()});
  }
  return matches;
}

Result<std::optional<VectorItem>> WeaviateVectors::get(std::string_view id) {
  std::optional<Json> object = WARREN_TRY(call_object(id, "GET"));
  if (!object) return std::optional<VectorItem>();
  VectorItem item = item_of_object(member_at(*object, "/properties"), std::string(id));
  item.embedding = WARREN_TRY(numbers_of(member_at(*object, "/vector")).within(name_));
  return std::optional(std::move(item));
}

// Removing what does not exist succeeds there.
Result<bool> WeaviateVectors::remove(std::string_view id) {
  std::optional<Json> object = WARREN_TRY(call_object(id, "GET"));
  if (!object) return false;
  std::optional<Json> removed = WARREN_TRY(call_object(id, "DELETE"));
  return removed.has_value();
}

Result<std::uint64_t> WeaviateVectors::count() {
  if (!WARREN_TRY(find_class())) return std::uint64_t{0};
  std::optional<Json> data = WARREN_TRY(ask(fmt::format("{{Aggregate{{{}{{meta{{count}}}}}}}}", class_)));
  if (!data) return std::uint64_t{0};
  Json count = member_at(*data, fmt::format("/Aggregate/{}/0/meta/count", class_));
  if (!count.is_number_unsigned())
    return Error(Code::kUnavailable, fmt::format("{}: the count is not a number", name_));
  return count.get<std::uint64_t>();
}

Result<VectorPage> WeaviateVectors::list(const VectorListOptions& options) {
  std::vector<std::string> ids;
  if (!WARREN_TRY(find_class())) return page_of(std::move(ids), options);
  std::string after(kNoUuid);
  for (;;) {
    std::optional<Json> data = WARREN_TRY(ask(fmt::format(
        "{{Get{{{}(limit:{},after:\"{}\"){{{} _additional{{id}}}}}}}}", class_, kWeaviatePage, after, kIdProperty)));
    Json page = data ? list_at(*data, "/Get/" + class_) : Json();
    for (const Json& object : page) {
      std::string uuid = text_at(object, "/_additional/id");
      if (!is_uuid(uuid)) {
        return Error(Code::kUnavailable, fmt::format("{}: the service's answer is not that of a listing", name_));
      }
      ids.push_back(id_of(object, uuid));
      after = uuid;
    }
    if (page.size() < kWeaviatePage) return page_of(std::move(ids), options);
  }
}

}  // namespace warren
