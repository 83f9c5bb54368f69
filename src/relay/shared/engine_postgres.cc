#include <array>
#include <charconv>
#include <map>

#include <fmt/format.h>

#include "pg/connection.h"
#include "relay/ledger/ledger_engine.h"

namespace warren::relay {
namespace {

class PostgresStatement final : public EngineStatement {
 public:
  PostgresStatement(pg::Connection& connection, int number, std::size_t parameters)
      : connection_(connection), number_(number), values_(parameters), own_(parameters) {}

  void bind_integer(int index, std::int64_t value) override {
    Own& own = own_.at(at(index));
    auto end = std::to_chars(own.digits.data(), own.digits.data() + own.digits.size() - 1, value).ptr;
    *end = '\0';
    values_[at(index)] = {pg::Value::Kind::kNumber,
                          std::string_view(own.digits.data(), static_cast<std::size_t>(end - own.digits.data()))};
  }
  void bind_text(int index, std::string_view text) override {
    Own& own = own_.at(at(index));
    std::optional<std::string> clean = pg::clean_text(text);
    if (clean) own.text = *std::move(clean);
    values_[at(index)] = {pg::Value::Kind::kText, clean ? std::string_view(own.text) : text};
  }
  void bind_bytes(int index, Bytes bytes) override {
    values_.at(at(index)) = {pg::Value::Kind::kBytes, as_text(bytes)};
  }
  void bind_null(int index) override { values_.at(at(index)) = {}; }

  Result<bool> step() override {
    if (!reply_ && !ahead_.empty()) WARREN_TRY(take_ahead());
    if (!reply_) {
      pg::Reply reply = WARREN_TRY(connection_.ask(number_, values_));
      reply_.emplace(std::move(reply));
    }
    return ++row_ < reply_->row_count();
  }
  void reset() override {
    reply_.reset();
    row_ = -1;
  }
  void look_ahead() override {
    auto asked = connection_.ask_ahead(number_, values_);
    if (asked.ok()) ahead_.insert_or_assign(key(), *std::move(asked));  // else the real query fails as well
  }
  void forget_ahead() override { ahead_.clear(); }
  bool is_null(int column) const override { return reply_->is_null(row_, column); }
  std::int64_t integer(int column) const override { return reply_->integer(row_, column); }
  std::string_view text(int column) const override { return reply_->text(row_, column); }
  std::string bytes(int column) const override { return reply_->bytes(row_, column); }
  Status run(std::int64_t* id) override { return connection_.queue(number_, values_, id); }

 private:
  struct Own {
    std::array<char, 24> digits{};
    std::string text;
  };
  std::string key() const {
    std::string out;
    for (const pg::Value& value : values_) out += fmt::format("{}:{}", value.bytes.size(), value.bytes);
    return out;
  }
  Status take_ahead() {
    auto found = ahead_.find(key());
    if (found == ahead_.end()) return Ok{};
    std::shared_ptr<std::optional<pg::Reply>> answer = found->second;
    ahead_.erase(found);
    if (!answer->has_value()) WARREN_TRY(connection_.wait_for_all());
    if (answer->has_value()) reply_ = std::move(*answer);
    return Ok{};
  }
  static std::size_t at(int index) { return static_cast<std::size_t>(index - 1); }

  pg::Connection& connection_;
  int number_;
  std::vector<pg::Value> values_;
  std::vector<Own> own_;
  std::map<std::string, std::shared_ptr<std::optional<pg::Reply>>>
      ahead_;  // shared with the connection until the reply arrives
  std::optional<pg::Reply> reply_;
  int row_ = -1;
};

class PostgresEngine final : public LedgerEngine {
 public:
  PostgresEngine(std::unique_ptr<pg::Connection> connection, std::string home)
      : connection_(std::move(connection)), home_(std::move(home)) {}

  Result<Statement> prepare(Sql sql) override { return add(postgres_sql(sql.text())); }
  Result<Statement> prepare_insert(Sql sql) override { return add(postgres_sql(sql.text()) + " RETURNING id"); }
  Result<Statement> add(std::string text) {
    std::size_t parameters = 0;
    while (text.find(fmt::format("${}", parameters + 1)) != text.npos) ++parameters;
    int number = connection_->add_statement(std::move(text));
    return Statement(std::make_unique<PostgresStatement>(*connection_, number, parameters));
  }
  Status execute(Sql sql) override { return connection_->execute(postgres_ddl(sql.text())); }
  Result<bool> has_table(std::string_view name) override {
    auto find = WARREN_TRY(prepare("SELECT 1 WHERE to_regclass(?1) IS NOT NULL"));
    std::optional<std::int64_t> found = WARREN_TRY(find.bind(1, name).find_integer());
    return found.has_value();
  }
  Status begin() override { return connection_->begin(); }
  Status commit() override { return connection_->commit(); }
  void rollback() override { connection_->rollback(); }
  Status check_statements() override { return connection_->prepare_all(); }
  Result<std::vector<std::string>> check() override { return std::vector<std::string>(); }
  Status backup_to(const std::string&) override {
    return Error(Code::kUnsupported, "the ledger of this relay is in PostgreSQL", "back it up with pg_dump");
  }

  bool is_shared() const override { return true; }
  bool is_lost() const override { return connection_->is_lost(); }
  bool is_in_doubt() const override { return connection_->is_in_doubt(); }
  int fd() const override { return connection_->fd(); }

  Status reconnect() override {
    WARREN_TRY(connection_->reconnect());
    return listen();
  }
  Status listen() {
    if (home_.empty()) return Ok{};
    return connection_->execute(fmt::format("LISTEN \"relay_{}\"; LISTEN relay_agents", home_));
  }
  Result<News> take_news() override {
    News news;
    std::vector<pg::Notification> all = WARREN_TRY(connection_->take_notifications());
    for (const pg::Notification& one : all) {
      bool is_about_agents = one.channel == "relay_agents";
      news.concerns_agents |= is_about_agents && !one.is_own;
      news.is_for_us |= !is_about_agents;
    }
    return news;
  }

 private:
  std::unique_ptr<pg::Connection> connection_;
  std::string home_;
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

std::string postgres_sql(std::string_view sql) {
  std::string out;
  int last = 0;
  bool in_quotes = false;
  for (std::size_t i = 0; i < sql.size(); ++i) {
    if (sql[i] == '\'') in_quotes = !in_quotes;
    if (sql[i] != '?' || in_quotes) {
      out += sql[i];
      continue;
    }
    out += '$';
    bool is_numbered = i + 1 < sql.size() && sql[i + 1] >= '0' && sql[i + 1] <= '9';
    if (!is_numbered) out += std::to_string(++last);
  }
  return out;
}

std::string postgres_ddl(std::string_view sql) {
  std::string out(sql);
  replace_all(out, "INTEGER PRIMARY KEY AUTOINCREMENT", "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY");
  replace_all(out, " INTEGER", " BIGINT");
  replace_all(out, " TEXT", " TEXT COLLATE \"C\"");
  replace_all(out, " BLOB", " BYTEA");
  replace_all(out, ") WITHOUT ROWID", ")");
  return out;
}

Result<std::unique_ptr<LedgerEngine>> open_postgres(const std::string& url, EngineUse use, const std::string& home) {
  auto connection = WARREN_TRY(pg::Connection::open(url, {.is_read_only = use == EngineUse::kRead}));
  auto engine = std::make_unique<PostgresEngine>(std::move(connection), use == EngineUse::kCreate ? home : "");
  WARREN_TRY(engine->listen());
  return std::unique_ptr<LedgerEngine>(std::move(engine));
}

}  // namespace warren::relay
