#include "store/ciphers/file_ciphers.h"

#include <atomic>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fs/encrypted.h"
#include "fs/path_ops.h"
#include "store/ciphers/encrypt_files.h"
#include "store/files/sqlite_fs.h"
#include "store/fsck/fsck.h"
#include "store/history/history.h"
#include "store/record/journal.h"
#include "store/store.h"
#include "store/tables/kv.h"
#include "store/tables/usage.h"
#include "testing/fake_clock.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace warren::testing {
namespace {

const std::string kSecret(32, 's');
const std::string kOtherSecret(32, 'o');

std::string salt_of(char c) { return std::string(ContentKey::kSaltBytes, c); }

class FileCiphersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = Store::open(file_, {.mode = OpenMode::kCreate, .durability = Durability::kProcess}, clock_);
    ASSERT_OK(made);
    made->reset();
    secrets_ = {{salt_of('1'), kSecret}, {salt_of('2'), kOtherSecret}};
  }

  // As `warren encrypt` does before the files.
  void add(const std::vector<std::string>& patterns, char salt = '1') {
    store_.reset();
    auto database = Database::open(file_, {.durability = Durability::kProcess});
    ASSERT_OK(database);
    ASSERT_OK((*database)->hold_alone());
    auto key = add_content_key(**database, {.salt = salt_of(salt), .secret = secrets_.at(salt_of(salt))});
    ASSERT_OK(key);
    ASSERT_OK(add_patterns(**database, patterns, *key));
    database->reset();
    open();
  }

  void end_patterns(const std::vector<std::string>& patterns) {
    store_.reset();
    auto database = Database::open(file_, {.durability = Durability::kProcess});
    ASSERT_OK(database);
    ASSERT_OK((*database)->hold_alone());
    ASSERT_OK(remove_patterns(**database, patterns));
    database->reset();
    open();
  }
  std::int64_t key_of(std::string_view path) { return fs().find_content_key(node(path)).value().value_or(0); }

  ContentKeyFinder finder() {
    return [this](std::string_view salt) -> Result<std::string> {
      auto found = secrets_.find(std::string(salt));
      if (found != secrets_.end()) return found->second;
      return Error(Code::kDenied, "nobody knows it");
    };
  }

  void open(Commits commits = Commits::kEach, OpenMode mode = OpenMode::kReadWrite) {
    store_.reset();
    auto store = Store::open(
        file_, {.mode = mode, .durability = Durability::kProcess, .commits = commits, .find_content_key = finder()},
        clock_);
    ASSERT_OK(store);
    store_ = std::move(store).value();
    if (files_known_ && fs().ciphers() != nullptr) fs().ciphers()->limit_known(*files_known_);
  }

  SqliteFs& fs() { return store_->fs(); }
  void write(std::string_view path, std::string_view text) { ASSERT_OK(write_file(fs(), path, as_bytes(text))); }
  Result<std::string> read(std::string_view path) { return read_file(fs(), path); }
  Inode node(std::string_view path) { return lstat(fs(), path).value().inode; }
  bool is_hidden(std::string_view path) { return is_encrypted(fs(), node(path)).value(); }

  void stranger(const std::string& sql) {
    auto database = Database::open(file_, {.durability = Durability::kProcess});
    ASSERT_OK(database);
    auto statement = (*database)->prepare(UserSql{sql});
    ASSERT_OK(statement);
    ASSERT_OK(statement->run());
  }

  std::string problems() {
    auto checked = check_encrypted_files(*store_);
    if (!checked.ok()) return checked.error().message();
    std::string all;
    for (const std::string& one : checked->problems) all += one + "\n";
    return all;
  }
  std::string violations() {
    auto report = check_agent(file_, clock_);
    if (!report.ok()) return report.error().message();
    std::string all;
    for (const Violation& one : report->violations) all += one.rule + ": " + one.message + "\n";
    return all;
  }
  bool is_on_disk(std::string_view text) {
    for (const char* ending : {"", "-wal"}) {
      if (!std::filesystem::exists(file_ + ending)) continue;
      auto content = read_host(file_ + ending);
      if (content.find(text) != std::string::npos) return true;
    }
    return false;
  }
  static std::string read_host(const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "rb");
    EXPECT_NE(file, nullptr);
    std::string content;
    char buffer[65536];
    for (std::size_t count = 0; (count = std::fread(buffer, 1, sizeof buffer, file)) > 0;)
      content.append(buffer, count);
    std::fclose(file);
    return content;
  }

  TempDir dir_;
  std::string file_ = dir_.file("a.db");
  FakeClock clock_;
  std::map<std::string, std::string> secrets_;
  std::optional<std::size_t> files_known_;
  std::unique_ptr<Store> store_;
};

std::string long_text(std::size_t bytes, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>('a' + random() % 26);
  return text;
}

TEST_F(FileCiphersTest, NewFilesThatMatchAreEncryptedAndOthersAreNot) {
  add({"/secrets", "**/*.key"});
  std::string text = "the launch code is 7391 " + long_text(20'000);
  write("/secrets/deep/plan.txt", text);
  write("/a/b/c.key", text);
  write("/plain.txt", "this may be read");
  EXPECT_TRUE(is_hidden("/secrets/deep/plan.txt"));
  EXPECT_TRUE(is_hidden("/a/b/c.key"));
  EXPECT_FALSE(is_hidden("/plain.txt"));
  EXPECT_EQ(read("/secrets/deep/plan.txt").value(), text);
  open();
  EXPECT_EQ(read("/secrets/deep/plan.txt").value(), text);
  EXPECT_EQ(read("/a/b/c.key").value(), text);
  EXPECT_EQ(lstat(fs(), "/a/b/c.key")->size, text.size());
  EXPECT_FALSE(is_on_disk("launch code"));
  EXPECT_TRUE(is_on_disk("this may be read"));
  EXPECT_EQ(problems(), "");
  EXPECT_EQ(violations(), "");
}

TEST_F(FileCiphersTest, ARenamedFileKeepsWhatItIsAndANewOneIsWhatItsPathSays) {
  add({"/secrets"});
  write("/secrets/a", "one");
  write("/b", "two");
  ASSERT_OK(rename(fs(), "/secrets/a", "/a"));
  ASSERT_OK(rename(fs(), "/b", "/secrets/b"));
  EXPECT_TRUE(is_hidden("/a"));
  EXPECT_FALSE(is_hidden("/secrets/b"));
  ASSERT_OK(make_dir(fs(), "/other"));
  write("/other/x", "plain");
  ASSERT_OK(unlink(fs(), "/secrets/b"));
  ASSERT_OK(remove_dir(fs(), "/secrets"));
  ASSERT_OK(rename(fs(), "/other", "/secrets"));
  write("/secrets/y", "hidden");
  EXPECT_FALSE(is_hidden("/secrets/x"));
  EXPECT_TRUE(is_hidden("/secrets/y"));
  EXPECT_EQ(read("/a").value(), "one");
  EXPECT_EQ(violations(), "");
}

TEST_F(FileCiphersTest, WithoutTheKeyFilesCanBeListedMovedAndRemovedOnly) {
  add({"/s"});
  write("/s/a", long_text(10'000));
  write("/s/b", "text");
  for (bool is_wrong : {false, true}) {
    auto kept = secrets_;
    if (is_wrong) secrets_[salt_of('1')] = kOtherSecret;
    else secrets_.clear();
    open(is_wrong ? Commits::kEach : Commits::kGrouped);
    EXPECT_EQ(lstat(fs(), "/s/a")->size, 10'000U);
    EXPECT_EQ(error_of(read("/s/a")), Code::kDenied);
    EXPECT_NE(read("/s/a").error().message().find("encrypted with key 31313131"), std::string::npos);
    EXPECT_EQ(error_of(fs().write(node("/s/a"), 3, as_bytes("x"))), Code::kDenied);
    EXPECT_EQ(error_of(fs().append(node("/s/a"), as_bytes("x"))), Code::kDenied);
    EXPECT_EQ(error_of(fs().set_attributes(node("/s/a"), {.size = 0})), Code::kDenied);
    EXPECT_EQ(error_of(fs().allocate(node("/s/a"), AllocateMode::kPunchHole, 0, 4096)), Code::kDenied);
    EXPECT_EQ(error_of(write_file(fs(), "/s/new", as_bytes("x"))), Code::kDenied);
    EXPECT_EQ(error_of(lstat(fs(), "/s/new")), Code::kNotFound);
    ASSERT_OK(rename(fs(), "/s/a", "/s/moved"));
    ASSERT_OK(rename(fs(), "/s/moved", "/s/a"));
    write("/plain", "text");
    EXPECT_EQ(read("/plain").value(), "text");
    store_.reset();
    secrets_ = kept;
  }
  open();
  EXPECT_EQ(read("/s/a").value(), long_text(10'000));
  store_.reset();
  auto kept = std::exchange(secrets_, {});
  open();
  ASSERT_OK(unlink(fs(), "/s/a"));
  secrets_ = kept;
  open();
  EXPECT_EQ(read("/s/b").value(), "text");
  EXPECT_EQ(violations(), "");
  EXPECT_EQ(problems(), "");
}

// What somebody without the key can do to the rows.
struct Forgery {
  std::string_view name;
  std::string_view sql;  // {0} and {1} are inodes of two files of three chunks
};

class ForgeryTest : public FileCiphersTest, public ::testing::WithParamInterface<Forgery> {};

TEST_P(ForgeryTest, WR84_ContentThatWasChangedWithoutItsKeyIsFound) {
  add({"/s"});
  write("/s/a", long_text(10'000, 1));
  write("/s/b", long_text(10'000, 2));
  std::uint64_t a = node("/s/a").value;
  std::uint64_t b = node("/s/b").value;
  stranger("CREATE TABLE old_data AS SELECT * FROM fs_data");
  stranger("CREATE TABLE old_seal AS SELECT * FROM wr_cipher_chunk");
  stranger("CREATE TABLE old_file AS SELECT * FROM wr_cipher_file");
  ASSERT_OK(fs().write(Inode{a}, 4096, as_bytes(long_text(3000, 3))));
  ASSERT_EQ(problems(), "");
  std::string_view left = GetParam().sql;
  while (!left.empty()) {
    std::size_t end = left.find(';');
    stranger(fmt::format(fmt::runtime(left.substr(0, end)), a, b));
    left.remove_prefix(end == left.npos ? left.size() : end + 1);
  }
  // In this process, which knew the file before, and in another one.
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(error_of(read("/s/a")), Code::kCorrupt);
    EXPECT_NE(problems() + violations(), "");
    open();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Each, ForgeryTest,
    ::testing::Values(
        Forgery{"a changed byte",
                "UPDATE fs_data SET data = CAST(x'00' || substr(data, 2) AS BLOB) WHERE ino = {0} AND chunk_index = 1"},
        Forgery{"a changed tag", "UPDATE wr_cipher_chunk SET tag = randomblob(16) WHERE ino = {0} AND chunk_index = 1"},
        Forgery{"a changed nonce",
                "UPDATE wr_cipher_chunk SET nonce = randomblob(24) WHERE ino = {0} AND chunk_index = 1"},
        Forgery{"two chunks swapped",
                "UPDATE fs_data SET chunk_index = 9 WHERE ino = {0} AND chunk_index = 0;"
                "UPDATE fs_data SET chunk_index = 0 WHERE ino = {0} AND chunk_index = 1;"
                "UPDATE fs_data SET chunk_index = 1 WHERE ino = {0} AND chunk_index = 9"},
        Forgery{"two chunks swapped with their seals",
                "UPDATE fs_data SET chunk_index = 9 WHERE ino = {0} AND chunk_index = 0;"
                "UPDATE fs_data SET chunk_index = 0 WHERE ino = {0} AND chunk_index = 1;"
                "UPDATE fs_data SET chunk_index = 1 WHERE ino = {0} AND chunk_index = 9;"
                "UPDATE wr_cipher_chunk SET chunk_index = 9 WHERE ino = {0} AND chunk_index = 0;"
                "UPDATE wr_cipher_chunk SET chunk_index = 0 WHERE ino = {0} AND chunk_index = 1;"
                "UPDATE wr_cipher_chunk SET chunk_index = 1 WHERE ino = {0} AND chunk_index = 9"},
        Forgery{
            "a chunk of another file",
            "UPDATE fs_data SET data = (SELECT data FROM fs_data WHERE ino = {1} AND chunk_index = 1) WHERE ino = {0} "
            "AND chunk_index = 1;"
            "UPDATE wr_cipher_chunk SET (nonce, tag) = (SELECT nonce, tag FROM wr_cipher_chunk WHERE ino = {1} AND "
            "chunk_index = 1) WHERE ino = {0} AND chunk_index = 1"},
        Forgery{"all of another file",
                "UPDATE fs_data SET data = (SELECT data FROM fs_data o WHERE o.ino = {1} AND o.chunk_index = "
                "fs_data.chunk_index) WHERE ino = {0};"
                "DELETE FROM wr_cipher_chunk WHERE ino = {0}; UPDATE wr_cipher_chunk SET ino = {0} WHERE ino = {1};"
                "DELETE FROM wr_cipher_file WHERE ino = {0}; UPDATE wr_cipher_file SET ino = {0} WHERE ino = {1}"},
        Forgery{
            "an older chunk with its older seal",
            "UPDATE fs_data SET data = (SELECT data FROM old_data o WHERE o.ino = {0} AND o.chunk_index = 1) WHERE ino "
            "= {0} AND chunk_index = 1;"
            "UPDATE wr_cipher_chunk SET (nonce, tag) = (SELECT nonce, tag FROM old_seal o WHERE o.ino = {0} AND "
            "o.chunk_index = 1) WHERE ino = {0} AND chunk_index = 1"},
        Forgery{"an older signature",
                "UPDATE wr_cipher_file SET mac = (SELECT mac FROM old_file o WHERE o.ino = {0}) "
                "WHERE ino = {0}"},
        Forgery{"a missing chunk", "DELETE FROM fs_data WHERE ino = {0} AND chunk_index = 1"},
        Forgery{"a missing chunk with its seal",
                "DELETE FROM fs_data WHERE ino = {0} AND chunk_index = 1;"
                "DELETE FROM wr_cipher_chunk WHERE ino = {0} AND chunk_index = 1"},
        Forgery{"a missing seal", "DELETE FROM wr_cipher_chunk WHERE ino = {0} AND chunk_index = 1"},
        Forgery{"no row of the file", "DELETE FROM wr_cipher_file WHERE ino = {0}"},
        Forgery{"another size", "UPDATE fs_inode SET size = 5000 WHERE ino = {0}"},
        Forgery{"another size in both",
                "UPDATE fs_inode SET size = 5000 WHERE ino = {0};"
                "UPDATE wr_cipher_file SET size = 5000 WHERE ino = {0}"},
        Forgery{"plain content, as an AgentFS program writes it",
                "UPDATE fs_data SET data = CAST('plain' AS BLOB) WHERE ino = {0} AND chunk_index = 2"},
        Forgery{"a key that does not exist", "UPDATE wr_cipher_file SET key_id = 99 WHERE ino = {0}"},
        Forgery{"a tag of another length",
                "UPDATE wr_cipher_chunk SET tag = x'00' WHERE ino = {0} AND chunk_index = 0"},
        Forgery{"a nonce of another length",
                "UPDATE wr_cipher_chunk SET nonce = x'00' WHERE ino = {0} AND chunk_index = 0"}),
    [](const auto& one) {
      std::string name(one.param.name);
      std::erase_if(name, [](char c) { return c == ','; });
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

TEST_F(FileCiphersTest, WR80_AKeyThatIsNotValidIsReported) {
  add({"/s"});
  EXPECT_EQ(violations(), "");
  stranger("INSERT INTO wr_cipher_key (id, salt, proof) VALUES (7, x'00', zeroblob(32))");
  EXPECT_TRUE(violations().starts_with("WR-80: key 7")) << violations();
  stranger("DELETE FROM wr_cipher_key WHERE id = 7");
  stranger("UPDATE wr_cipher_key SET replaced_by = 9");
  EXPECT_TRUE(violations().starts_with("WR-80: key 1")) << violations();
}

TEST_F(FileCiphersTest, WR81_APatternWithoutAKeyIsReported) {
  add({"/s"});
  stranger("UPDATE wr_cipher_pattern SET key_id = 5");
  EXPECT_TRUE(violations().starts_with("WR-81: the pattern '/s' has key 5")) << violations();
  open();
  EXPECT_EQ(error_of(write_file(fs(), "/s/a", as_bytes("x"))), Code::kCorrupt);
}

TEST_F(FileCiphersTest, WR82_ARowOfAFileThatDoesNotFitItIsReportedAndOneOfNoFileIsRemoved) {
  add({"/s"});
  write("/s/a", "text");
  stranger("UPDATE fs_inode SET size = 3 WHERE ino = " + std::to_string(node("/s/a").value));
  EXPECT_NE(violations().find("WR-82"), std::string::npos) << violations();
  stranger("UPDATE fs_inode SET size = 4 WHERE ino = " + std::to_string(node("/s/a").value));
  stranger("UPDATE wr_cipher_file SET file_id = x'01'");
  EXPECT_NE(violations().find("WR-82"), std::string::npos) << violations();
  // An AgentFS program removes the file and leaves our rows, which is no violation.
  stranger("DELETE FROM fs_dentry WHERE name = 'a'");
  stranger("DELETE FROM fs_inode WHERE size = 4");
  stranger("DELETE FROM fs_data");
  EXPECT_EQ(violations(), "");
}

TEST_F(FileCiphersTest, WR83_AChunkWithoutASealAndASealWithoutAChunkAreReported) {
  add({"/s"});
  write("/s/a", long_text(10'000));
  stranger("DELETE FROM wr_cipher_chunk WHERE chunk_index = 1");
  EXPECT_NE(violations().find("WR-83: chunk 1 of the encrypted"), std::string::npos) << violations();
  stranger("DELETE FROM fs_data WHERE chunk_index = 1");
  stranger("DELETE FROM fs_data WHERE chunk_index = 0");
  EXPECT_NE(violations().find("WR-83: chunk 0 of the encrypted"), std::string::npos) << violations();
}

// No nonce appears twice, also where copies of the file go on separately.
TEST_F(FileCiphersTest, NoncesAreNeverUsedTwice) {
  add({"/s"});
  std::set<std::string> seen;
  auto collect = [&](const std::string& path, const std::string& what) {
    auto database = Database::open(path, {.mode = OpenMode::kReadOnly});
    ASSERT_OK(database);
    auto query = (*database)->prepare("SELECT DISTINCT nonce FROM wr_cipher_chunk");
    ASSERT_OK(query);
    Rows rows = query->rows();
    while (rows.next().value()) EXPECT_TRUE(seen.insert(std::string(as_text(rows.blob(0)))).second) << what;
  };
  write("/s/a", "base");
  store_.reset();
  std::string copy = dir_.file("copy.db");
  std::filesystem::copy_file(file_, copy);
  for (int round = 0; round < 3; ++round) {
    for (const std::string& path : {file_, copy}) {
      auto store = Store::open(path, {.durability = Durability::kProcess, .find_content_key = finder()}, clock_);
      ASSERT_OK(store);
      ASSERT_OK(write_file((*store)->fs(), "/s/a", as_bytes(long_text(9000, 5))));
      ASSERT_OK((*store)->fs().write(lstat((*store)->fs(), "/s/a")->inode, 100, as_bytes("x")));
      store->reset();
      collect(path, path);
    }
  }
}

TEST_F(FileCiphersTest, CheckpointsKeepAndRestoreEncryptedFilesExactly) {
  add({"/s"});
  std::string first = long_text(30'000, 1);
  write("/s/a", first);
  auto one = History(*store_).take("one", "asked");
  ASSERT_OK(one);
  ASSERT_OK(fs().write(node("/s/a"), 5000, as_bytes("changed")));
  write("/s/b", "new");
  ASSERT_OK(History(*store_).take("two", "asked"));
  ASSERT_OK(unlink(fs(), "/s/a"));
  {
    auto past =
        Store::open(file_, {.mode = OpenMode::kReadOnly, .checkpoint = one->id, .find_content_key = finder()}, clock_);
    ASSERT_OK(past);
    EXPECT_EQ(read_file((*past)->fs(), "/s/a").value(), first);
    EXPECT_EQ(error_of(read_file((*past)->fs(), "/s/b")), Code::kNotFound);
  }
  ASSERT_OK(History(*store_).restore(one->id));
  EXPECT_EQ(read("/s/a").value(), first);
  EXPECT_EQ(problems(), "");
  ASSERT_OK(fs().write(node("/s/a"), 0, as_bytes("after")));
  ASSERT_OK(History(*store_).restore(one->id + 1));
  EXPECT_EQ(read("/s/a").value().substr(5000, 7), "changed");
  EXPECT_EQ(read("/s/b").value(), "new");
  EXPECT_EQ(violations(), "");
}

TEST_F(FileCiphersTest, FilesThatExistAreEncryptedRekeyedAndDecrypted) {
  open();
  std::map<std::string, std::string> files;
  for (int i = 0; i < 20; ++i) {
    std::string path = fmt::format("/{}/f{}", i % 2 == 0 ? "s" : "open", i);
    files[path] = "secret text " + long_text(static_cast<std::size_t>(i) * 1500, static_cast<unsigned>(i));
    write(path, files[path]);
  }
  ASSERT_OK(write_file(fs(), "/s/sparse", as_bytes("begin")));
  ASSERT_OK(fs().set_attributes(node("/s/sparse"), {.size = 100'000}));
  files["/s/sparse"] = "begin" + std::string(99'995, '\0');
  auto expect_all = [&] {
    for (const auto& [path, text] : files) EXPECT_EQ(read(path).value(), text) << path;
    EXPECT_EQ(problems() + violations(), "");
  };
  add({"/s"});
  ASSERT_OK(fs().recode(node("/s/f4"), 1));  // as if it had been interrupted
  RecodedFiles done;
  ASSERT_OK(encrypt_matching(*store_, {"/s"}, done));
  EXPECT_EQ(done.files, 10U);
  EXPECT_EQ(done.failed, 0U);
  EXPECT_TRUE(is_hidden("/s/f0"));
  EXPECT_FALSE(is_hidden("/open/f1"));
  expect_all();
  ASSERT_OK(encrypt_matching(*store_, {"/s"}, done));
  EXPECT_EQ(done.files, 10U) << "there is nothing left to do";

  store_.reset();
  {
    auto database = Database::open(file_, {.durability = Durability::kProcess});
    ASSERT_OK((*database)->hold_alone());
    auto key = add_content_key(**database, {.salt = salt_of('2'), .secret = kOtherSecret});
    ASSERT_OK(key);
    ASSERT_OK(replace_keys(**database, {1}, *key));
  }
  open();
  write("/s/f99", files["/s/f99"] = "with the new key");
  expect_all();  // each with its own key
  ASSERT_OK(fs().recode(node("/s/f8"), 2));
  RecodedFiles moved;
  ASSERT_OK(finish_replacing_keys(*store_, moved));
  EXPECT_EQ(moved.files, 10U);
  expect_all();
  secrets_.erase(salt_of('1'));
  open();
  expect_all();

  end_patterns({"/s"});
  RecodedFiles undone;
  ASSERT_OK(decrypt_matching(*store_, {"/s"}, undone));
  EXPECT_EQ(undone.files, 12U);
  EXPECT_FALSE(is_hidden("/s/f0"));
  secrets_.clear();
  open();
  expect_all();
}

TEST_F(FileCiphersTest, TheNarrowerPatternDecidesAndEndsOnlyWhatItDecided) {
  add({"/s"}, '1');
  write("/s/deep/old", "of the wider one");
  add({"/s/deep"}, '2');
  write("/s/deep/new", "of the narrower one");
  write("/s/other", "of the wider one");
  EXPECT_EQ(key_of("/s/deep/old"), 1);
  EXPECT_EQ(key_of("/s/deep/new"), 2);
  EXPECT_EQ(key_of("/s/other"), 1);
  RecodedFiles done;
  ASSERT_OK(encrypt_matching(*store_, {"/s/deep"}, done));
  EXPECT_EQ(done.files, 1U);
  EXPECT_EQ(key_of("/s/deep/old"), 2);

  end_patterns({"/s/deep"});
  RecodedFiles undone;
  ASSERT_OK(decrypt_matching(*store_, {"/s/deep"}, undone));
  EXPECT_EQ(undone.files, 0U);
  EXPECT_EQ(undone.kept, 2U);
  EXPECT_EQ(key_of("/s/deep/old"), 1);
  EXPECT_EQ(key_of("/s/deep/new"), 1);
  EXPECT_EQ(read("/s/deep/new").value(), "of the narrower one");
  EXPECT_EQ(problems() + violations(), "");
}

TEST_F(FileCiphersTest, WhatARestoreBringsBackIsEncryptedAsThePatternsSayNow) {
  open();
  write("/s/a", "secret text");
  write("/open", "public text");
  auto plain = History(*store_).take("plain", "asked");
  ASSERT_OK(plain);
  add({"/s"}, '1');
  RecodedFiles done;
  ASSERT_OK(encrypt_matching(*store_, {"/s"}, done));
  auto first_key = History(*store_).take("first-key", "asked");
  ASSERT_OK(first_key);
  store_.reset();
  {
    auto database = Database::open(file_, {.durability = Durability::kProcess});
    ASSERT_OK((*database)->hold_alone());
    auto key = add_content_key(**database, {.salt = salt_of('2'), .secret = kOtherSecret});
    ASSERT_OK(key);
    ASSERT_OK(replace_keys(**database, {1}, *key));
  }
  open();
  ASSERT_OK(finish_replacing_keys(*store_, done));
  for (std::int64_t id : {plain->id, first_key->id}) {
    RecodedFiles again;
    std::int64_t last = store_->journal()->last_seq().value();
    ASSERT_OK(History(*store_).restore(id, {}, &again));
    EXPECT_EQ(again.files, 1U);
    EXPECT_EQ(key_of("/s/a"), 2);
    auto rows = store_->journal()->read_after(last, 100);
    ASSERT_OK(rows);
    ASSERT_FALSE((*rows)->empty());
    for (const JournalRow& row : **rows) {
      EXPECT_EQ(row.commit_number, (*rows)->front().commit_number) << "one transaction, or a kill leaves plain files";
    }
    EXPECT_FALSE(is_hidden("/open"));
    EXPECT_EQ(read("/s/a").value(), "secret text");
    EXPECT_EQ(problems() + violations(), "");
  }
  auto old = measure_key_use(*store_, 1);
  ASSERT_OK(old);
  EXPECT_EQ(old->files, 0U);
  EXPECT_GE(old->checkpoints, 1U);
  EXPECT_EQ(measure_key_use(*store_, 2)->files, 1U);

  // Without the key, the file stays what it was, and that is said.
  secrets_.clear();
  open();
  RecodedFiles failed;
  ASSERT_OK(History(*store_).restore(plain->id, {}, &failed));
  EXPECT_FALSE(is_hidden("/s/a"));
  EXPECT_EQ(failed.failed, 1U);
  ASSERT_EQ(failed.problems.size(), 1U);
  EXPECT_NE(failed.problems[0].find("'/s/a'"), std::string::npos) << failed.problems[0];
}

// What is damaged must not take the restore of everything else with it.
TEST_F(FileCiphersTest, ARestoreLeavesADamagedFileAsItIs) {
  add({"/s"}, '1');
  write("/s/a", "secret text");
  write("/s/big", std::string(3 * 4096, 'x'));
  auto one = History(*store_).take("one", "asked");
  ASSERT_OK(one);
  std::uint64_t big = node("/s/big").value;
  write("/s/a", "changed");
  write("/s/big", "changed");
  store_.reset();
  {
    auto database = Database::open(file_, {.durability = Durability::kProcess});
    ASSERT_OK((*database)->hold_alone());
    auto key = add_content_key(**database, {.salt = salt_of('2'), .secret = kOtherSecret});
    ASSERT_OK(key);
    ASSERT_OK(replace_keys(**database, {1}, *key));
  }
  stranger(fmt::format("UPDATE wr_past_data SET data = zeroblob(4096) WHERE ino = {} AND chunk_index = 2", big));
  open();
  RecodedFiles done;
  ASSERT_OK(History(*store_).restore(one->id, {}, &done));
  EXPECT_EQ(done.failed, 1U);
  EXPECT_EQ(done.files, 1U);
  EXPECT_EQ(key_of("/s/a"), 2);
  EXPECT_EQ(read("/s/a").value(), "secret text");
  EXPECT_EQ(key_of("/s/big"), 1);
  EXPECT_EQ(error_of(read("/s/big")), Code::kCorrupt);
}

// Of a removed checkpoint, and of a restore from it.
TEST_F(FileCiphersTest, NothingPlainIsLeftOfARemovedCheckpoint) {
  open();
  std::string text = "the plain mark of this test ";
  std::string large;
  while (large.size() < 20'000) large += text;
  for (int i = 0; i < 40; ++i) write(fmt::format("/s/{}", i), i % 2 == 0 ? large : text);
  auto plain = History(*store_).take("plain", "asked");
  ASSERT_OK(plain);
  add({"/s"}, '1');
  RecodedFiles done;
  ASSERT_OK(encrypt_matching(*store_, {"/s"}, done));
  ASSERT_OK(History(*store_).restore(plain->id));
  auto rows_with_it = [&] {
    Statement count = store_->database()
                          .prepare(
                              "SELECT (SELECT count(*) FROM wr_past_data WHERE instr(data, ?1) > 0) + (SELECT "
                              "count(*) FROM fs_data WHERE instr(data, ?1) > 0)")
                          .value();
    return count.bind(1, as_bytes(text)).find_integer().value().value_or(-1);
  };
  EXPECT_GT(rows_with_it(), 0) << "the checkpoint has them";
  ASSERT_OK(History(*store_).remove(plain->id));
  EXPECT_EQ(rows_with_it(), 0);
  EXPECT_EQ(problems() + violations(), "");
}

TEST_F(FileCiphersTest, WR85_AMissingTableIsReportedAndNothingIsReadWithoutIt) {
  for (const char* table : {"wr_cipher_key", "wr_cipher_pattern", "wr_cipher_file", "wr_cipher_chunk"}) {
    SCOPED_TRACE(table);
    store_.reset();
    std::filesystem::remove(file_);
    SetUp();
    add({"/s"});
    write("/s/a", "secret text");
    write("/open", "public text");
    store_.reset();
    stranger(fmt::format("DROP TABLE {}", table));
    auto opened = Store::open(file_, {.durability = Durability::kProcess, .find_content_key = finder()}, clock_);
    ASSERT_EQ(error_of(opened), Code::kCorrupt);
    EXPECT_NE(opened.error().message().find(table), std::string::npos) << opened.error().message();
    EXPECT_NE(violations().find(fmt::format("WR-85: {} is missing", table)), std::string::npos) << violations();
    auto repaired = repair_agent(file_, clock_);
    ASSERT_OK(repaired);
    EXPECT_EQ(repaired->lost_patterns, table == std::string_view("wr_cipher_pattern"));
    EXPECT_EQ(violations().find("WR-85"), std::string::npos) << violations();
    open();
    EXPECT_EQ(read("/open").value(), "public text");
    if (table != std::string_view("wr_cipher_pattern")) {
      EXPECT_EQ(error_of(read("/s/a")), Code::kCorrupt);
    }
  }
}

// A change that is refused, or undone in a batch, leaves the file as it was, and its signature with it.
TEST_F(FileCiphersTest, AChangeThatIsTakenBackLeavesTheFileAsItWas) {
  add({"/s"});
  for (Commits commits : {Commits::kEach, Commits::kGrouped}) {
    open(commits);
    std::string path = commits == Commits::kEach ? "/s/each" : "/s/grouped";
    write(path, long_text(9000));
    {
      auto unit = fs().begin(UnitAccess::kWrite);
      ASSERT_OK(unit);
      ASSERT_OK(fs().write(node(path), 0, as_bytes(std::string(200'000, 'x'))));
      ASSERT_OK(fs().write(node(path), 50, as_bytes("small")));
      write("/s/never", "text");
    }  // not committed
    EXPECT_EQ(read(path).value(), long_text(9000));
    EXPECT_EQ(error_of(read("/s/never")), Code::kNotFound);
    ASSERT_OK(store_->usage().set_quota({.bytes = 100'000, .inodes = {}}));
    EXPECT_EQ(error_of(fs().write(node(path), 0, as_bytes(std::string(200'000, 'y')))), Code::kNoSpace);
    EXPECT_EQ(read(path).value(), long_text(9000));
    ASSERT_OK(fs().append(node(path), as_bytes("end")));
    ASSERT_OK(store_->close());
    open();
    EXPECT_EQ(read(path).value(), long_text(9000) + "end");
    EXPECT_EQ(problems() + violations(), "");
    ASSERT_OK(store_->usage().set_quota({}));
  }
}

// A small write waits in memory until the batch ends. Whoever reads many files meanwhile does not make it forget the
// key.
TEST_F(FileCiphersTest, AWriteThatWaitsIsEncryptedHoweverManyFilesAreReadMeanwhile) {
  add({"/s"});
  files_known_ = 4;
  open(Commits::kGrouped);
  write("/s/a", long_text(9000));
  for (int i = 0; i < 10; ++i) write(fmt::format("/open/f{}", i), "text");
  ASSERT_OK(store_->database().sync());
  ASSERT_OK(fs().write(node("/s/a"), 100, as_bytes("a secret that waits")));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(read(fmt::format("/open/f{}", i)).value(), "text");
  ASSERT_OK(store_->database().sync());
  std::string expected = long_text(9000).replace(100, 19, "a secret that waits");
  EXPECT_EQ(read("/s/a").value(), expected);
  EXPECT_FALSE(is_on_disk("a secret that waits"));
  ASSERT_OK(store_->close());
  open();
  EXPECT_EQ(read("/s/a").value(), expected);
  EXPECT_EQ(problems() + violations(), "");
}

TEST_F(FileCiphersTest, ACopyHasTheContentHoweverFewFilesAreKnown) {
  add({"/s"});
  for (std::size_t known : {1, 2, 3, 4}) {
    files_known_ = known;
    open();
    write("/s/a", long_text(9000));
    write("/s/b", "");
    write("/open", "text");
    open();
    EXPECT_EQ(read("/open").value(), "text");
    ASSERT_EQ(fs().copy_range(node("/s/a"), 0, node("/s/b"), 0, 9000).value(), 9000U);
    EXPECT_EQ(read("/s/b").value(), long_text(9000)) << known;
  }
}

// A large file is cut in steps, between which others may change it.
TEST_F(FileCiphersTest, AFileThatOthersChangeWhileItIsCutStaysSound) {
  constexpr std::uint64_t kStep = std::uint64_t{16} << 20;
  constexpr std::uint64_t kSteps = 1000;
  add({"/s"});
  write("/s/a", "begin");
  for (std::uint64_t i = 1; i < kSteps; ++i) ASSERT_OK(fs().write(node("/s/a"), i * kStep, as_bytes("part")));
  open(Commits::kGrouped);
  Inode file = node("/s/a");
  auto others = Store::open(file_, {.durability = Durability::kProcess, .find_content_key = finder()}, clock_);
  ASSERT_OK(others);
  std::atomic<bool> is_cut = false;
  std::atomic<int> writes = 0;
  std::thread writer([&] {
    for (; !is_cut; ++writes) {
      EXPECT_OK((*others)->fs().write(file, 10 + static_cast<std::uint64_t>(writes % 50), as_bytes("x")));
    }
  });
  while (writes == 0) std::this_thread::yield();
  EXPECT_OK(fs().set_attributes(file, {.size = 5}));
  is_cut = true;
  writer.join();
  ASSERT_OK((*others)->close());
  EXPECT_TRUE(read("/s/a").value().starts_with("begin"));
  ASSERT_OK(store_->close());
  open();
  EXPECT_EQ(problems() + violations(), "");
}

// Random operations on encrypted files against strings, with other processes in between.
class CipherModelTest : public FileCiphersTest, public ::testing::WithParamInterface<Commits> {
 protected:
  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }

  void step() {
    std::string path = fmt::format("/{}/f{}", below(3) == 0 ? "open" : "s", below(4));
    bool exists = model_.contains(path);
    if (!exists) {
      write(path, model_[path] = long_text(below(60'000), static_cast<unsigned>(below(1000))));
      return;
    }
    std::string& text = model_[path];
    Inode at = node(path);
    std::size_t offset = below(90'000);
    std::string data = long_text(1 + below(below(4) == 0 ? 150'000 : 6000), static_cast<unsigned>(below(1000)));
    switch (below(8)) {
      case 0:
      case 1:
        ASSERT_OK(fs().write(at, offset, as_bytes(data)));
        if (text.size() < offset + data.size()) text.resize(offset + data.size(), '\0');
        text.replace(offset, data.size(), data);
        break;
      case 2:
        ASSERT_OK(fs().append(at, as_bytes(data)));
        text += data;
        break;
      case 3:
        ASSERT_OK(fs().set_attributes(at, {.size = offset}));
        text.resize(offset, '\0');
        break;
      case 4: {
        ASSERT_OK(fs().allocate(at, AllocateMode::kPunchHole, offset, data.size()));
        for (std::size_t i = offset; i < std::min(text.size(), offset + data.size()); ++i) text[i] = '\0';
        break;
      }
      case 5: {
        std::string other = fmt::format("/s/f{}", below(4));
        if (other == path || !model_.contains(other)) break;
        std::string& target = model_[other];
        ASSERT_OK(fs().copy_range(at, 0, node(other), offset, 50'000));
        std::string part = text.substr(0, 50'000);
        if (part.empty()) break;
        if (target.size() < offset + part.size()) target.resize(offset + part.size(), '\0');
        target.replace(offset, part.size(), part);
        break;
      }
      case 6:
        ASSERT_OK(unlink(fs(), path));
        model_.erase(path);
        break;
      case 7: ASSERT_OK(write_file(fs(), path, as_bytes(text = data))); break;
    }
  }

  void compare() {
    for (const auto& [path, text] : model_) {
      ASSERT_EQ(read(path).value(), text) << path;
      std::size_t offset = below(text.size() + 1);
      std::string part(below(9000), '\0');
      std::size_t count = fs().read(node(path), offset, as_mutable_bytes(part)).value();
      ASSERT_EQ(part.substr(0, count), text.substr(offset, part.size())) << path;
      ASSERT_EQ(is_hidden(path), path.starts_with("/s")) << path;
    }
  }

  void run() {
    add({"/s"});
    open(GetParam());
    ASSERT_OK(make_dir(fs(), "/s"));
    ASSERT_OK(make_dir(fs(), "/open"));
    for (int i = 0; i < 400; ++i) {
      ASSERT_NO_FATAL_FAILURE(step()) << i;
      if (i % 10 == 0) {
        ASSERT_NO_FATAL_FAILURE(compare()) << i;
      }
      if (i % 50 == 49) {
        ASSERT_OK(store_->close());
        open(GetParam());
        ASSERT_NO_FATAL_FAILURE(compare()) << i;
      } else if (i % 35 == 34) {
        ASSERT_OK(store_->database().sync());
        stranger("INSERT OR REPLACE INTO kv_store (key, value) VALUES ('k', '1')");
      }
    }
    ASSERT_OK(store_->close());
    open();
    compare();
    EXPECT_EQ(problems() + violations(), "");
  }

  std::mt19937 random_{20};
  std::map<std::string, std::string> model_;
};

TEST_P(CipherModelTest, ContentIsWhatWasWritten) { run(); }

TEST_P(CipherModelTest, ContentIsWhatWasWrittenHoweverFewFilesAreKnown) {
  files_known_ = 2;
  run();
}

INSTANTIATE_TEST_SUITE_P(Each, CipherModelTest, ::testing::Values(Commits::kEach, Commits::kGrouped),
                         [](const auto& one) { return one.param == Commits::kEach ? "Each" : "Grouped"; });

}  // namespace
}  // namespace warren::testing
