#include "tools/schema.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/check.h"
#include "base/path.h"

namespace warren {
namespace {

constexpr std::array<std::string_view, 17> kKeywords{"type",      "properties",  "required", "additionalProperties",
                                                     "items",     "enum",        "minimum",  "maximum",
                                                     "minLength", "maxLength",   "minItems", "maxItems",
                                                     "title",     "description", "default",  "examples",
                                                     "$schema"};

bool has_type(std::string_view type, const Json& value) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (type != "integer") return false;
  // 2.0 is a whole number, too: some models write all numbers so.
  return value.is_number_integer() ||
         (value.is_number_float() && value.get<double>() >= -9e15 && value.get<double>() <= 9e15 &&
          value.get<double>() == static_cast<double>(value.get<std::int64_t>()));
}

std::string name_of_type(std::string_view type) {
  if (type == "object") return "an object";
  if (type == "array") return "a list";
  if (type == "string") return "text";
  if (type == "boolean") return "true or false";
  if (type == "integer") return "a whole number";
  if (type == "null") return "null";
  return "a number";
}

// "argument 'patches[0].start_line'"
std::string named(const std::string& at) { return at.empty() ? "the arguments" : "argument " + quote(at); }

std::string below(const std::string& at, std::string_view name) {
  return at.empty() ? std::string(name) : fmt::format("{}.{}", at, name);
}

std::string joined(const Json& list) {
  std::string all;
  for (const Json& one : list) {
    all += all.empty() ? "" : ", ";
    all += one.is_string() ? quote(one.get_ref<const std::string&>()) : dump_json(one);
  }
  return all;
}

std::string names_in(const Json& object) {
  std::string all;
  for (const auto& [name, value] : object.items()) all += (all.empty() ? "" : ", ") + name;
  return all.empty() ? "nothing" : all;
}

std::optional<std::string> find_type_problem(const Json& schema, const Json& value, const std::string& at) {
  auto type = schema.find("type");
  if (type == schema.end()) return std::nullopt;
  std::string wanted;
  for (const Json& one : type->is_array() ? *type : Json::array({*type})) {
    const auto& name = one.get_ref<const std::string&>();
    if (has_type(name, value)) return std::nullopt;
    wanted += (wanted.empty() ? "" : " or ") + name_of_type(name);
  }
  return fmt::format("{} must be {}, not {}", named(at), wanted, value.is_null() ? "null" : value.type_name());
}

std::optional<std::string> find_number_problem(const Json& schema, const Json& value, const std::string& at) {
  if (!value.is_number()) return std::nullopt;
  if (auto least = schema.find("minimum"); least != schema.end() && value < *least) {
    return fmt::format("{} must be {} or more, not {}", named(at), dump_json(*least), dump_json(value));
  }
  if (auto most = schema.find("maximum"); most != schema.end() && value > *most) {
    return fmt::format("{} must be {} or less, not {}", named(at), dump_json(*most), dump_json(value));
  }
  return std::nullopt;
}

// Bytes of a text, elements of a list.
std::optional<std::string> find_length_problem(const Json& schema, const Json& value, const std::string& at) {
  if (!value.is_string() && !value.is_array()) return std::nullopt;
  bool is_text = value.is_string();
  std::size_t length = is_text ? value.get_ref<const std::string&>().size() : value.size();
  const char* unit = is_text ? "bytes" : "elements";
  if (auto least = schema.find(is_text ? "minLength" : "minItems"); least != schema.end() && length < *least) {
    return fmt::format("{} must have {} {} or more, not {}", named(at), dump_json(*least), unit, length);
  }
  if (auto most = schema.find(is_text ? "maxLength" : "maxItems"); most != schema.end() && length > *most) {
    return fmt::format("{} must have {} {} or less, not {}", named(at), dump_json(*most), unit, length);
  }
  return std::nullopt;
}

std::optional<std::string> find_problem(const Json& schema, const Json& value, const std::string& at);

std::optional<std::string> find_member_problem(const Json& schema, const Json& value, const std::string& at) {
  static const Json kNothing = Json::object();
  auto found = schema.find("properties");
  const Json& properties = found == schema.end() ? kNothing : *found;
  auto others = schema.find("additionalProperties");
  for (const auto& [name, member] : value.items()) {
    if (auto known = properties.find(name); known != properties.end()) {
      if (auto problem = find_problem(*known, member, below(at, name))) return problem;
    } else if (others == schema.end() || (others->is_boolean() && !others->get<bool>())) {
      return fmt::format("unknown argument {}; known here: {}", quote(below(at, name)), names_in(properties));
    } else if (others->is_object()) {
      if (auto problem = find_problem(*others, member, below(at, name))) return problem;
    }
  }
  if (auto required = schema.find("required"); required != schema.end()) {
    for (const Json& name : *required) {
      const auto& text = name.get_ref<const std::string&>();
      if (!value.contains(text)) return fmt::format("argument {} is missing", quote(below(at, text)));
    }
  }
  return std::nullopt;
}

// Recursion follows the schema, which is ours and shallow, not the value.
std::optional<std::string> find_problem(const Json& schema, const Json& value, const std::string& at) {
  if (auto problem = find_type_problem(schema, value, at)) return problem;
  if (auto choices = schema.find("enum");
      choices != schema.end() && std::find(choices->begin(), choices->end(), value) == choices->end()) {
    return fmt::format("{} must be one of {}, not {}", named(at), joined(*choices),
                       value.is_string() ? quote(value.get_ref<const std::string&>()) : dump_json(value));
  }
  if (auto problem = find_number_problem(schema, value, at)) return problem;
  if (auto problem = find_length_problem(schema, value, at)) return problem;
  if (value.is_object()) return find_member_problem(schema, value, at);
  auto items = schema.find("items");
  if (!value.is_array() || items == schema.end()) return std::nullopt;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (auto problem = find_problem(*items, value[i], fmt::format("{}[{}]", at, i))) return problem;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_schema_problem(const Json& schema, const Json& value) {
  return find_problem(schema, value, "");
}

std::optional<std::string> find_unknown_keyword(const Json& schema) {
  if (!schema.is_object()) return std::nullopt;
  for (const auto& [keyword, value] : schema.items()) {
    if (std::find(kKeywords.begin(), kKeywords.end(), keyword) == kKeywords.end()) return keyword;
    if (keyword == "items" || keyword == "additionalProperties") {
      if (auto unknown = find_unknown_keyword(value)) return unknown;
    }
    if (keyword != "properties") continue;
    for (const auto& [name, property] : value.items()) {
      if (auto unknown = find_unknown_keyword(property)) return unknown;
    }
  }
  return std::nullopt;
}

Json text_schema(std::string_view description) { return {{"type", "string"}, {"description", description}}; }

Json whole_number_schema(std::string_view description, std::int64_t minimum) {
  return {{"type", "integer"}, {"description", description}, {"minimum", minimum}};
}

Json flag_schema(std::string_view description) { return {{"type", "boolean"}, {"description", description}}; }

Json choice_schema(std::string_view description, std::initializer_list<std::string_view> choices) {
  Json list = Json::array();
  for (std::string_view choice : choices) list.push_back(choice);
  return {{"type", "string"}, {"description", description}, {"enum", std::move(list)}};
}

Json list_schema(std::string_view description, Json items) {
  return {{"type", "array"}, {"description", description}, {"items", std::move(items)}};
}

Json object_schema(Json properties, std::initializer_list<std::string_view> required) {
  Json names = Json::array();
  for (std::string_view name : required) {
    WARREN_CHECK(properties.contains(std::string(name)));
    names.push_back(name);
  }
  Json schema{{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  if (!names.empty()) schema["required"] = std::move(names);
  return schema;
}

}  // namespace warren
