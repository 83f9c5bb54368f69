// What is declared about an agent and signed by somebody: who it is, how far it is trusted, and what it shares.
//
// A manifest is a stranger's input: it is parsed strictly, and says nothing until its signature was checked
// (trust/trust_state.h). docs/design/trust.md has its form and the bytes that are signed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "crypto/ed25519.h"

namespace warren {

enum class TrustLevel : std::uint8_t { kVerifiedPartner, kTrusted, kStandard, kUnknown, kUntrusted };
enum class Reversibility : std::uint8_t { kFull, kPartial, kNone };
enum class Retention : std::uint8_t { kEphemeral, kTemporary, kPermanent };

// The names in manifests, in the order of the enumerators.
inline constexpr std::array<std::string_view, 5> kTrustLevelNames{"verified_partner", "trusted", "standard", "unknown",
                                                                  "untrusted"};
inline constexpr std::array<std::string_view, 3> kReversibilityNames{"full", "partial", "none"};
inline constexpr std::array<std::string_view, 3> kRetentionNames{"ephemeral", "temporary", "permanent"};

template <class Enum, std::size_t N>
std::optional<Enum> find_named(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

inline std::string_view name_of(TrustLevel level) { return kTrustLevelNames[static_cast<std::size_t>(level)]; }
inline std::string_view name_of(Reversibility value) { return kReversibilityNames[static_cast<std::size_t>(value)]; }
inline std::string_view name_of(Retention value) { return kRetentionNames[static_cast<std::size_t>(value)]; }

// What an agent shares with agents that are trusted enough: "data:read", "outbox:read", "/mem/semantic/public:read".
struct Scope {
  enum class Verb : std::uint8_t { kRead, kAppend, kWrite, kDelete };

  std::string path;  // normalised; everything below it, too
  Verb verb = Verb::kRead;
  bool operator==(const Scope&) const = default;
};
inline constexpr std::array<std::string_view, 4> kScopeVerbs{"read", "append", "write", "delete"};
struct ScopeArea {
  std::string_view name;
  std::string_view path;
};
inline constexpr std::array<ScopeArea, 4> kScopeAreas{
    {{"data", "/mem"}, {"state", "/state"}, {"outbox", "/ipc/outbox"}, {"all", "/"}}};
// kInvalid lists what is possible.
Result<Scope> parse_scope(std::string_view text);
// Whether a path is the scope's or below it. Both are normalised.
bool covers(const Scope& scope, std::string_view path);

struct Manifest {
  static constexpr int kVersion = 1;
  static constexpr std::size_t kBytesMax = std::size_t{64} << 10;
  static constexpr std::size_t kIdentityBytesMax = 200;
  static constexpr std::size_t kListMax = 64;                          // scopes, capabilities
  static constexpr std::size_t kTextBytesMax = 255;                    // of one of them
  static constexpr std::uint64_t kSerialMax = std::uint64_t{1} << 53;  // what every JSON reader keeps exactly
  static constexpr std::int64_t kTimeMax = 253'402'300'799;            // the end of the year 9999

  std::string identity;  // the agent's id
  Ed25519Public key;     // by which it proves to be that agent
  std::uint64_t serial = 1;
  std::int64_t issued_at = 0;   // Unix seconds
  std::int64_t expires_at = 0;  // valid before it
  TrustLevel level = TrustLevel::kUnknown;
  std::vector<std::string> scopes;        // each is valid (parse_scope)
  std::vector<std::string> capabilities;  // for people and programs; nothing here acts on them
  Reversibility reversibility = Reversibility::kNone;
  Retention retention = Retention::kTemporary;
  bool human_review = false;  // people read what the agent is given
  bool training_use = false;  // it is used to train models

  struct Signed {
    Ed25519Public by;
    Ed25519Signature signature;
    bool operator==(const Signed&) const = default;
  };
  std::optional<Signed> signature;

  // kInvalid names the member; unknown members are errors. kTooLarge.
  static Result<Manifest> parse(std::string_view text);
  static Result<Manifest> from_json(const Json& json);
  // What parse would refuse, for one that was put together here.
  Status check() const;

  Json to_json() const;
  std::string text() const;          // the JSON, readable, with a newline at its end
  std::string signed_bytes() const;  // what the signature covers: everything but itself

  void sign(const Ed25519Private& issuer);
  bool has_good_signature() const;  // by the key that it names, whoever's that is
  bool operator==(const Manifest&) const = default;
};

// By the table of IATP: 10, 7, 5, 2 or 0 by level; +2 for reversibility, +1 for ephemeral and −1 for permanent
// retention, −2 for human review, −1 for use in training; within 0 and 10. What it is worth depends on who signed it
// (trust/trust_state.h).
inline constexpr int kTrustScoreMax = 10;
int declared_score(const Manifest& manifest);

}  // namespace warren
