// The part of JSON Schema that tools describe themselves with, and the check of a value against it.
//
// Keywords: type (one name or a list), properties, required, additionalProperties, items, enum, minimum, maximum,
// minLength, maxLength (bytes), minItems, maxItems. title, description, default and examples are for readers. An object
// takes no names that its schema does not list, unless additionalProperties says so.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace warren {

// What is wrong with the value, and where: "argument 'offset' must be 1 or more". nullopt: nothing.
std::optional<std::string> find_schema_problem(const Json& schema, const Json& value);

// The first keyword in the schema, at any depth, that is not in the list above; nullopt if there is none.
std::optional<std::string> find_unknown_keyword(const Json& schema);

// Building schemas.
Json text_schema(std::string_view description);
Json whole_number_schema(std::string_view description, std::int64_t minimum);
Json flag_schema(std::string_view description);
Json choice_schema(std::string_view description, std::initializer_list<std::string_view> choices);
Json list_schema(std::string_view description, Json items);
// An object with these properties and no others; those in `required` must be given.
Json object_schema(Json properties, std::initializer_list<std::string_view> required);

}  // namespace warren
