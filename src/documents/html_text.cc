#include <array>
#include <memory>

#include <fmt/format.h>

#include "base/ascii.h"
#include "documents/document_text.h"
#include "documents/encoding.h"
#include "documents/libxml2.h"

namespace warren {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  for (std::string_view one : names) {
    if (one == name) return true;
  }
  return false;
}

bool is_skipped(std::string_view name) {
  return is_one_of(name,
                   {"script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "title", "head"});
}

bool is_block(std::string_view name) {
  return is_one_of(name, {"p",     "div",  "section", "article", "header",     "footer", "main", "nav",   "aside",
                          "table", "tr",   "ul",      "ol",      "li",         "dl",     "dt",   "dd",    "blockquote",
                          "pre",   "form", "figure",  "hr",      "figcaption", "h1",     "h2",   "h3",    "h4",
                          "h5",    "h6",   "details", "summary", "address",    "body",   "html", "thead", "tbody"});
}

// Text as it grows: blanks collapse, blocks are apart, and lines of pre stay.
class TextWriter {
 public:
  void add(std::string_view text, bool is_verbatim) {
    if (is_verbatim) {
      flush_break();
      text_ += text;
      return;
    }
    for (char c : text) {
      if (kWhitespace.find(c) != std::string_view::npos || c == '\f') has_blank_ = true;
      else put(c);
    }
  }
  void end_line() {
    if (breaks_ < 1) breaks_ = 1;
    has_blank_ = false;
  }
  void end_block() {
    if (breaks_ < 2) breaks_ = 2;
    has_blank_ = false;
  }
  void prefix(std::string_view mark) {
    flush_break();
    text_ += mark;
    is_after_mark_ = true;
  }
  std::string take() {
    while (!text_.empty() && kWhitespace.find(text_.back()) != std::string_view::npos) text_.pop_back();
    if (!text_.empty()) text_ += '\n';
    return std::move(text_);
  }

 private:
  void flush_break() {
    if (!text_.empty() && !is_after_mark_) text_.append(static_cast<std::size_t>(breaks_), '\n');
    breaks_ = 0;
  }
  void put(char c) {
    bool is_at_start = text_.empty() || breaks_ > 0 || is_after_mark_ || text_.ends_with('\n');
    flush_break();
    is_after_mark_ = false;
    if (has_blank_ && !is_at_start) text_ += ' ';
    has_blank_ = false;
    text_ += c;
  }

  std::string text_;
  int breaks_ = 0;
  bool has_blank_ = false;
  bool is_after_mark_ = false;  // "- " and "# " stand on the line of what follows
};

std::string_view name_of_node(const xmlNode* node) {
  return node->name == nullptr ? std::string_view() : reinterpret_cast<const char*>(node->name);
}

std::string_view content_of_node(const xmlNode* node) {
  return node->content == nullptr ? std::string_view() : reinterpret_cast<const char*>(node->content);
}

// Walks without recursion: a page can be deep.
class PageReader {
 public:
  explicit PageReader(const Libxml2& library) : library_(library) {}

  DocumentText read(xmlNode* root) {
    for (xmlNode* node = root; node != nullptr;) {
      bool is_entered = enter(node);
      if (is_entered && node->children != nullptr) {
        node = node->children;
        continue;
      }
      leave(node);
      while (node != root && node->next == nullptr) {
        node = node->parent;
        if (node == nullptr) break;
        leave(node);
      }
      node = node == nullptr || node == root ? nullptr : node->next;
    }
    return {.title = title_.take(), .text = text_.take()};
  }

 private:
  bool enter(xmlNode* node) {
    if (node->type == XML_TEXT_NODE || node->type == XML_CDATA_SECTION_NODE) {
      text_.add(content_of_node(node), verbatim_ > 0);
      return false;
    }
    if (node->type != XML_ELEMENT_NODE) return false;
    std::string_view name = name_of_node(node);
    if (name == "head") return find_title(node);
    if (is_skipped(name)) return false;
    if (name == "br") text_.end_line();
    if (name == "img") add_alternative(node);
    if (name == "td" || name == "th") text_.add(" ", false);
    if (!is_block(name)) return true;
    bool is_dense = name == "li" || name == "tr" || name == "dt" || name == "dd";
    if (is_dense) text_.end_line();
    else text_.end_block();
    if (name == "pre") ++verbatim_;
    if (name == "li") text_.prefix("- ");
    if (name.size() == 2 && name[0] == 'h' && is_digit(name[1])) {
      text_.prefix(std::string(static_cast<std::size_t>(name[1] - '0'), '#') + " ");
    }
    return true;
  }

  void leave(xmlNode* node) {
    if (node->type != XML_ELEMENT_NODE) return;
    std::string_view name = name_of_node(node);
    if (is_skipped(name) || !is_block(name)) return;
    if (name == "pre" && verbatim_ > 0) --verbatim_;
    if (name == "li" || name == "tr" || name == "dt" || name == "dd") text_.end_line();
    else text_.end_block();
  }

  bool find_title(xmlNode* head) {
    for (xmlNode* node = head->children; node != nullptr; node = node->next) {
      if (node->type != XML_ELEMENT_NODE || name_of_node(node) != "title") continue;
      for (xmlNode* part = node->children; part != nullptr; part = part->next) title_.add(content_of_node(part), false);
    }
    return false;
  }

  void add_alternative(xmlNode* node) {
    xmlAttr* alternative = library_.xmlHasProp(node, reinterpret_cast<const xmlChar*>("alt"));
    if (alternative == nullptr) return;
    for (xmlNode* part = alternative->children; part != nullptr; part = part->next)
      text_.add(content_of_node(part), false);
  }

  const Libxml2& library_;
  TextWriter text_;
  TextWriter title_;
  int verbatim_ = 0;  // inside of pre
};

}  // namespace

Result<DocumentText> html_text(std::string_view bytes, std::string_view charset) {
  const Libxml2* library = WARREN_TRY(load_libxml2());
  std::optional<std::string> page = decode_text(bytes, charset);
  if (!page) return Error(Code::kInvalid, "the page is not text in any known encoding");
  if (page->empty()) return DocumentText{};
  constexpr int kOptions = HTML_PARSE_RECOVER | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING | HTML_PARSE_NONET |
                           HTML_PARSE_NODEFDTD | HTML_PARSE_COMPACT;
  struct FreeDoc {
    const Libxml2* library;
    void operator()(xmlDoc* doc) const { library->xmlFreeDoc(doc); }
  };
  std::unique_ptr<xmlDoc, FreeDoc> doc(
      library->htmlReadMemory(page->data(), static_cast<int>(page->size()), nullptr, "UTF-8", kOptions), {library});
  xmlNode* root = doc ? library->xmlDocGetRootElement(doc.get()) : nullptr;
  if (root == nullptr) return DocumentText{};  // nothing but comments and blanks
  DocumentText text = PageReader(*library).read(root);
  text.title = std::string(trimmed(text.title, kWhitespace));
  return text;
}

}  // namespace warren
