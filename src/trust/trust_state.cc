#include "trust/trust_state.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/path.h"

namespace warren {
namespace {

constexpr int kStateVersion = 2;
constexpr int kVersionWithoutIssuers = 1;

struct VerdictText {
  std::string_view name;
  std::string_view reason;
};
// In the order of TrustVerdict.
constexpr std::array<VerdictText, 11> kVerdicts{{
    {"good", "it is valid"},
    {"unknown", "no manifest of this agent was accepted"},
    {"unsigned", "it is not signed"},
    {"self_signed", "it is signed by the key that it is about: what an agent declares about itself counts as zero"},
    {"bad_signature", "its signature does not match: it was changed after it was signed, or signed by another key"},
    {"untrusted_key", "it is signed by a key that you do not trust"},
    {"revoked_key", "its key, or the key that signed it, was revoked"},
    {"revoked", "it was revoked"},
    {"replayed", "a newer manifest of this agent was accepted before"},
    {"not_yet_valid", "it is not valid yet"},
    {"expired", "it has expired"},
}};

Error damaged(std::string_view what) {
  return Error(Code::kCorrupt, fmt::format("the list of trusted keys and manifests is damaged: {}", what));
}

Result<Ed25519Public> stored_key(const Json& value) {
  std::optional<Ed25519Public> key;
  if (value.is_string()) key = Ed25519Public::parse(value.get<std::string>());
  if (!key) return damaged("not a key");
  return *key;
}

Status read_keys(const Json& list, TrustState& state) {
  for (const Json& one : list) {
    if (!one.is_object() || !one.contains("key")) return damaged("a key has no 'key'");
    Ed25519Public key = WARREN_TRY(stored_key(one["key"]));
    Json name = one.value("name", Json());
    Json added = one.value("added_at", Json());
    if (!name.is_string() || !added.is_number_integer()) return damaged("a key has no 'name' or 'added_at'");
    state.keys[key] = {.name = name.get<std::string>(), .added_at = added.get<std::int64_t>()};
  }
  return Ok{};
}

Status read_serials(const Json& object, std::map<std::string, std::uint64_t, std::less<>>& serials) {
  for (const auto& [identity, serial] : object.items()) {
    if (!serial.is_number_unsigned()) return damaged("a serial is not a number");
    serials[identity] = serial.get<std::uint64_t>();
  }
  return Ok{};
}

// That of an accepted manifest is its signer.
Status read_issuers(const Json& object, TrustState& state) {
  for (const auto& [identity, key] : object.items()) state.issuers[identity] = WARREN_TRY(stored_key(key));
  for (const auto& [identity, manifest] : state.manifests) state.issuers[identity] = manifest.signature->by;
  return Ok{};
}

Error too_many(std::string_view what) {
  return Error(Code::kLimit, fmt::format("there are {} {} already", kTrustIdentitiesMax, what));
}

}  // namespace

std::string_view name_of(TrustVerdict verdict) { return kVerdicts[static_cast<std::size_t>(verdict)].name; }
std::string_view reason_of(TrustVerdict verdict) { return kVerdicts[static_cast<std::size_t>(verdict)].reason; }

// What was stored is ours, but a damaged file must not become a shorter list of revocations: every member is required.
Result<TrustState> TrustState::parse(std::string_view text) {
  Result<Json> parsed = parse_json(text);
  if (!parsed.ok()) return damaged(parsed.error().message());
  const Json& json = *parsed;
  if (!json.is_object()) return damaged("not an object");
  bool has_issuers = json.value("version", Json()) == kStateVersion;
  if (!has_issuers && json.value("version", Json()) != kVersionWithoutIssuers) return damaged("unknown version");
  for (const char* list : {"keys", "manifests", "revoked_keys"}) {
    if (!json.contains(list) || !json[list].is_array()) return damaged(fmt::format("no list {}", quote(list)));
  }
  for (const char* object : {"newest_serials", "revoked_serials", "issuers"}) {
    if (!has_issuers && object == std::string_view("issuers")) continue;
    if (!json.contains(object) || !json[object].is_object()) return damaged(fmt::format("no {}", quote(object)));
  }
  TrustState state;
  WARREN_TRY(read_keys(json["keys"], state));
  for (const Json& one : json["manifests"]) {
    Result<Manifest> manifest = Manifest::from_json(one);
    if (!manifest.ok()) return damaged(manifest.error().message());
    if (!manifest->has_good_signature()) {
      return damaged(fmt::format("the manifest of {} was changed after it was signed", quote(manifest->identity)));
    }
    state.manifests.insert_or_assign(manifest->identity, *manifest);
  }
  for (const Json& one : json["revoked_keys"]) state.revoked_keys.insert(WARREN_TRY(stored_key(one)));
  WARREN_TRY(read_serials(json["newest_serials"], state.newest_serials));
  WARREN_TRY(read_serials(json["revoked_serials"], state.revoked_serials));
  WARREN_TRY(read_issuers(has_issuers ? json["issuers"] : Json::object(), state));
  return state;
}

std::string TrustState::text() const {
  Json json{{"version", kStateVersion},          {"keys", Json::array()},
            {"manifests", Json::array()},        {"newest_serials", Json::object()},
            {"revoked_serials", Json::object()}, {"revoked_keys", Json::array()},
            {"issuers", Json::object()}};
  for (const auto& [key, about] : keys) {
    json["keys"].push_back({{"key", key.text()}, {"name", about.name}, {"added_at", about.added_at}});
  }
  for (const auto& [identity, manifest] : manifests) json["manifests"].push_back(manifest.to_json());
  for (const auto& [identity, serial] : newest_serials) json["newest_serials"][identity] = serial;
  for (const auto& [identity, serial] : revoked_serials) json["revoked_serials"][identity] = serial;
  for (const auto& [identity, issuer] : issuers) json["issuers"][identity] = issuer.text();
  for (const Ed25519Public& key : revoked_keys) json["revoked_keys"].push_back(key.text());
  return dump_json_pretty(json) + "\n";
}

Status TrustState::add_key(const Ed25519Public& key, TrustedKey about) {
  if (revoked_keys.contains(key)) {
    return Error(Code::kDenied, "this key was revoked, and is never trusted again", "make a new one");
  }
  if (keys.contains(key)) return Error(Code::kExists, "this key is trusted already");
  if (keys.size() >= kTrustIdentitiesMax) return too_many("keys");
  keys[key] = std::move(about);
  return Ok{};
}

std::string TrustState::name_of(const Ed25519Public& key) const {
  auto known = keys.find(key);
  bool has_name = known != keys.end() && !known->second.name.empty();
  return has_name ? fmt::format("{} ({})", key.text(), quote(known->second.name)) : key.text();
}

Result<bool> TrustState::accept(const Manifest& manifest, std::int64_t now, NewIssuer new_issuer) {
  const std::string& identity = manifest.identity;
  auto newest = newest_serials.find(identity);
  auto there = manifests.find(identity);
  Standing standing = judge(manifest, now);
  if (standing.verdict == TrustVerdict::kReplayed) {
    return Error(Code::kConflict,
                 fmt::format("the manifest of {} has the serial {}, and {} was accepted before", quote(identity),
                             manifest.serial, newest->second),
                 "a newer manifest needs a higher serial");
  }
  if (!standing.is_good()) {
    std::string hint;
    if (standing.verdict == TrustVerdict::kUntrustedKey) {
      hint = fmt::format("if you trust it: `warren trust add {}`", manifest.signature->by.text());
    }
    return Error(Code::kDenied,
                 fmt::format("the manifest of {} is refused: {}", quote(identity), reason_of(standing.verdict)), hint);
  }
  if (there != manifests.end() && there->second == manifest) return false;
  auto issuer = issuers.find(identity);
  bool is_other = issuer != issuers.end() && issuer->second != manifest.signature->by;
  if (is_other && new_issuer == NewIssuer::kRefuse) {
    return Error(Code::kConflict,
                 fmt::format("the manifest of {} is signed by {}, and the one before by {}", quote(identity),
                             name_of(manifest.signature->by), name_of(issuer->second)),
                 "if that is meant: --new-issuer");
  }
  if (newest == newest_serials.end() && newest_serials.size() >= kTrustIdentitiesMax) return too_many("agents");
  newest_serials[identity] = manifest.serial;
  issuers.insert_or_assign(identity, manifest.signature->by);
  manifests.insert_or_assign(identity, manifest);
  return true;
}

Status TrustState::revoke_key(const Ed25519Public& key) {
  if (revoked_keys.contains(key)) return Error(Code::kExists, "this key was revoked before");
  if (revoked_keys.size() >= kTrustIdentitiesMax) return too_many("revoked keys");
  revoked_keys.insert(key);
  keys.erase(key);
  return Ok{};
}

Status TrustState::revoke_identity(std::string_view identity, std::optional<std::uint64_t> serial) {
  auto newest = newest_serials.find(identity);
  if (!serial) {
    if (newest == newest_serials.end()) {
      return Error(Code::kNotFound, fmt::format("no manifest of {} was accepted", quote(identity)),
                   "--serial N revokes one that was not accepted yet, and all before it");
    }
    serial = newest->second;
  }
  auto revoked = revoked_serials.find(identity);
  if (revoked != revoked_serials.end() && revoked->second >= *serial) {
    return Error(Code::kExists, fmt::format("serial {} of {} was revoked before", *serial, quote(identity)));
  }
  if (revoked == revoked_serials.end() && revoked_serials.size() >= kTrustIdentitiesMax) return too_many("revocations");
  revoked_serials[std::string(identity)] = *serial;
  auto there = manifests.find(identity);
  if (there != manifests.end() && there->second.serial <= *serial) manifests.erase(there);
  return Ok{};
}

Standing TrustState::judge(const Manifest& manifest, std::int64_t now) const {
  Standing standing = judge_verified(manifest, now);
  bool is_by_trusted = manifest.signature && keys.contains(manifest.signature->by);
  if (is_by_trusted && !manifest.has_good_signature()) return {TrustVerdict::kBadSignature};
  return standing;
}

Standing TrustState::judge_verified(const Manifest& manifest, std::int64_t now) const {
  if (!manifest.signature) return {TrustVerdict::kUnsigned};
  const Ed25519Public& issuer = manifest.signature->by;
  if (revoked_keys.contains(issuer) || revoked_keys.contains(manifest.key)) return {TrustVerdict::kRevokedKey};
  if (issuer == manifest.key) return {TrustVerdict::kSelfSigned};
  if (!keys.contains(issuer)) return {TrustVerdict::kUntrustedKey};
  auto revoked = revoked_serials.find(manifest.identity);
  if (revoked != revoked_serials.end() && manifest.serial <= revoked->second) return {TrustVerdict::kRevoked};
  auto newest = newest_serials.find(manifest.identity);
  if (newest != newest_serials.end() && manifest.serial <= newest->second) {
    auto there = manifests.find(manifest.identity);
    bool is_that = there != manifests.end() && there->second == manifest;
    if (!is_that) return {TrustVerdict::kReplayed};
  }
  if (manifest.issued_at > now + kTrustSkewSeconds) return {TrustVerdict::kNotYetValid};
  if (manifest.expires_at <= now) return {TrustVerdict::kExpired};
  return {TrustVerdict::kGood, declared_score(manifest)};
}

TrustState::Known TrustState::find(std::string_view identity, std::int64_t now) const {
  auto there = manifests.find(identity);
  if (there != manifests.end()) return {&there->second, judge_verified(there->second, now)};
  bool is_revoked = revoked_serials.contains(identity);
  return {nullptr, {is_revoked ? TrustVerdict::kRevoked : TrustVerdict::kUnknown}};
}

std::vector<Scope> TrustState::shared(std::string_view owner, std::string_view peer, int threshold,
                                      std::int64_t now) const {
  std::vector<Scope> scopes;
  Known to = find(owner, now);
  Known from = find(peer, now);
  if (owner == peer || !to.standing.is_good() || !from.standing.is_good()) return scopes;
  if (from.standing.score < threshold) return scopes;
  for (const std::string& text : to.manifest->scopes) {
    Result<Scope> scope = parse_scope(text);
    if (scope.ok()) scopes.push_back(std::move(scope).take_value());
  }
  return scopes;
}

}  // namespace warren
