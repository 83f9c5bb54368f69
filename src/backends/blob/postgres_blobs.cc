#include "backends/blob/postgres_blobs.h"

#include <poll.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "backends/blob/blob_key.h"
#include "base/ascii.h"
#include "base/path.h"
#include "base/percent.h"
#include "clients/url_options.h"

namespace warren {
namespace {

constexpr std::uint64_t kLargestPostgresBlob = std::uint64_t{64} << 20;
constexpr std::chrono::milliseconds kPostgresForEver = std::chrono::hours(24 * 365 * 100);
constexpr std::size_t kCollectAfter = 100;  // changes
constexpr std::string_view kPostgresOptions[] = {"prefix", "table", "timeout", "connections"};

// {0} is the table. Created by one statement, so that it is there whole or not at all; processes that start at once
// wait for each other. Someone who may not create tables can use one that exists. EXTERNAL: a range is read without the
// rest.
constexpr const char* kCreate =
    "DO $$ BEGIN IF to_regclass($t${0}$t$) IS NULL THEN "
    "PERFORM pg_advisory_xact_lock(7305808868230131); "
    "CREATE SEQUENCE IF NOT EXISTS {0}_version; "
    "CREATE TABLE IF NOT EXISTS {0} (prefix text COLLATE \"C\" NOT NULL, key bytea NOT NULL, content bytea NOT NULL, "
    "version bigint NOT NULL DEFAULT nextval('{0}_version'), modified timestamptz NOT NULL, expires timestamptz, "
    "PRIMARY KEY (prefix, key)); "
    "ALTER TABLE {0} ALTER COLUMN content SET STORAGE EXTERNAL; "
    "CREATE INDEX IF NOT EXISTS {0}_expires ON {0} (expires) WHERE expires IS NOT NULL; "
    "END IF; END $$";

#define WARREN_PG_INFO                                                                 \
  "version, octet_length(content), (extract(epoch FROM modified) * 1000000)::bigint, " \
  "(extract(epoch FROM expires) * 1000000)::bigint"
#define WARREN_PG_ALIVE "(t.expires IS NULL OR t.expires > clock_timestamp())"
#define WARREN_PG_PUT                                                                                             \
  "INSERT INTO {0} AS t (prefix, key, content, modified, expires) VALUES ($1, $2, $3, clock_timestamp(), "        \
  "clock_timestamp() + $4::bigint * interval '1 millisecond') ON CONFLICT (prefix, key) DO UPDATE SET content = " \
  "EXCLUDED.content, version = EXCLUDED.version, modified = EXCLUDED.modified, expires = EXCLUDED.expires"

constexpr const char* kFind =
    "SELECT " WARREN_PG_INFO " FROM {0} t WHERE prefix = $1 AND key = $2 AND " WARREN_PG_ALIVE;
constexpr const char* kGet =
    "SELECT " WARREN_PG_INFO ", content FROM {0} t WHERE prefix = $1 AND key = $2 AND " WARREN_PG_ALIVE;
constexpr const char* kRange = "SELECT " WARREN_PG_INFO
                               ", substring(content FROM $3::int FOR $4::int) FROM {0} t WHERE prefix = $1 AND key = "
                               "$2 AND " WARREN_PG_ALIVE;
constexpr const char* kPut = WARREN_PG_PUT " RETURNING " WARREN_PG_INFO;
constexpr const char* kPutIfAbsent = WARREN_PG_PUT " WHERE t.expires <= clock_timestamp() RETURNING " WARREN_PG_INFO;
constexpr const char* kPutIfMatch =
    "UPDATE {0} t SET content = $3, version = nextval('{0}_version'), modified = clock_timestamp(), expires = "
    "clock_timestamp() + $4::bigint * interval '1 millisecond' WHERE prefix = $1 AND key = $2 AND version = "
    "$5::bigint AND " WARREN_PG_ALIVE " RETURNING " WARREN_PG_INFO;
constexpr const char* kRemove = "DELETE FROM {0} t WHERE prefix = $1 AND key = $2 RETURNING " WARREN_PG_ALIVE;
constexpr const char* kRemoveIfMatch =
    "DELETE FROM {0} t WHERE prefix = $1 AND key = $2 AND version = $3::bigint AND " WARREN_PG_ALIVE " RETURNING true";
constexpr const char* kList = "SELECT " WARREN_PG_INFO
                              ", key FROM {0} t WHERE prefix = $1 AND key > $2 AND key >= $3 AND ($4::bytea IS NULL OR "
                              "key < $4) AND " WARREN_PG_ALIVE " ORDER BY key LIMIT $5::bigint";
// Batches of one prefix take turns: two that change the same rows in another order would lock each other.
constexpr const char* kTakeTurns = "SELECT pg_advisory_xact_lock(hashtextextended($1::text, 7305808868230131))";
constexpr const char* kCollect =
    "DELETE FROM {0} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {0} WHERE expires <= clock_timestamp() LIMIT 500 FOR "
    "UPDATE "
    "SKIP LOCKED))";

#undef WARREN_PG_INFO
#undef WARREN_PG_ALIVE
#undef WARREN_PG_PUT

pg::Value pg_text(std::string_view text) { return {pg::Value::Kind::kText, text}; }
pg::Value pg_bytes(std::string_view bytes) { return {pg::Value::Kind::kBytes, bytes}; }
pg::Value pg_number(const std::string& digits) {
  if (digits.empty()) return {};
  return {pg::Value::Kind::kNumber, digits};
}

Timestamp timestamp_of_pg(std::int64_t us) {
  return {.seconds = us / 1'000'000, .nanoseconds = static_cast<std::int32_t>(us % 1'000'000 * 1000)};
}

BlobInfo info_of_row(const pg::Reply& reply, int row, std::string key) {
  BlobInfo info{.key = std::move(key),
                .size = static_cast<std::uint64_t>(reply.integer(row, 1)),
                .version = std::string(reply.text(row, 0)),
                .modified = timestamp_of_pg(reply.integer(row, 2)),
                .expires = {}};
  if (!reply.is_null(row, 3)) info.expires = timestamp_of_pg(reply.integer(row, 3));
  return info;
}

// The first key after all that begin with `prefix`; unset if there is none.
std::optional<std::string> behind_prefix(std::string prefix) {
  while (prefix.ends_with('\xff')) prefix.pop_back();
  if (prefix.empty()) return std::nullopt;
  ++prefix.back();
  return prefix;
}

// A version as we write them; everything else is the version of nothing.
bool is_pg_version(const std::string& text) {
  auto number = parse_number<std::int64_t>(text);
  return number && std::to_string(*number) == text;
}

std::string pg_ttl(const PutOptions& options) {
  return options.ttl && *options.ttl < kPostgresForEver ? std::to_string(options.ttl->count()) : std::string();
}

Error pg_conflict(std::string_view key) {
  return {Code::kConflict, fmt::format("{} was changed by someone else", quote(key))};
}
Error pg_exists(std::string_view key) { return {Code::kExists, fmt::format("{} exists already", quote(key))}; }

// The address without our own options: libpq refuses what it does not know.
std::string without_own_options(const std::string& address) {
  std::size_t question = address.find('?');
  std::string kept = address.substr(0, question);
  char next = '?';
  for (std::size_t at = question; at < address.size();) {
    std::size_t end = std::min(address.find('&', at + 1), address.size());
    std::string pair = address.substr(at + 1, end - at - 1);
    std::string name = pair.substr(0, pair.find('='));
    at = end;
    if (std::find(std::begin(kPostgresOptions), std::end(kPostgresOptions), name) != std::end(kPostgresOptions))
      continue;
    kept += next + pair;
    next = '&';
  }
  return kept;
}

bool is_pg_word(const std::string& word) {
  auto is_part = [](char c) { return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_'; };
  return !word.empty() && word.size() <= 50 && !is_digit(word[0]) && std::all_of(word.begin(), word.end(), is_part);
}

}  // namespace

struct PostgresBlobs::Session {
  Session(std::unique_ptr<pg::Connection> connected, const std::string& table) : connection(std::move(connected)) {
    auto add = [&](const char* sql) { return connection->add_statement(fmt::format(fmt::runtime(sql), table)); };
    find = add(kFind);
    get = add(kGet);
    range = add(kRange);
    put = add(kPut);
    put_if_absent = add(kPutIfAbsent);
    put_if_match = add(kPutIfMatch);
    remove = add(kRemove);
    remove_if_match = add(kRemoveIfMatch);
    list = add(kList);
    collect = add(kCollect);
    take_turns = add(kTakeTurns);
  }

  // The server has not closed the connection meanwhile.
  bool is_usable() {
    if (connection->is_lost()) return false;
    pollfd one{connection->fd(), POLLIN | POLLRDHUP, 0};
    return ::poll(&one, 1, 0) == 0 || connection->take_notifications().ok();
  }

  std::unique_ptr<pg::Connection> connection;
  int find, get, range, put, put_if_absent, put_if_match, remove, remove_if_match, list, collect, take_turns;
};

// A session for the time of one call.
class PostgresBlobs::Lease {
 public:
  static Result<Lease> take(PostgresBlobs& store) {
    Instant until = std::chrono::steady_clock::now() + store.settings_.timeout;
    auto session = WARREN_TRY(store.take(until));
    session->connection->set_deadline(until);
    return Lease(store, std::move(session));
  }
  Lease(Lease&& other) noexcept = default;
  Lease& operator=(Lease&&) = delete;
  ~Lease() {
    if (session_) store_.give_back(std::move(session_));
  }

  Session& operator*() { return *session_; }
  Session* operator->() { return session_.get(); }

 private:
  Lease(PostgresBlobs& store, std::unique_ptr<Session> session) : store_(store), session_(std::move(session)) {}

  PostgresBlobs& store_;
  std::unique_ptr<Session> session_;
};

PostgresBlobs::PostgresBlobs(Settings settings) : settings_(std::move(settings)) {}

PostgresBlobs::~PostgresBlobs() = default;

Result<std::unique_ptr<PostgresBlobs>> PostgresBlobs::open(const std::string& address,
                                                           const std::optional<std::string>& password,
                                                           std::chrono::milliseconds timeout) {
  Url url = WARREN_TRY(parse_url(address));
  Settings settings{.url = without_own_options(address)};
  if (password) {
    settings.url +=
        (settings.url.find('?') == std::string::npos ? "?password=" : "&password=") + encode_percent(*password);
  }
  WARREN_TRY(pg::check_postgres_url(settings.url));
  const std::string* prefix = url.find("prefix");
  settings.prefix = prefix != nullptr ? *prefix : "warren";
  if (settings.prefix.empty() || settings.prefix.size() > 200 || pg::clean_text(settings.prefix)) {
    return Error(Code::kInvalid, fmt::format("the prefix {} is not valid", quote(settings.prefix)),
                 "1 to 200 bytes of UTF-8");
  }
  const std::string* table = url.find("table");
  settings.table = table != nullptr ? *table : "warren_blobs";
  if (!is_pg_word(settings.table)) {
    return Error(Code::kInvalid, fmt::format("the table's name {} is not valid", quote(settings.table)),
                 "1 to 50 lower-case letters, digits and _");
  }
  settings.timeout = WARREN_TRY(duration_option(url, "timeout", timeout));
  settings.connections_max = WARREN_TRY(number_option(url, "connections", 8, 1, 1000));
  settings.name = fmt::format("{}?prefix={}", without_secrets(url), settings.prefix);
  return std::unique_ptr<PostgresBlobs>(new PostgresBlobs(std::move(settings)));
}

BlobAbilities PostgresBlobs::abilities() const {
  return {.conditional_puts = true,
          .conditional_removals = true,
          .ttl = true,
          .whole_batches = true,
          .lasts = true,
          .largest = kLargestPostgresBlob};
}

Result<std::unique_ptr<PostgresBlobs::Session>> PostgresBlobs::connect(Instant until) {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  pg::ConnectionOptions options{.connect_timeout = left, .answer_timeout = left, .program = "warren"};
  auto connection = WARREN_TRY(pg::Connection::open(settings_.url, options));
  auto session = std::make_unique<Session>(std::move(connection), settings_.table);
  session->connection->set_deadline(until);
  bool has_table = false;
  {
    std::lock_guard lock(mutex_);
    has_table = has_table_;
  }
  if (has_table) return session;
  WARREN_TRY(session->connection->execute(fmt::format(fmt::runtime(kCreate), settings_.table)).within([&] {
    return fmt::format("make the table {}", quote(settings_.table));
  }));
  std::lock_guard lock(mutex_);
  has_table_ = true;
  return session;
}

Result<std::unique_ptr<PostgresBlobs::Session>> PostgresBlobs::take(Instant until) {
  std::unique_lock lock(mutex_);
  auto is_free = [&] { return !idle_.empty() || in_use_ < settings_.connections_max; };
  if (!given_back_.wait_until(lock, until, is_free)) {
    return Error(Code::kUnavailable,
                 fmt::format("PostgreSQL: all {} connections are in use", settings_.connections_max));
  }
  ++in_use_;
  while (!idle_.empty()) {
    std::unique_ptr<Session> session = std::move(idle_.back());
    idle_.pop_back();
    lock.unlock();
    if (session->is_usable()) return session;
    session.reset();
    lock.lock();
  }
  lock.unlock();
  Result<std::unique_ptr<Session>> session = connect(until);
  if (!session.ok()) give_back(nullptr);
  return session;
}

// A null pointer for a session that is gone.
void PostgresBlobs::give_back(std::unique_ptr<Session> session) {
  std::lock_guard lock(mutex_);
  --in_use_;
  if (session && !session->connection->is_lost()) idle_.push_back(std::move(session));
  given_back_.notify_one();
}

Result<std::optional<Blob>> PostgresBlobs::get(std::string_view key) {
  WARREN_TRY(check_blob_key(key));
  auto session = WARREN_TRY(Lease::take(*this));
  const pg::Value values[] = {pg_text(settings_.prefix), pg_bytes(key)};
  pg::Reply reply = WARREN_TRY(session->connection->ask(session->get, values));
  if (reply.row_count() == 0) return std::optional<Blob>();
  return std::optional(Blob{.info = info_of_row(reply, 0, std::string(key)), .content = reply.bytes(0, 4)});
}

Result<std::optional<Blob>> PostgresBlobs::get_range(std::string_view key, std::uint64_t offset, std::uint64_t length) {
  WARREN_TRY(check_blob_key(key));
  auto session = WARREN_TRY(Lease::take(*this));
  constexpr std::uint64_t kFar = std::uint64_t{1} << 30;  // no value is longer
  std::string from = std::to_string(std::min(offset, kFar) + 1);
  std::string count = std::to_string(std::min(length, kFar - 1));
  const pg::Value values[] = {pg_text(settings_.prefix), pg_bytes(key), pg_number(from), pg_number(count)};
  pg::Reply reply = WARREN_TRY(session->connection->ask(session->range, values));
  if (reply.row_count() == 0) return std::optional<Blob>();
  return std::optional(Blob{.info = info_of_row(reply, 0, std::string(key)), .content = reply.bytes(0, 4)});
}

Result<std::optional<BlobInfo>> PostgresBlobs::find(std::string_view key) {
  WARREN_TRY(check_blob_key(key));
  auto session = WARREN_TRY(Lease::take(*this));
  const pg::Value values[] = {pg_text(settings_.prefix), pg_bytes(key)};
  pg::Reply reply = WARREN_TRY(session->connection->ask(session->find, values));
  if (reply.row_count() == 0) return std::optional<BlobInfo>();
  return std::optional(info_of_row(reply, 0, std::string(key)));
}

Result<BlobInfo> PostgresBlobs::put(std::string_view key, Bytes content, const PutOptions& options) {
  WARREN_TRY(check_blob_put(abilities(), key, content.size(), options));
  if (options.if_match && !is_pg_version(*options.if_match)) return pg_conflict(key);
  auto session = WARREN_TRY(Lease::take(*this));
  std::string ttl = pg_ttl(options);
  std::vector<pg::Value> values{pg_text(settings_.prefix), pg_bytes(key), pg_bytes(as_text(content)), pg_number(ttl)};
  if (options.if_match) values.push_back(pg_number(*options.if_match));
  int statement = options.if_match ? session->put_if_match : options.if_absent ? session->put_if_absent : session->put;
  pg::Reply reply = WARREN_TRY(session->connection->ask(statement, values));
  if (reply.row_count() == 0) return options.if_match ? pg_conflict(key) : pg_exists(key);
  BlobInfo info = info_of_row(reply, 0, std::string(key));
  collect_now_and_then(*session, 1);
  return info;
}

Result<bool> PostgresBlobs::remove(std::string_view key) {
  WARREN_TRY(check_blob_key(key));
  auto session = WARREN_TRY(Lease::take(*this));
  const pg::Value values[] = {pg_text(settings_.prefix), pg_bytes(key)};
  pg::Reply reply = WARREN_TRY(session->connection->ask(session->remove, values));
  return reply.row_count() > 0 && reply.integer(0, 0) == 1;
}

Result<std::vector<BlobInfo>> PostgresBlobs::list_rows(Session& session, const std::string& prefix,
                                                       const std::string& after, std::size_t limit) {
  std::optional<std::string> end = behind_prefix(prefix);
  std::string count = std::to_string(limit);
  const pg::Value values[] = {pg_text(settings_.prefix), pg_bytes(after), pg_bytes(prefix),
                              end ? pg_bytes(*end) : pg::Value{}, pg_number(count)};
  pg::Reply reply = WARREN_TRY(session.connection->ask(session.list, values));
  std::vector<BlobInfo> found;
  for (int row = 0; row < reply.row_count(); ++row) found.push_back(info_of_row(reply, row, reply.bytes(row, 4)));
  return found;
}

Result<BlobPage> PostgresBlobs::list(const ListOptions& options) {
  auto session = WARREN_TRY(Lease::take(*this));
  return list_in_pages(options, [&](const std::string& prefix, const std::string& after, std::size_t limit) {
    return list_rows(*session, prefix, after, limit);
  });
}

// Sends everything at once and looks at the answers before it commits.
Status PostgresBlobs::send_batch(Session& session, std::span<const BlobChange> changes) {
  pg::Connection& connection = *session.connection;
  WARREN_TRY(connection.begin());
  const pg::Value whose[] = {pg_text(settings_.prefix)};
  WARREN_TRY(connection.queue(session.take_turns, whose));
  std::vector<std::shared_ptr<std::optional<pg::Reply>>> replies;  // the connection fills them
  for (const BlobChange& change : changes) {
    const PutOptions& options = change.options;
    std::string ttl = change.content ? pg_ttl(options) : std::string();
    std::vector<pg::Value> values{pg_text(settings_.prefix), pg_bytes(change.key)};
    if (change.content) values.insert(values.end(), {pg_bytes(as_text(*change.content)), pg_number(ttl)});
    if (options.if_match) values.push_back(pg_number(*options.if_match));
    int statement =
        change.content
            ? (options.if_match ? session.put_if_match : (options.if_absent ? session.put_if_absent : session.put))
            : (options.if_match ? session.remove_if_match : (options.if_absent ? session.find : session.remove));
    auto reply = WARREN_TRY(connection.ask_ahead(statement, values));
    replies.push_back(std::move(reply));
  }
  WARREN_TRY(connection.wait_for_all());
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const PutOptions& options = changes[i].options;
    bool has_row = replies[i]->has_value() && (*replies[i])->row_count() > 0;
    if (options.if_match && !has_row) return pg_conflict(changes[i].key);
    if (options.if_absent && has_row != changes[i].content.has_value()) return pg_exists(changes[i].key);
  }
  return connection.commit();
}

Status PostgresBlobs::apply(std::span<const BlobChange> changes) {
  std::uint64_t size = 0;
  for (const BlobChange& change : changes) {
    WARREN_TRY(check_blob_key(change.key));
    if (change.content) WARREN_TRY(check_blob_put(abilities(), change.key, change.content->size(), change.options));
    if (change.options.if_match && !is_pg_version(*change.options.if_match)) return pg_conflict(change.key);
    size += change.content ? change.content->size() : 0;
  }
  if (size > kLargestPostgresBlob) {
    return Error(Code::kTooLarge, fmt::format("{} bytes are too many for one batch; at most {} are allowed", size,
                                              kLargestPostgresBlob));
  }
  if (changes.empty()) return Ok{};
  auto session = WARREN_TRY(Lease::take(*this));
  Status done = send_batch(*session, changes);
  if (!done.ok()) session->connection->rollback();
  else collect_now_and_then(*session, changes.size());
  return done;
}

void PostgresBlobs::collect_now_and_then(Session& session, std::size_t changes) {
  std::size_t before = changes_.fetch_add(changes);
  if (before + changes < kCollectAfter) return;
  changes_ = 0;
  session.connection->ask(session.collect, {}).ignore("expired rows are invisible, and the next one tries again");
}

}  // namespace warren
