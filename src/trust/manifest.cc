#include "trust/manifest.h"

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/path.h"
#include "base/strict_json.h"

namespace warren {
namespace {

// Before the signed bytes, so that no signature made for another purpose passes as one of a manifest.
constexpr std::string_view kPurpose = "warren manifest 1\n";
constexpr std::string_view kVersionMember = "warren_manifest";

Error wrong(std::string message) { return Error(Code::kInvalid, std::move(message)); }

// The signed bytes are the same in every language then.
bool is_printable_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

bool is_identity(std::string_view id) {
  auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  return !id.empty() && id.size() <= Manifest::kIdentityBytesMax && std::ranges::all_of(id, allowed);
}

Result<const Json*> member(const Json& object, const char* name) {
  auto found = object.find(name);
  if (found == object.end()) return wrong(fmt::format("{} is missing", quote(name)));
  return &*found;
}

Result<std::string> text_member(const Json& object, const char* name) {
  const Json* value = WARREN_TRY(member(object, name));
  if (!value->is_string()) return wrong(fmt::format("{} must be a string", quote(name)));
  return value->get<std::string>();
}

Result<std::uint64_t> number_member(const Json& object, const char* name) {
  const Json* value = WARREN_TRY(member(object, name));
  bool is_count = value->is_number_unsigned() || (value->is_number_integer() && value->get<std::int64_t>() >= 0);
  if (!is_count) return wrong(fmt::format("{} must be a whole number, 0 or more", quote(name)));
  return value->get<std::uint64_t>();
}

Result<bool> flag_member(const Json& object, const char* name) {
  const Json* value = WARREN_TRY(member(object, name));
  if (!value->is_boolean()) return wrong(fmt::format("{} must be true or false", quote(name)));
  return value->get<bool>();
}

Result<std::vector<std::string>> list_member(const Json& object, const char* name) {
  const Json* value = WARREN_TRY(member(object, name));
  if (!value->is_array()) return wrong(fmt::format("{} must be a list of strings", quote(name)));
  std::vector<std::string> all;
  for (const Json& one : *value) {
    if (!one.is_string()) return wrong(fmt::format("{} must be a list of strings", quote(name)));
    all.push_back(one.get<std::string>());
    if (all.size() > Manifest::kListMax) break;  // check() refuses it
  }
  return all;
}

Result<Ed25519Public> key_member(const Json& object, const char* name) {
  std::string text = WARREN_TRY(text_member(object, name));
  std::optional<Ed25519Public> key = Ed25519Public::parse(text);
  if (!key) return wrong(fmt::format("{} is not an Ed25519 public key: ed25519: and 44 characters", quote(name)));
  return *key;
}

template <class Enum, std::size_t N>
Result<Enum> named_member(const Json& object, const char* name, const std::array<std::string_view, N>& names) {
  std::string text = WARREN_TRY(text_member(object, name));
  std::optional<Enum> found = find_named<Enum>(names, text);
  if (!found) return wrong(fmt::format("{}: {} is not one of {}", quote(name), quote(text), fmt::join(names, ", ")));
  return *found;
}

Status check_member_names(const Json& object, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return wrong(fmt::format("unknown member {}", quote(name)));
    }
  }
  return Ok{};
}

Status check_list(const std::vector<std::string>& list, std::string_view name) {
  if (list.size() > Manifest::kListMax) {
    return Error(Code::kLimit, fmt::format("a manifest has at most {} {}", Manifest::kListMax, name));
  }
  for (const std::string& text : list) {
    if (text.empty() || text.size() > Manifest::kTextBytesMax || !is_printable_ascii(text)) {
      return wrong(
          fmt::format("{}: {} is not 1 to {} printable ASCII characters", name, quote(text), Manifest::kTextBytesMax));
    }
  }
  return Ok{};
}

}  // namespace

Result<Scope> parse_scope(std::string_view text) {
  std::vector<std::string_view> areas;
  for (const ScopeArea& area : kScopeAreas) areas.push_back(area.name);
  auto invalid = [&](std::string_view why) {
    return Error(Code::kInvalid, fmt::format("scope {}: {}", quote(text), why),
                 fmt::format("a scope is AREA:VERB or /PATH:VERB; areas are {}; verbs are {}", fmt::join(areas, ", "),
                             fmt::join(kScopeVerbs, ", ")));
  };
  std::size_t colon = text.rfind(':');
  if (colon == text.npos) return invalid("it has no ':'");
  std::optional<Scope::Verb> verb = find_named<Scope::Verb>(kScopeVerbs, text.substr(colon + 1));
  if (!verb) return invalid("unknown verb");
  std::string_view where = text.substr(0, colon);
  if (where.starts_with('/')) {
    Result<std::vector<std::string_view>> names = split_path(where);
    if (!names.ok()) return invalid(names.error().message());
    if (std::find(names->begin(), names->end(), "..") != names->end()) return invalid("a path cannot contain '..'");
    std::string path = WARREN_TRY(normalise_path(where));
    return Scope{.path = std::move(path), .verb = *verb};
  }
  for (const ScopeArea& area : kScopeAreas) {
    if (area.name == where) return Scope{.path = std::string(area.path), .verb = *verb};
  }
  return invalid("unknown area");
}

bool covers(const Scope& scope, std::string_view path) {
  if (scope.path == "/") return true;
  bool is_below = path.size() > scope.path.size() && path[scope.path.size()] == '/';
  return path.starts_with(scope.path) && (path.size() == scope.path.size() || is_below);
}

Result<Manifest> Manifest::parse(std::string_view text) {
  if (text.size() > kBytesMax) {
    return Error(Code::kTooLarge, fmt::format("a manifest has at most {} bytes", kBytesMax));
  }
  Json json = WARREN_TRY(parse_strict_json(text));
  return from_json(json);
}

Result<Manifest> Manifest::from_json(const Json& json) {
  if (!json.is_object()) return wrong("a manifest is a JSON object");
  WARREN_TRY(check_member_names(
      json, {kVersionMember, "identity", "key", "serial", "issued_at", "expires_at", "trust_level", "scopes",
             "capabilities", "reversibility", "retention", "human_review", "training_use", "signature"}));
  auto version = json.find(kVersionMember);
  if (version == json.end() || *version != kVersion) {
    return wrong(fmt::format("{} must be {}", quote(kVersionMember), kVersion));
  }
  Manifest made;
  made.identity = WARREN_TRY(text_member(json, "identity"));
  made.key = WARREN_TRY(key_member(json, "key"));
  made.serial = WARREN_TRY(number_member(json, "serial"));
  std::uint64_t issued = WARREN_TRY(number_member(json, "issued_at"));
  std::uint64_t expires = WARREN_TRY(number_member(json, "expires_at"));
  if (std::max(issued, expires) > static_cast<std::uint64_t>(kTimeMax)) {
    return wrong("'issued_at' and 'expires_at' are seconds since 1970, before the year 10000");
  }
  made.issued_at = static_cast<std::int64_t>(issued);
  made.expires_at = static_cast<std::int64_t>(expires);
  made.level = WARREN_TRY(named_member<TrustLevel>(json, "trust_level", kTrustLevelNames));
  made.scopes = WARREN_TRY(list_member(json, "scopes"));
  made.capabilities = WARREN_TRY(list_member(json, "capabilities"));
  made.reversibility = WARREN_TRY(named_member<Reversibility>(json, "reversibility", kReversibilityNames));
  made.retention = WARREN_TRY(named_member<Retention>(json, "retention", kRetentionNames));
  made.human_review = WARREN_TRY(flag_member(json, "human_review"));
  made.training_use = WARREN_TRY(flag_member(json, "training_use"));
  if (auto found = json.find("signature"); found != json.end()) {
    if (!found->is_object()) return wrong("'signature' must be an object");
    WARREN_TRY(check_member_names(*found, {"by", "value"}).within("signature"));
    Signed made_by;
    made_by.by = WARREN_TRY(key_member(*found, "by").within("signature"));
    std::string value = WARREN_TRY(text_member(*found, "value").within("signature"));
    std::optional<Ed25519Signature> parsed = Ed25519Signature::parse(value);
    if (!parsed) return wrong("signature: 'value' is not 64 bytes in base64");
    made_by.signature = *parsed;
    made.signature = made_by;
  }
  WARREN_TRY(made.check());
  return made;
}

Status Manifest::check() const {
  if (!is_identity(identity)) {
    return wrong(fmt::format("'identity': {} is not a valid agent id", quote(identity)))
        .with_hint("use only letters, digits, '-' and '_', at most 200 characters");
  }
  if (serial == 0 || serial > kSerialMax) return wrong(fmt::format("'serial' must be within 1 and {}", kSerialMax));
  if (issued_at < 0 || expires_at > kTimeMax) return wrong("its times must be within 1970 and 9999");
  if (expires_at <= issued_at) return wrong("'expires_at' must be later than 'issued_at'");
  WARREN_TRY(check_list(scopes, "scopes"));
  WARREN_TRY(check_list(capabilities, "capabilities"));
  for (const std::string& scope : scopes) WARREN_TRY(parse_scope(scope));
  return Ok{};
}

Json Manifest::to_json() const {
  Json json{{kVersionMember, kVersion},
            {"identity", identity},
            {"key", key.text()},
            {"serial", serial},
            {"issued_at", issued_at},
            {"expires_at", expires_at},
            {"trust_level", name_of(level)},
            {"scopes", scopes},
            {"capabilities", capabilities},
            {"reversibility", name_of(reversibility)},
            {"retention", name_of(retention)},
            {"human_review", human_review},
            {"training_use", training_use}};
  if (signature) json["signature"] = {{"by", signature->by.text()}, {"value", signature->signature.text()}};
  return json;
}

std::string Manifest::text() const { return dump_json_pretty(to_json()) + "\n"; }

// RFC 8785 for values like these: members by name, no blanks. All text is printable ASCII, so escaping is that of JSON.
std::string Manifest::signed_bytes() const {
  Json json = to_json();
  std::vector<std::string> names;
  for (const auto& [name, value] : json.items()) {
    if (name != "signature") names.push_back(name);
  }
  std::ranges::sort(names);
  Json sorted = Json::object();
  for (const std::string& name : names) sorted[name] = json[name];
  return std::string(kPurpose) + dump_json(sorted);
}

void Manifest::sign(const Ed25519Private& issuer) {
  signature = Signed{.by = issuer.public_key(), .signature = issuer.sign(as_bytes(signed_bytes()))};
}

bool Manifest::has_good_signature() const {
  return signature && signature->by.verifies(as_bytes(signed_bytes()), signature->signature);
}

int declared_score(const Manifest& manifest) {
  constexpr std::array<int, 5> kByLevel{10, 7, 5, 2, 0};
  int score = kByLevel[static_cast<std::size_t>(manifest.level)];
  if (manifest.reversibility != Reversibility::kNone) score += 2;
  if (manifest.retention == Retention::kEphemeral) score += 1;
  if (manifest.retention == Retention::kPermanent) score -= 1;
  if (manifest.human_review) score -= 2;
  if (manifest.training_use) score -= 1;
  return std::clamp(score, 0, kTrustScoreMax);
}

}  // namespace warren
