// One connection to one PostgreSQL database: the only interface of Warren to PostgreSQL.
//
// Statements are queued and sent together (libpq's pipeline): a transaction of hundreds of changes costs one round
// trip, and a failure is reported by the first call that waits for an answer, at the latest by commit(). A lost
// connection stays lost until reconnect(), so that no caller mixes old and new state.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

struct pg_conn;
struct pg_result;

namespace warren::pg {

struct Libpq;

// A parameter. Not copied: it must live until queue() or ask() returns.
struct Value {
  enum class Kind { kNull, kNumber, kText, kBytes };
  Kind kind = Kind::kNull;
  std::string_view bytes;  // a number as digits followed by a NUL; text must be clean (see clean_text)
};

// The rows returned by one statement.
class Reply {
 public:
  Reply() = default;
  Reply(const Libpq& pq, pg_result* result) : pq_(&pq), result_(result) {}
  Reply(Reply&& other) noexcept;
  Reply& operator=(Reply&& other) noexcept;
  ~Reply();

  int row_count() const;
  std::int64_t changed() const;  // rows that were inserted, updated or deleted
  bool is_null(int row, int column) const;
  std::string_view text(int row, int column) const;  // valid as long as the reply
  std::int64_t integer(int row, int column) const;   // true counts as 1, anything that is not an integer as 0
  std::string bytes(int row, int column) const;      // for a bytea
  pg_result* get() const { return result_; }

 private:
  const Libpq* pq_ = nullptr;
  pg_result* result_ = nullptr;
};

struct Notification {
  std::string channel;
  std::string payload;
  bool is_own = false;
};

struct ConnectionOptions {
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds answer_timeout{60'000};  // after this long without an answer the connection is lost
  bool is_read_only = false;
  std::string program = "warren relay";  // as pg_stat_activity shows it
};

// For one thread.
class Connection {
 public:
  static Result<std::unique_ptr<Connection>> open(std::string url, ConnectionOptions options);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  std::string name() const { return name_; }  // host and database, without the password

  bool is_lost() const { return handle_ == nullptr; }
  Status reconnect();  // a new session, without the old one's LISTENs
  // The connection was lost between sending COMMIT and its answer: only the tables show whether the commit happened.
  // Reset by the next begin().
  bool is_in_doubt() const { return in_doubt_; }

  // Every call from now on ends by then, too, and loses the connection if it must. Unset: each waits for
  // answer_timeout.
  void set_deadline(std::optional<std::chrono::steady_clock::time_point> deadline) { deadline_ = deadline; }

  // Runs any number of statements, in a transaction or as one. Waits.
  Status execute(const std::string& script);

  // Registers a frequent statement with $1, $2, … It is sent to the server on first use.
  int add_statement(std::string sql);
  Status prepare_all();  // right now, so that errors in SQL show early

  // Does not wait: queued statements are sent when there are many, or when a caller waits. `id`, if given, is set to
  // the first column of the first row when the answer arrives: at the latest by commit(), so it must live until then or
  // until rollback().
  Status queue(int statement, std::span<const Value> values, std::int64_t* id = nullptr);
  // Waits for this statement and everything queued before it.
  Result<Reply> ask(int statement, std::span<const Value> values);
  // Does not wait: the result is filled by the next call that waits, or stays empty.
  Result<std::shared_ptr<std::optional<Reply>>> ask_ahead(int statement, std::span<const Value> values);
  Status wait_for_all() { return handle_ == nullptr ? Status(not_connected()) : receive_all(nullptr); }

  Status begin();
  Status commit();
  void rollback();

  // Readable when data has arrived.
  int fd() const;
  // On an error the connection is lost.
  Result<std::vector<Notification>> take_notifications();

 private:
  struct Prepared {
    std::string sql;
    std::string name;
    std::uint64_t session = 0;  // the session in which it was prepared
  };
  enum class What { kPrepare, kQueued, kAsked, kCommit };
  struct Expected {
    What what;
    int statement = -1;
    std::int64_t* id = nullptr;
    std::shared_ptr<std::optional<Reply>> ahead;  // shared with the caller of ask_ahead()
  };

  Connection(const Libpq& pq, std::string url, ConnectionOptions options);
  Status connect();
  Status start(std::chrono::steady_clock::time_point until);
  Status introduce();
  Status run_script(const std::string& script);
  Status send_text(const char* sql, What what);
  Status send_prepare(int statement);
  Status flush();
  Status wait(short events, std::chrono::steady_clock::time_point until);
  Status receive_all(Reply* reply);
  Result<pg_result*> next_result();
  std::optional<Error> take(const Expected& expected, Reply* reply);
  std::optional<Error> error_in(const pg_result* result) const;
  Error lose(std::string_view why);
  void drop();
  Error not_connected() const;

  const Libpq& pq_;
  std::string url_;
  ConnectionOptions options_;
  std::string name_;
  pg_conn* handle_ = nullptr;
  std::uint64_t session_ = 0;
  std::vector<Prepared> statements_;
  std::deque<Expected> expected_;  // sent, not answered
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  bool in_transaction_ = false;
  bool is_committing_ = false;
  bool in_doubt_ = false;
  std::vector<const char*> pointers_;  // of the parameters being sent
  std::vector<int> lengths_;
  std::vector<int> formats_;
};

// Whether text names a PostgreSQL database: postgres://… or postgresql://…
bool is_postgres_url(std::string_view text);
Status check_postgres_url(const std::string& url);

// Turns libpq's message about a failed connection, with SQLSTATEs in it (PQERRORS_VERBOSE), into an Error.
// kUnavailable: trying again later may help. Other codes: it will not (a password, a database, a certificate).
Error connect_error(std::string_view text);

// PostgreSQL stores neither NUL nor invalid UTF-8 in text: replaces each such byte with U+FFFD. nullopt if the text is
// clean.
std::optional<std::string> clean_text(std::string_view text);

}  // namespace warren::pg
