#include <cmath>

#include <fmt/format.h>

#include "agent/agent_state.h"
#include "base/limits.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/show/text.h"

namespace warren::cli {
namespace {

constexpr std::size_t kSqlBytes = std::size_t{1} << 20;
constexpr std::size_t kTableRows = 1000;  // columns are aligned over this many rows at a time

std::string text_of(const QueryValue& value) {
  struct Writer {
    std::string operator()(std::nullptr_t) const { return ""; }
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return fmt::format("{}", number); }
    std::string operator()(const std::string& text) const { return text; }
    std::string operator()(const SqlBlob& blob) const { return "x'" + to_hex(blob.bytes) + "'"; }
  };
  return std::visit(Writer{}, value);
}

Json json_of(const QueryValue& value) {
  struct Writer {
    Json operator()(std::nullptr_t) const { return nullptr; }
    Json operator()(std::int64_t number) const { return number; }
    Json operator()(double number) const { return std::isfinite(number) ? Json(number) : Json(nullptr); }
    Json operator()(const std::string& text) const { return text; }
    Json operator()(const SqlBlob& blob) const { return Json{{"hex", to_hex(blob.bytes)}}; }
  };
  return std::visit(Writer{}, value);
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string out = "\"";
  for (char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string out;
  for (std::size_t i = 0; i < cells.size(); ++i) out += (i == 0 ? "" : ",") + csv_field(cells[i]);
  return out + "\n";
}

// Aligns columns; rows are buffered until their width is known.
class Table {
 public:
  explicit Table(Output& out) : out_(out) {}

  void add(const std::vector<std::string>& cells) {
    rows_.push_back(cells);
    if (rows_.size() == kTableRows) print();
  }

  void print() {
    for (const auto& row : rows_) {
      widths_.resize(std::max(widths_.size(), row.size()));
      for (std::size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], columns_of(row[i]));
    }
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) {
        line += i + 1 == row.size() ? row[i] : pad_right(row[i], widths_[i] + 2);
      }
      out_.line(line);
    }
    rows_.clear();
  }

 private:
  Output& out_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

struct Printer {
  Context& context;
  std::string format;
  Table table{context.out};
  Json list = Json::array();
  std::vector<std::string> columns;

  Status begin(const std::vector<std::string>& names) {
    columns = names;
    if (names.empty()) return Ok{};
    if (format == "csv") context.out.text(csv_line(names));
    if (format == "table") table.add(names);
    return Ok{};
  }

  Status add(const std::vector<QueryValue>& row) {
    if (format == "json") {
      Json object = Json::object();
      for (std::size_t i = 0; i < row.size(); ++i) object[columns[i]] = json_of(row[i]);
      list.push_back(std::move(object));
      return Ok{};
    }
    std::vector<std::string> cells;
    for (const QueryValue& value : row) cells.push_back(text_of(value));
    if (format == "csv") {
      context.out.text(csv_line(cells));
    } else {
      for (std::string& cell : cells) cell = context.out.name(cell);
      table.add(cells);
    }
    return context.out.status();
  }

  void end(std::int64_t changed) {
    if (format == "json" && !columns.empty()) context.out.json(list);
    if (format == "json" && columns.empty()) context.out.json({{"changed", changed}});
    table.print();
  }
};

Result<Exit> run_sql(Context& context, const Arguments& args) {
  std::string sql = args.get("SQL");
  if (sql == "-") sql = WARREN_TRY(read_input(context, kSqlBytes));
  bool writes = args.has("write");
  // For writing without a door: a table that makes recording impossible can only be removed here.
  auto agent =
      WARREN_TRY(writes ? open_state(context, args, Use::kWrite) : open_state(context, args, Use::kRead, "sql"));
  Printer printer{.context = context, .format = args.has("json") ? "json" : args.get("format")};
  QueryReader reader{.columns = [&](const auto& names) { return printer.begin(names); },
                     .row = [&](const auto& row) { return printer.add(row); }};
  std::int64_t changed = WARREN_TRY(run_query(*agent, sql, writes ? QueryAccess::kWrite : QueryAccess::kRead, reader));
  printer.end(changed);
  return Exit::kOk;
}

}  // namespace

Command make_sql() {
  return {.name = "sql",
          .summary = "Run one SQL statement on an agent's file",
          .details = "The tables are described in docs/format.md. Without --write the file is opened read-only.",
          .positionals = {id_argument(), {.name = "SQL", .help = "the statement; `-`: from standard input"}},
          .options = {{.name = "write", .letter = 'w', .help = "allow a statement that changes the agent"},
                      {.name = "format",
                       .value = "FORMAT",
                       .help = "how to print rows",
                       .choices = {"table", "json", "csv"},
                       .fallback = "table"},
                      json_option()},
          .subcommands = {},
          .handler = run_sql};
}

}  // namespace warren::cli
