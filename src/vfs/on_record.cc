#include "vfs/on_record.h"

namespace warren {
namespace {

// Found by looking at the names, before anything was to be removed.
bool is_failed_lookup(Code code) {
  return code == Code::kNotFound || code == Code::kNotDirectory || code == Code::kIsDirectory || code == Code::kLoop ||
         code == Code::kNameTooLong;
}

}  // namespace

void note_failure(NamespaceView& view, std::string_view op, std::string_view path, const Error& error) {
  Code code = error.code();
  bool is_refusal = code == Code::kDenied || code == Code::kNotPermitted;
  bool cannot_store = code == Code::kBusy;  // somebody holds the file; an event would wait for it again
  if (is_refusal || cannot_store || (op == "delete" && !is_failed_lookup(code))) return;
  view.record(op, path, Status(error)).ignore("it has failed, whether that can be recorded or not");
}

}  // namespace warren
