// What the operator decided about other agents: keys whose signatures count, accepted manifests, revocations. And what
// a manifest is worth by that.
//
// A score counts only if the manifest is signed by a key that the operator trusts, is the newest one of the identity
// that was accepted, is within its validity period, and is not revoked. Whatever an agent declares about itself counts
// as zero.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "trust/manifest.h"

namespace warren {

inline constexpr int kTrustThreshold = 7;                   // RFC-002, 6.1
inline constexpr std::int64_t kTrustSkewSeconds = 300;      // by which an issuer's clock may be ahead
inline constexpr std::size_t kTrustIdentitiesMax = 10'000;  // and keys, and revocations

enum class TrustVerdict : std::uint8_t {
  kGood,
  kUnknown,  // no manifest of this identity was accepted
  kUnsigned,
  kSelfSigned,    // by the key that it is about
  kBadSignature,  // or it was changed afterwards
  kUntrustedKey,  // signed by a key that the operator does not trust
  kRevokedKey,    // the signer's, or the agent's own
  kRevoked,       // this serial of the identity, or an older one
  kReplayed,      // a newer one of the identity was accepted
  kNotYetValid,
  kExpired,
};
std::string_view name_of(TrustVerdict verdict);    // "untrusted_key"
std::string_view reason_of(TrustVerdict verdict);  // "it is signed by a key that you do not trust"

struct Standing {
  TrustVerdict verdict = TrustVerdict::kUnknown;
  int score = 0;  // 0 unless the verdict is good
  bool is_good() const { return verdict == TrustVerdict::kGood; }
};

struct TrustedKey {
  std::string name;  // for people; may be empty
  std::int64_t added_at = 0;
  bool operator==(const TrustedKey&) const = default;
};

// Whether an agent's manifest may be replaced by one that another key has signed. Whoever has that key decides from
// then on who the agent is.
enum class NewIssuer : bool { kRefuse, kAllow };

// A value; safe to read from several threads.
struct TrustState {
  std::map<Ed25519Public, TrustedKey> keys;
  std::map<std::string, Manifest, std::less<>> manifests;             // by identity
  std::map<std::string, std::uint64_t, std::less<>> newest_serials;   // ever accepted, also of what is gone
  std::map<std::string, Ed25519Public, std::less<>> issuers;          // of those newest ones, also of what is gone
  std::map<std::string, std::uint64_t, std::less<>> revoked_serials;  // this one and all before it
  std::set<Ed25519Public> revoked_keys;
  bool operator==(const TrustState&) const = default;

  static constexpr std::size_t kBytesMax = std::size_t{64} << 20;
  // kCorrupt, also if the signature of an accepted manifest does not match. So they need not be checked again.
  static Result<TrustState> parse(std::string_view text);
  std::string text() const;

  // kExists if it is trusted already, kDenied if it was revoked.
  Status add_key(const Ed25519Public& key, TrustedKey about);
  // kDenied says why it counts for nothing; kConflict if it is a replay: older than one that was accepted, or another
  // with the same serial; or signed by another key than the agent's manifest so far, also one that was revoked, unless
  // that is allowed. Accepting the same one again changes nothing and returns false.
  Result<bool> accept(const Manifest& manifest, std::int64_t now, NewIssuer new_issuer = NewIssuer::kRefuse);
  // For ever. kExists if it was revoked before.
  Status revoke_key(const Ed25519Public& key);
  // This and every older manifest of the identity; without a serial, all that were accepted so far (kNotFound if there
  // is none).
  Status revoke_identity(std::string_view identity, std::optional<std::uint64_t> serial);

  Standing judge(const Manifest& manifest, std::int64_t now) const;
  std::string name_of(const Ed25519Public& key) const;  // with what the operator calls it

  struct Known {
    const Manifest* manifest = nullptr;  // null: unknown
    Standing standing;
  };
  Known find(std::string_view identity, std::int64_t now) const;

  // What `owner` shares with `peer`: the scopes of its manifest if the peer's score is high enough, otherwise nothing.
  // The first two conditions of RFC-002, 6.1; the third is the owner's policy.
  std::vector<Scope> shared(std::string_view owner, std::string_view peer, int threshold, std::int64_t now) const;

 private:
  Standing judge_verified(const Manifest& manifest, std::int64_t now) const;  // its signature was checked before
};

}  // namespace warren
