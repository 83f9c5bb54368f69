#include "documents/sheet_text.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/ascii.h"
#include "documents/document_text.h"
#include "documents/office_xml.h"

namespace warren {
namespace {

constexpr std::size_t kSheetsMax = 200;
// Of all members that are read. What is parsed takes some hundred bytes for each element and attribute.
constexpr std::size_t kXmlBytesMax = std::size_t{64} << 20;
constexpr std::size_t kXmlPartsMax = 6'000'000;
constexpr std::string_view kWorkbook = "xl/workbook.xml";
constexpr std::string_view kRelations = "xl/_rels/workbook.xml.rels";
constexpr std::string_view kSharedTexts = "xl/sharedStrings.xml";

// Above that many empty cells in a row, the next one is written with its reference instead: a few far cells must not
// take megabytes.
constexpr std::size_t kEmptyCellsMax = 256;

// The column of a reference like "AB12", from 1; nullopt: it is none. Excel has 16,384 columns.
std::optional<std::size_t> column_of(std::string_view reference) {
  constexpr std::size_t kColumnsMax = 16'384;
  std::size_t column = 0;
  for (char c : reference) {
    if (c < 'A' || c > 'Z') break;
    column = column * 26 + static_cast<std::size_t>(c - 'A') + 1;
    if (column > kColumnsMax) return std::nullopt;
  }
  return column == 0 ? std::nullopt : std::optional(column);
}

struct SheetPlace {
  std::string name;
  std::string relation;  // the id of the relation that names its file
};

// A workbook while it is read.
class Workbook {
 public:
  Workbook(const Libxml2& library, std::string_view archive) : library_(library), archive_(archive) {}

  Status open() {
    std::string list = WARREN_TRY(list_members(archive_));
    for (std::string_view rest = list; !rest.empty();) {
      std::size_t end = std::min(rest.find('\n'), rest.size());
      members_.emplace(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (!members_.contains(kWorkbook)) return Error(Code::kInvalid, "the document has no workbook");
    WARREN_TRY(read_sheet_names());
    if (members_.contains(kRelations)) WARREN_TRY(read_relations());
    if (members_.contains(kSharedTexts)) WARREN_TRY(read_shared_texts());
    return Ok{};
  }

  Result<std::string> text() {
    for (std::size_t i = 0; i < sheets_.size() && i < kSheetsMax; ++i) WARREN_TRY(add_sheet(sheets_[i]));
    if (sheets_.size() > kSheetsMax) text_ += fmt::format("({} more sheets)\n", sheets_.size() - kSheetsMax);
    return std::move(text_);
  }

 private:
  Result<OfficeXml> read(std::string_view member) {
    std::string xml = WARREN_TRY(unzip_member(archive_, std::string(member)));
    xml_bytes_ += xml.size();
    xml_parts_ += static_cast<std::size_t>(std::ranges::count_if(xml, [](char c) { return c == '<' || c == '='; }));
    if (xml_bytes_ > kXmlBytesMax || xml_parts_ > kXmlPartsMax) {
      return Error(Code::kTooLarge, fmt::format("the document has more than {} bytes or {} elements and attributes",
                                                kXmlBytesMax, kXmlPartsMax));
    }
    OfficeXml doc = parse_office_xml(library_, xml);
    if (!doc || library_.xmlDocGetRootElement(doc.get()) == nullptr) {
      return Error(Code::kInvalid, fmt::format("the XML of {} in the document is damaged", member));
    }
    return doc;
  }

  template <class Visit>
  void visit_elements(const OfficeXml& doc, const Visit& visit) {
    const xmlNode* root = library_.xmlDocGetRootElement(doc.get());
    for (const xmlNode* node = root; node != nullptr; node = next_office_node(root, node)) {
      if (node->type == XML_ELEMENT_NODE) visit(node);
    }
  }

  Status read_sheet_names() {
    OfficeXml doc = WARREN_TRY(read(kWorkbook));
    visit_elements(doc, [&](const xmlNode* node) {
      if (local_name(node) != "sheet") return;
      sheets_.push_back({.name = office_attribute(node, "name"), .relation = office_attribute(node, "id")});
    });
    return Ok{};
  }

  Status read_relations() {
    OfficeXml doc = WARREN_TRY(read(kRelations));
    visit_elements(doc, [&](const xmlNode* node) {
      std::string target = office_attribute(node, "Target");
      targets_[office_attribute(node, "Id")] = target.starts_with('/') ? target.substr(1) : "xl/" + target;
    });
    return Ok{};
  }

  Status read_shared_texts() {
    OfficeXml doc = WARREN_TRY(read(kSharedTexts));
    visit_elements(doc, [&](const xmlNode* node) {
      if (local_name(node) == "si") shared_.push_back(text_in(node));
    });
    return Ok{};
  }

  // The t elements below; rPh, a hint for pronunciation, is not part of a text.
  static std::string text_in(const xmlNode* element) {
    std::string text;
    for (const xmlNode* node = element; node != nullptr; node = next_office_node(element, node)) {
      if (node->type != XML_TEXT_NODE || node->content == nullptr) continue;
      bool is_text = local_name(node->parent) == "t" &&
                     (node->parent->parent == nullptr || local_name(node->parent->parent) != "rPh");
      if (is_text) text += reinterpret_cast<const char*>(node->content);
    }
    return text;
  }

  static std::string value_in(const xmlNode* cell) {
    for (const xmlNode* node = cell->children; node != nullptr; node = node->next) {
      if (node->type != XML_ELEMENT_NODE || local_name(node) != "v" || node->children == nullptr) continue;
      if (node->children->content != nullptr) return reinterpret_cast<const char*>(node->children->content);
    }
    return {};
  }

  std::string cell_text(const xmlNode* cell) const {
    std::string kind = office_attribute(cell, "t");
    if (kind == "inlineStr") return text_in(cell);
    std::string value = value_in(cell);
    if (kind == "b") return value == "1" ? "TRUE" : "FALSE";
    if (kind != "s") return value;
    std::optional<std::size_t> index = parse_number<std::size_t>(value);
    return index && *index < shared_.size() ? shared_[*index] : std::string();
  }

  // A name of the archive that unzip cannot take as a pattern or an option.
  bool is_plain_member(const std::string& member) const {
    constexpr std::string_view kPlain = "/._-";
    bool is_plain = std::ranges::all_of(
        member, [&](char c) { return is_letter(c) || is_digit(c) || kPlain.find(c) != kPlain.npos; });
    return is_plain && member.starts_with("xl/") && members_.contains(member);
  }

  // A small archive can say one text a million times.
  void add(std::string_view text) {
    is_too_large_ = is_too_large_ || text_.size() + text.size() > kDocumentBytes;
    if (!is_too_large_) text_ += text;
  }

  // Empty cells are usually not in the file: a cell says which one it is. `column`: of the last one in its row.
  void add_cell(const xmlNode* cell, std::size_t& column) {
    std::string reference = office_attribute(cell, "r");
    std::size_t here = std::max(column_of(reference).value_or(0), column + 1);
    std::size_t empty = here - column - 1;
    std::size_t tabs = (column > 0 ? 1 : 0) + (empty > kEmptyCellsMax ? 0 : empty);
    add(std::string(tabs, '\t'));
    if (empty > kEmptyCellsMax) add(reference + ": ");
    add(cell_text(cell));
    column = here;
  }

  Status add_sheet(const SheetPlace& sheet) {
    auto target = targets_.find(sheet.relation);
    if (target == targets_.end() || !is_plain_member(target->second)) return Ok{};  // a chart, or of another program
    if (!read_sheets_.insert(target->second).second) return Ok{};
    OfficeXml doc = WARREN_TRY(read(target->second));
    add(sheet.name + "\n");
    bool is_first_row = true;
    std::size_t column = 0;
    visit_elements(doc, [&](const xmlNode* node) {
      if (local_name(node) == "row") {
        if (!std::exchange(is_first_row, false)) add("\n");
        column = 0;
      }
      if (local_name(node) == "c") add_cell(node, column);
    });
    add("\n");
    if (!is_too_large_) return Ok{};
    return Error(Code::kTooLarge, fmt::format("the text of the document has more than {} bytes", kDocumentBytes));
  }

  const Libxml2& library_;
  std::string_view archive_;
  std::set<std::string, std::less<>> members_;
  std::vector<SheetPlace> sheets_;
  std::map<std::string, std::string> targets_;  // by relation
  std::set<std::string> read_sheets_;           // members: several sheets may name one
  std::vector<std::string> shared_;
  std::size_t xml_bytes_ = 0;
  std::size_t xml_parts_ = 0;
  std::string text_;
  bool is_too_large_ = false;
};

}  // namespace

Result<std::string> sheet_text(std::string_view bytes) {
  const Libxml2* library = WARREN_TRY(load_libxml2());
  Workbook workbook(*library, bytes);
  WARREN_TRY(workbook.open());
  return workbook.text();
}

}  // namespace warren
