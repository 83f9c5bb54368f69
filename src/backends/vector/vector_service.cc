#include "backends/vector/vector_service.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/path.h"
#include "base/printable.h"

namespace warren {
namespace {

constexpr std::size_t kShownBytes = 300;

Code code_of_status(int status) {
  switch (status) {
    case 401:
    case 403: return Code::kDenied;
    case 404: return Code::kNotFound;
    case 408:
    case 429: return Code::kUnavailable;
    case 409: return Code::kConflict;
    case 413: return Code::kTooLarge;
    default: return status >= 500 ? Code::kUnavailable : Code::kInvalid;
  }
}

// The message of an error that a service describes in JSON, in one of several ways, or the beginning of its text.
std::string said_in(const std::string& body) {
  if (!is_json(body)) return body.substr(0, kShownBytes);
  Json value = parse_json(body).value();
  if (value.is_object()) {
    for (std::string_view name : {"message", "detail", "error"}) {
      auto found = value.find(name);
      if (found == value.end()) continue;
      if (found->is_string()) return found->get<std::string>();
      if (found->is_array() && !found->empty()) value = Json((*found)[0]);
      else value = Json(*found);
      if (value.is_object() && value.contains("message") && value["message"].is_string()) {
        return value["message"].get<std::string>();
      }
      break;
    }
  }
  return dump_json(value).substr(0, kShownBytes);
}

Json filter_value(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_array()) return value;
  Json list = Json::array();
  for (const Json& one : value) list.push_back(filter_value(one));
  return list;
}

}  // namespace

JsonService::JsonService(std::unique_ptr<HttpClient> client, std::string url, HttpHeaders headers,
                         std::chrono::milliseconds timeout)
    : client_(std::move(client)), url_(std::move(url)), headers_(std::move(headers)), timeout_(timeout) {}

Result<std::unique_ptr<JsonService>> JsonService::open(std::string url, HttpHeaders headers,
                                                       std::chrono::milliseconds timeout) {
  auto client = WARREN_TRY(HttpClient::open({.connect_timeout = timeout}));
  headers.emplace_back("Accept", "application/json");
  return std::unique_ptr<JsonService>(new JsonService(std::move(client), std::move(url), std::move(headers), timeout));
}

Result<Json> JsonService::get(const std::string& path) { return call("GET", path, nullptr); }
Result<Json> JsonService::post(const std::string& path, const Json& body) { return call("POST", path, &body); }
Result<Json> JsonService::put(const std::string& path, const Json& body) { return call("PUT", path, &body); }
Result<Json> JsonService::remove(const std::string& path) { return call("DELETE", path, nullptr); }

Result<Json> JsonService::call(std::string_view method, const std::string& path, const Json* body) {
  HttpCall request;
  request.method = method;
  request.url = url_ + path;
  request.headers = headers_;
  request.timeout = timeout_;
  std::string text;
  if (body != nullptr) {
    text = dump_json(*body);
    request.headers.emplace_back("Content-Type", "application/json");
    request.body = as_bytes(text);
  }
  HttpAnswer answer = WARREN_TRY(client_->call(request));
  if (!answer.is_success()) {
    return Error(code_of_status(answer.status), fmt::format("the service answered with status {}: {}", answer.status,
                                                            printable(said_in(answer.body).substr(0, kShownBytes))));
  }
  if (answer.body.empty()) return Json();
  Result<Json> value = parse_json(answer.body);
  if (!value.ok()) return Error(Code::kUnavailable, "the service's answer is not JSON");
  return value;
}

Json member_at(const Json& answer, const std::string& pointer) {
  Json::json_pointer at(pointer);
  return answer.contains(at) ? Json(answer.at(at)) : Json();
}

Json list_at(const Json& answer, const std::string& pointer) {
  Json list = member_at(answer, pointer);
  return list.is_array() ? list : Json(Json::array());
}

std::string text_at(const Json& answer, const std::string& pointer) {
  Json text = member_at(answer, pointer);
  return text.is_string() ? text.get<std::string>() : std::string();
}

Result<std::string> http_base(const Url& url, std::uint16_t default_port, Tls fallback) {
  if (url.hosts.size() != 1) return Error(Code::kInvalid, "the address must name one host");
  HostPort place = WARREN_TRY(parse_host_port(url.hosts[0], default_port));
  bool has_tls = fallback == Tls::kYes;
  if (const std::string* given = url.find("tls")) {
    if (*given != "yes" && *given != "no") return Error(Code::kInvalid, "tls in the address must be yes or no");
    has_tls = *given == "yes";
  }
  bool is_ipv6 = place.host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", has_tls ? "https" : "http", is_ipv6 ? "[" : "", place.host, is_ipv6 ? "]" : "",
                     place.port);
}

Status check_url_options(const Url& url, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : url.query) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string names;
    for (std::string_view one : known) names += fmt::format("{}{}", names.empty() ? "" : ", ", one);
    return Error(Code::kInvalid, fmt::format("the address has an unknown option {}; known are {}", quote(name), names));
  }
  return Ok{};
}

Json flat_metadata(const Json& metadata) {
  Json flat = Json::object();
  for (const auto& [key, value] : metadata.items()) {
    if (value.is_string() || value.is_boolean()) flat[key] = value;
    else if (value.is_number()) flat[key] = value.get<double>();
  }
  flat[std::string(kWholeMetadata)] = dump_json(metadata);
  return flat;
}

Json whole_metadata(const Json& flat) {
  if (!flat.is_object()) return Json::object();
  auto found = flat.find(kWholeMetadata);
  if (found != flat.end() && found->is_string()) {
    Result<Json> whole = parse_json(found->get<std::string>());
    if (whole.ok() && whole->is_object()) return std::move(whole).value();
  }
  return flat;
}

namespace {

Json mongo_group(std::string_view op, Json conditions) {
  if (conditions.empty()) return Json();
  if (conditions.size() == 1) return Json(conditions[0]);
  Json group = Json::object();
  group[std::string(op)] = std::move(conditions);
  return group;
}

Json mongo_test(const VectorCondition& condition, Json value) {
  Json test = Json::object();
  test[std::string(name_of(condition.op))] = std::move(value);
  Json one = Json::object();
  one[condition.key] = std::move(test);
  return one;
}

// A list must have values of one type.
Json mongo_condition(const VectorCondition& condition) {
  Json value = filter_value(condition.value);
  if (!value.is_array() || value.empty()) return mongo_test(condition, std::move(value));
  std::map<Json::value_t, Json> by_type;
  for (Json& one : value) by_type[one.type()].push_back(std::move(one));
  Json tests = Json::array();
  for (auto& [type, values] : by_type) tests.push_back(mongo_test(condition, std::move(values)));
  return mongo_group(condition.op == VectorCondition::Operator::kIn ? "$or" : "$and", std::move(tests));
}

}  // namespace

Json mongo_filter(const VectorFilter& filter) {
  Json conditions = Json::array();
  for (const VectorCondition& condition : filter) conditions.push_back(mongo_condition(condition));
  return mongo_group("$and", std::move(conditions));
}

Result<std::vector<float>> numbers_of(const Json& list) {
  std::vector<float> numbers;
  if (!list.is_array()) return Error(Code::kUnavailable, "the service's answer has no embedding");
  for (const Json& number : list) {
    if (!number.is_number()) return Error(Code::kUnavailable, "the service's answer has an invalid embedding");
    numbers.push_back(static_cast<float>(number.get<double>()));
  }
  return numbers;
}

VectorPage page_of(std::vector<std::string> ids, const VectorListOptions& options) {
  std::erase_if(ids, [&](const std::string& id) { return !id.starts_with(options.prefix) || id <= options.after; });
  std::sort(ids.begin(), ids.end());
  VectorPage page;
  std::size_t limit = std::max<std::size_t>(options.limit, 1);
  if (ids.size() > limit) {
    ids.resize(limit);
    page.next = ids.back();
  }
  page.ids = std::move(ids);
  return page;
}

}  // namespace warren
