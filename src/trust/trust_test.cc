// Manifests, what they are worth, and where that is kept.
#include <sys/stat.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "os/files/host_files.h"
#include "testing/matchers.h"
#include "testing/mutations.h"
#include "testing/temp_dir.h"
#include "trust/manifest.h"
#include "trust/trust_file.h"
#include "trust/trust_state.h"

namespace warren {
namespace {

using testing::error_of;

constexpr std::int64_t kNow = 1'800'000'000;

Manifest plain_manifest(std::string identity, const Ed25519Private& key) {
  Manifest made;
  made.identity = std::move(identity);
  made.key = key.public_key();
  made.issued_at = kNow - 100;
  made.expires_at = kNow + 1000;
  made.level = TrustLevel::kTrusted;
  made.scopes = {"outbox:read", "/mem/semantic/public:read"};
  made.capabilities = {"search", "say \"hi\""};
  return made;
}

class Trust : public ::testing::Test {
 protected:
  Manifest manifest_of(std::string identity, std::uint64_t serial = 1) {
    Manifest made = plain_manifest(std::move(identity), agent_);
    made.serial = serial;
    made.sign(issuer_);
    return made;
  }

  Ed25519Private issuer_ = Ed25519Private::generate();
  Ed25519Private agent_ = Ed25519Private::generate();
  TrustState state_;
};

TEST(ManifestText, SurvivesAsTextAndItsSignatureHolds) {
  Ed25519Private issuer = Ed25519Private::generate();
  Ed25519Private key = Ed25519Private::generate();
  Manifest manifest = plain_manifest("alice", key);
  EXPECT_FALSE(manifest.has_good_signature());
  manifest.sign(issuer);
  Result<Manifest> again = Manifest::parse(manifest.text());
  ASSERT_OK(again);
  EXPECT_EQ(*again, manifest);
  EXPECT_TRUE(again->has_good_signature());
  // The form of the text does not matter, its content does.
  Json json = manifest.to_json();
  Json turned = Json::object();
  for (auto member = json.rbegin(); member != json.rend(); ++member) turned[member.key()] = member.value();
  Result<Manifest> reordered = Manifest::parse(dump_json(turned));
  ASSERT_OK(reordered);
  EXPECT_TRUE(reordered->has_good_signature());
}

TEST(ManifestText, TheSignedBytesAreSortedJsonWithoutBlanks) {
  Manifest manifest;
  manifest.identity = "a";
  manifest.expires_at = 1;
  EXPECT_EQ(manifest.signed_bytes(),
            "warren manifest 1\n"
            R"({"capabilities":[],"expires_at":1,"human_review":false,"identity":"a",)"
            R"("issued_at":0,"key":"ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","retention":"temporary",)"
            R"("reversibility":"none","scopes":[],"serial":1,"training_use":false,"trust_level":"unknown",)"
            R"("warren_manifest":1})");
}

TEST(ManifestText, EveryMemberIsCoveredByTheSignature) {
  Ed25519Private issuer = Ed25519Private::generate();
  Manifest manifest = plain_manifest("alice", Ed25519Private::generate());
  manifest.sign(issuer);
  std::vector<std::pair<const char*, Json>> changes{{"identity", "bob"},
                                                    {"key", issuer.public_key().text()},
                                                    {"serial", 2},
                                                    {"issued_at", 1},
                                                    {"expires_at", kNow + 1001},
                                                    {"trust_level", "verified_partner"},
                                                    {"scopes", {"all:write"}},
                                                    {"capabilities", {"other"}},
                                                    {"reversibility", "full"},
                                                    {"retention", "ephemeral"},
                                                    {"human_review", true},
                                                    {"training_use", true}};
  EXPECT_EQ(changes.size(), manifest.to_json().size() - 2);  // the version and the signature itself
  for (const auto& [name, value] : changes) {
    Json json = manifest.to_json();
    json[name] = value;
    Result<Manifest> bent = Manifest::from_json(json);
    ASSERT_OK(bent) << name;
    EXPECT_FALSE(bent->has_good_signature()) << name;
  }
}

TEST(ManifestText, NoMutationOfASignedManifestKeepsItsSignature) {
  Manifest manifest = plain_manifest("alice", Ed25519Private::generate());
  manifest.sign(Ed25519Private::generate());
  const std::string text = manifest.text();
  testing::Mutations mutations(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string bent = mutations.of(text);
    Result<Manifest> parsed = Manifest::parse(bent);
    if (!parsed.ok()) continue;
    EXPECT_OK(parsed->check()) << bent;
    EXPECT_EQ(*Manifest::parse(parsed->text()), *parsed) << bent;
    EXPECT_EQ(parsed->has_good_signature(), *parsed == manifest) << bent;
  }
}

TEST(ManifestText, AStrangersInputIsRefusedByTheNameOfWhatIsWrong) {
  Manifest manifest = plain_manifest("alice", Ed25519Private::generate());
  manifest.sign(Ed25519Private::generate());
  std::vector<std::pair<const char*, Json>> changes{{"identity", "../etc"},
                                                    {"identity", ""},
                                                    {"identity", 5},
                                                    {"identity", std::string(201, 'a')},
                                                    {"key", "ed25519:AAAA"},
                                                    {"serial", 0},
                                                    {"serial", -1},
                                                    {"serial", 1.5},
                                                    {"serial", Manifest::kSerialMax + 1},
                                                    {"expires_at", 5},
                                                    {"expires_at", std::uint64_t{1} << 63},
                                                    {"trust_level", "boss"},
                                                    {"scopes", "data:read"},
                                                    {"scopes", {"data:fly"}},
                                                    {"scopes", {"nowhere:read"}},
                                                    {"scopes", {"/a/../b:read"}},
                                                    {"scopes", {"data:read\n"}},
                                                    {"scopes", std::vector<std::string>(65, "data:read")},
                                                    {"capabilities", {1}},
                                                    {"capabilities", {std::string(256, 'a')}},
                                                    {"capabilities", {"\xc3\xa4"}},
                                                    {"retention", nullptr},
                                                    {"human_review", 0},
                                                    {"signature", "none"},
                                                    {"signature", Json::object()},
                                                    {"warren_manifest", 2},
                                                    {"surprise", 1}};
  for (const auto& [name, value] : changes) {
    Json json = manifest.to_json();
    json[name] = value;
    EXPECT_FALSE(Manifest::from_json(json).ok()) << name << " = " << dump_json(value);
  }
  const Json whole = manifest.to_json();
  for (const auto& [name, value] : whole.items()) {
    Json json = whole;
    json.erase(name);
    EXPECT_EQ(Manifest::from_json(json).ok(), name == "signature") << name;
  }
  for (std::string text : {std::string(), std::string("[]"), std::string("{"), std::string(1 << 17, '['),
                           std::string(Manifest::kBytesMax, '['), std::string("{\"identity\":\xff}")}) {
    EXPECT_FALSE(Manifest::parse(text).ok());
  }
}

TEST(ManifestText, ScopesAreAreasOrPaths) {
  auto path_of = [](std::string_view text) {
    Result<Scope> scope = parse_scope(text);
    return scope.ok() ? scope->path : "refused";
  };
  EXPECT_EQ(path_of("data:read"), "/mem");
  EXPECT_EQ(path_of("state:read"), "/state");
  EXPECT_EQ(path_of("outbox:read"), "/ipc/outbox");
  EXPECT_EQ(path_of("all:write"), "/");
  EXPECT_EQ(path_of("/a:b:append"), "/a:b");
  EXPECT_EQ(path_of("//mem/./x/:delete"), "/mem/x");
  for (std::string_view bad : {"", ":", "data", "data:", ":read", "data:Read", "read:data", "mem/x:read"}) {
    EXPECT_EQ(path_of(bad), "refused") << bad;
  }
}

TEST(ManifestText, AScopeCoversWholeNames) {
  Scope scope = *parse_scope("/mem/a:read");
  EXPECT_TRUE(covers(scope, "/mem/a"));
  EXPECT_TRUE(covers(scope, "/mem/a/b"));
  EXPECT_FALSE(covers(scope, "/mem/ab"));
  EXPECT_FALSE(covers(scope, "/mem"));
  EXPECT_TRUE(covers(*parse_scope("all:read"), "/"));
  EXPECT_TRUE(covers(*parse_scope("all:read"), "/x"));
}

TEST(TrustScore, S6_1_TheScoreFollowsTheTable) {
  auto score = [](TrustLevel level, Reversibility back, Retention kept, bool reviewed, bool trains) {
    Manifest manifest;
    manifest.level = level;
    manifest.reversibility = back;
    manifest.retention = kept;
    manifest.human_review = reviewed;
    manifest.training_use = trains;
    return declared_score(manifest);
  };
  constexpr auto kNone = Reversibility::kNone;
  constexpr auto kSome = Retention::kTemporary;
  EXPECT_EQ(score(TrustLevel::kVerifiedPartner, kNone, kSome, false, false), 10);
  EXPECT_EQ(score(TrustLevel::kTrusted, kNone, kSome, false, false), 7);
  EXPECT_EQ(score(TrustLevel::kStandard, kNone, kSome, false, false), 5);
  EXPECT_EQ(score(TrustLevel::kUnknown, kNone, kSome, false, false), 2);
  EXPECT_EQ(score(TrustLevel::kUntrusted, kNone, kSome, false, false), 0);
  EXPECT_EQ(score(TrustLevel::kStandard, Reversibility::kFull, kSome, false, false), 7);
  EXPECT_EQ(score(TrustLevel::kStandard, Reversibility::kPartial, kSome, false, false), 7);
  EXPECT_EQ(score(TrustLevel::kStandard, kNone, Retention::kEphemeral, false, false), 6);
  EXPECT_EQ(score(TrustLevel::kStandard, kNone, Retention::kPermanent, false, false), 4);
  EXPECT_EQ(score(TrustLevel::kStandard, kNone, kSome, true, false), 3);
  EXPECT_EQ(score(TrustLevel::kStandard, kNone, kSome, false, true), 4);
  EXPECT_EQ(score(TrustLevel::kStandard, kNone, Retention::kPermanent, true, true), 1);
  EXPECT_EQ(score(TrustLevel::kVerifiedPartner, Reversibility::kFull, Retention::kEphemeral, false, false), 10);
  EXPECT_EQ(score(TrustLevel::kUntrusted, kNone, Retention::kPermanent, true, true), 0);
}

TEST_F(Trust, S6_1_AScoreCountsOnlyFromAKeyThatTheOperatorTrusts) {
  Manifest manifest = manifest_of("alice");
  EXPECT_EQ(state_.judge(manifest, kNow).verdict, TrustVerdict::kUntrustedKey);
  EXPECT_EQ(error_of(state_.accept(manifest, kNow)), Code::kDenied);
  ASSERT_OK(state_.add_key(issuer_.public_key(), {.name = "me", .added_at = kNow}));
  EXPECT_EQ(state_.judge(manifest, kNow).score, 7);
  Manifest bent = manifest;
  bent.level = TrustLevel::kVerifiedPartner;
  EXPECT_EQ(state_.judge(bent, kNow).verdict, TrustVerdict::kBadSignature);
  EXPECT_EQ(state_.judge(bent, kNow).score, 0);
  Manifest none = manifest;
  none.signature.reset();
  EXPECT_EQ(state_.judge(none, kNow).verdict, TrustVerdict::kUnsigned);
  EXPECT_EQ(state_.find("alice", kNow).standing.verdict, TrustVerdict::kUnknown);
  ASSERT_OK(state_.accept(manifest, kNow));
  EXPECT_TRUE(state_.find("alice", kNow).standing.is_good());
  EXPECT_FALSE(state_.find("bob", kNow).standing.is_good());
}

TEST_F(Trust, S6_1_WhatAnAgentDeclaresAboutItselfIsZero) {
  ASSERT_OK(state_.add_key(agent_.public_key(), {}));  // even if the operator trusts its key for others
  Manifest manifest = plain_manifest("alice", agent_);
  manifest.level = TrustLevel::kVerifiedPartner;
  manifest.sign(agent_);
  EXPECT_EQ(state_.judge(manifest, kNow).verdict, TrustVerdict::kSelfSigned);
  EXPECT_EQ(state_.judge(manifest, kNow).score, 0);
  EXPECT_EQ(error_of(state_.accept(manifest, kNow)), Code::kDenied);
}

TEST_F(Trust, S6_1_AnOlderManifestAfterANewerOneIsAReplay) {
  ASSERT_OK(state_.add_key(issuer_.public_key(), {}));
  Manifest old = manifest_of("alice", 4);
  ASSERT_OK(state_.accept(old, kNow));
  EXPECT_FALSE(state_.accept(old, kNow).take_value());  // the same again
  Manifest next = manifest_of("alice", 5);
  ASSERT_OK(state_.accept(next, kNow));
  EXPECT_EQ(error_of(state_.accept(old, kNow)), Code::kConflict);
  EXPECT_EQ(state_.judge(old, kNow).verdict, TrustVerdict::kReplayed);
  Manifest twin = manifest_of("alice", 5);
  twin.level = TrustLevel::kVerifiedPartner;
  twin.sign(issuer_);
  EXPECT_EQ(error_of(state_.accept(twin, kNow)), Code::kConflict);
  EXPECT_EQ(state_.find("alice", kNow).manifest->serial, 5U);
  ASSERT_OK(state_.revoke_identity("alice", std::nullopt));
  EXPECT_EQ(error_of(state_.accept(old, kNow)), Code::kDenied);
}

TEST_F(Trust, S6_1_AnotherKeyTakesOverAnAgentOnlyIfThatIsMeant) {
  Ed25519Private partner = Ed25519Private::generate();
  ASSERT_OK(state_.add_key(issuer_.public_key(), {}));
  ASSERT_OK(state_.add_key(partner.public_key(), {.name = "partner", .added_at = kNow}));
  ASSERT_OK(state_.accept(manifest_of("alice", 4), kNow));
  Manifest other = manifest_of("alice", 5);
  other.sign(partner);
  Result<bool> refused = state_.accept(other, kNow);
  EXPECT_EQ(error_of(refused), Code::kConflict);
  EXPECT_NE(refused.error().message().find("'partner'"), std::string::npos);
  EXPECT_EQ(state_.find("alice", kNow).manifest->serial, 4U);
  ASSERT_OK(state_.accept(other, kNow, NewIssuer::kAllow));
  ASSERT_OK(state_.accept(other, kNow));  // the same again
}

TEST_F(Trust, S6_1_ARevokedAgentIsNotTakenOverByAnotherKey) {
  Ed25519Private partner = Ed25519Private::generate();
  ASSERT_OK(state_.add_key(issuer_.public_key(), {}));
  ASSERT_OK(state_.add_key(partner.public_key(), {}));
  ASSERT_OK(state_.accept(manifest_of("alice", 4), kNow));
  ASSERT_OK(state_.revoke_identity("alice", std::nullopt));
  Result<TrustState> stored = TrustState::parse(state_.text());
  ASSERT_OK(stored);
  Manifest other = manifest_of("alice", 5);
  other.sign(partner);
  EXPECT_EQ(error_of(stored->accept(other, kNow)), Code::kConflict);
  EXPECT_EQ(stored->find("alice", kNow).standing.verdict, TrustVerdict::kRevoked);
  TrustState same = *stored;
  ASSERT_OK(same.accept(manifest_of("alice", 5), kNow));
  ASSERT_OK(stored->accept(other, kNow, NewIssuer::kAllow));
  EXPECT_EQ(error_of(stored->accept(manifest_of("alice", 6), kNow)), Code::kConflict);
}

TEST_F(Trust, AStateWithoutIssuersHasThoseOfItsManifests) {
  ASSERT_OK(state_.add_key(issuer_.public_key(), {}));
  ASSERT_OK(state_.accept(manifest_of("alice", 4), kNow));
  Json json = *parse_json(state_.text());
  json["version"] = 1;
  json.erase("issuers");
  Result<TrustState> older = TrustState::parse(dump_json(json));
  ASSERT_OK(older);
  EXPECT_EQ(*older, state_);
}

TEST_F(Trust, S6_1_TheSameAgainIsRefusedOnceItCountsForNothing) {
  ASSERT_OK(state_.add_key(issuer_.public_key(), {}));
  Manifest manifest = manifest_of("alice");
  ASSERT_OK(state_.accept(manifest, kNow));
  EXPECT_EQ(error_of(state_.accept(manifest, kNow + 1000)), Code::kDenied);
  ASSERT_OK(state_.revoke_key(issuer_.public_key()));
  EXPECT_EQ(error_of(state_.accept(manifest, kNow)), Code::kDenied);
}

TEST_F(Trust, S6_1_ManifestsHaveATime) {
  ASSERT_OK(state_.add_key(issuer_.public_key(), {}));
  Manifest manifest = manifest_of("alice");
  ASSERT_OK(state_.accept(manifest, kNow));
  EXPECT_TRUE(state_.find("alice", kNow + 999).standing.is_good());
  EXPECT_EQ(state_.find("alice", kNow + 1000).standing.verdict, TrustVerdict::kExpired);
  EXPECT_EQ(state_.find("alice", kNow + 1000).standing.score, 0);
  EXPECT_TRUE(state_.find("alice", kNow - 100 - kTrustSkewSeconds).standing.is_good());
  EXPECT_EQ(state_.find("alice", kNow - 101 - kTrustSkewSeconds).standing.verdict, TrustVerdict::kNotYetValid);
  EXPECT_EQ(error_of(state_.accept(manifest_of("bob"), kNow + 2000)), Code::kDenied);
}

TEST_F(Trust, S6_1_RevocationsHoldForEver) {
  ASSERT_OK(state_.add_key(issuer_.public_key(), {}));
  ASSERT_OK(state_.accept(manifest_of("alice", 3), kNow));
  EXPECT_EQ(error_of(state_.revoke_identity("bob", std::nullopt)), Code::kNotFound);
  ASSERT_OK(state_.revoke_identity("bob", 9));
  EXPECT_EQ(error_of(state_.accept(manifest_of("bob", 9), kNow)), Code::kDenied);
  ASSERT_OK(state_.accept(manifest_of("bob", 10), kNow));
  ASSERT_OK(state_.revoke_identity("alice", std::nullopt));
  EXPECT_EQ(state_.find("alice", kNow).standing.verdict, TrustVerdict::kRevoked);
  EXPECT_EQ(error_of(state_.revoke_identity("alice", std::nullopt)), Code::kExists);
  EXPECT_EQ(error_of(state_.accept(manifest_of("alice", 3), kNow)), Code::kDenied);
  ASSERT_OK(state_.accept(manifest_of("alice", 4), kNow));
  // A key: whoever it signed for, and whoever has it.
  ASSERT_OK(state_.revoke_key(issuer_.public_key()));
  EXPECT_EQ(state_.find("alice", kNow).standing.verdict, TrustVerdict::kRevokedKey);
  EXPECT_EQ(error_of(state_.add_key(issuer_.public_key(), {})), Code::kDenied);
  Ed25519Private other = Ed25519Private::generate();
  ASSERT_OK(state_.add_key(other.public_key(), {}));
  Manifest manifest = plain_manifest("alice", agent_);
  manifest.serial = 20;
  manifest.sign(other);
  ASSERT_OK(state_.accept(manifest, kNow, NewIssuer::kAllow));
  ASSERT_OK(state_.revoke_key(agent_.public_key()));
  EXPECT_EQ(state_.find("alice", kNow).standing.verdict, TrustVerdict::kRevokedKey);
}

TEST_F(Trust, S6_1_AnAgentSharesItsScopesWithWhomIsTrustedEnough) {
  ASSERT_OK(state_.add_key(issuer_.public_key(), {}));
  ASSERT_OK(state_.accept(manifest_of("owner"), kNow));
  Manifest low = plain_manifest("low", Ed25519Private::generate());
  low.level = TrustLevel::kStandard;
  low.sign(issuer_);
  ASSERT_OK(state_.accept(low, kNow));
  ASSERT_OK(state_.accept(manifest_of("high"), kNow));
  EXPECT_EQ(state_.shared("owner", "high", 7, kNow).size(), 2U);
  EXPECT_TRUE(state_.shared("owner", "high", 8, kNow).empty());
  EXPECT_TRUE(state_.shared("owner", "low", 7, kNow).empty());
  EXPECT_EQ(state_.shared("owner", "low", 5, kNow).size(), 2U);
  EXPECT_TRUE(state_.shared("owner", "nobody", 0, kNow).empty());
  EXPECT_TRUE(state_.shared("nobody", "high", 0, kNow).empty());
  EXPECT_TRUE(state_.shared("owner", "high", 7, kNow + 1000).empty());
  ASSERT_OK(state_.revoke_identity("owner", std::nullopt));
  EXPECT_TRUE(state_.shared("owner", "high", 7, kNow).empty());
}

TEST_F(Trust, TheFileIsPrivateAndKeepsEverything) {
  testing::TempDir dir;
  TrustFile file(dir.file("config/trust"));
  EXPECT_EQ(*file.read(), TrustState());
  ASSERT_OK(file.change([&](TrustState& state) -> Status {
    WARREN_TRY(state.add_key(issuer_.public_key(), {.name = "me", .added_at = 5}));
    WARREN_TRY(state.accept(manifest_of("alice"), kNow));
    WARREN_TRY(state.revoke_identity("bob", 7));
    WARREN_TRY(state.revoke_key(Ed25519Private::generate().public_key()));
    state_ = state;
    return Ok{};
  }));
  EXPECT_EQ(*file.read(), state_);
  struct stat info {};
  ASSERT_EQ(::stat(file.path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  ASSERT_EQ(::stat(dir.file("config/trust").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  EXPECT_EQ(error_of(file.change([](TrustState& state) -> Status {
              state.keys.clear();
              return Error(Code::kInvalid, "no");
            })),
            Code::kInvalid);
  EXPECT_EQ(*file.read(), state_);
}

TEST_F(Trust, TheFileIsNeverWrittenLargerThanItCanBeRead) {
  testing::TempDir dir;
  TrustFile file(dir.file("trust"));
  ASSERT_OK(file.change([&](TrustState& state) { return state.add_key(issuer_.public_key(), {}); }));
  auto add_many = [](TrustState& state) -> Status {
    std::string name(TrustState::kBytesMax / 16, 'x');
    for (int i = 0; i < 16; ++i) {
      WARREN_TRY(state.add_key(Ed25519Private::generate().public_key(), {.name = name, .added_at = 1}));
    }
    return Ok{};
  };
  EXPECT_EQ(error_of(file.change(add_many)), Code::kLimit);
  EXPECT_EQ(file.read()->keys.size(), 1U);
}

TEST_F(Trust, AFileThatOthersCanWriteOrThatIsDamagedIsRefused) {
  testing::TempDir dir;
  TrustFile file(dir.file("trust"));
  ASSERT_OK(file.change([&](TrustState& state) { return state.add_key(issuer_.public_key(), {}); }));
  ASSERT_OK(file.change([&](TrustState& state) -> Status {
    WARREN_TRY(state.accept(manifest_of("alice"), kNow));
    return Ok{};
  }));
  LiveTrust live(file);
  EXPECT_OK(live.current());
  ASSERT_EQ(::chmod(file.path().c_str(), 0622), 0);
  EXPECT_EQ(error_of(file.read()), Code::kDenied);
  EXPECT_EQ(error_of(live.current()), Code::kDenied);
  ASSERT_EQ(::chmod(file.path().c_str(), 0600), 0);
  ASSERT_OK(live.current());
  std::string text = *read_host_file(file.path(), 1 << 20);
  std::string higher = text;
  higher.replace(higher.find("\"trusted\""), 9, "\"verified_partner\"");
  ASSERT_OK(replace_host_file(file.path(), higher, 0600));
  EXPECT_EQ(error_of(live.current()), Code::kCorrupt);
  for (const char* member :
       {"keys", "manifests", "newest_serials", "revoked_serials", "revoked_keys", "issuers", "version"}) {
    Json json = *parse_json(text);
    json.erase(member);
    ASSERT_OK(replace_host_file(file.path(), dump_json(json), 0600));
    EXPECT_EQ(error_of(file.read()), Code::kCorrupt) << member;
  }
  ASSERT_OK(replace_host_file(file.path(), text.substr(0, text.size() / 2), 0600));
  EXPECT_EQ(error_of(live.current()), Code::kCorrupt);
}

TEST_F(Trust, AChangeByAnotherProcessIsSeenAtOnce) {
  testing::TempDir dir;
  TrustFile file(dir.file("trust"));
  LiveTrust live(file);
  std::uint64_t before = live.current()->generation;
  EXPECT_EQ(live.current()->generation, before);
  ASSERT_OK(file.change([&](TrustState& state) { return state.add_key(issuer_.public_key(), {}); }));
  EXPECT_NE(live.current()->generation, before);
  EXPECT_EQ(live.current()->state->keys.size(), 1U);
}

TEST_F(Trust, AMutatedStateIsRefusedOrSaysWhatItContains) {
  ASSERT_OK(state_.add_key(issuer_.public_key(), {.name = "me", .added_at = kNow}));
  ASSERT_OK(state_.accept(manifest_of("alice", 3), kNow));
  ASSERT_OK(state_.accept(manifest_of("bob", 4), kNow));
  ASSERT_OK(state_.revoke_identity("bob", std::nullopt));
  ASSERT_OK(state_.revoke_key(Ed25519Private::generate().public_key()));
  const std::string text = state_.text();
  testing::Mutations mutations(2);
  for (int i = 0; i < 5'000; ++i) {
    std::string bent = mutations.of(text);
    Result<TrustState> parsed = TrustState::parse(bent);
    if (!parsed.ok()) {
      EXPECT_EQ(error_of(parsed), Code::kCorrupt) << bent;
      continue;
    }
    Result<TrustState> again = TrustState::parse(parsed->text());
    ASSERT_OK(again) << bent;
    EXPECT_EQ(*again, *parsed) << bent;
    // A manifest is one that was signed, whatever happened to the file.
    for (const auto& [identity, manifest] : parsed->manifests) EXPECT_TRUE(manifest.has_good_signature()) << bent;
  }
}

}  // namespace
}  // namespace warren
