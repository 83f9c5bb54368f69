// Reads, listings and removals that fail on the way to a file, on the record.
//
// AuditFs does not record that a name is looked up, because a kernel looks names up all the time. A door that is asked
// for an operation on a path knows more: reading a path that does not exist is a read that failed.
#pragma once

#include <string_view>
#include <utility>

#include "base/result.h"
#include "vfs/namespace.h"

namespace warren {

// Unless AuditFs has recorded the failure: a refusal, or a removal that found the file. Not within a unit of the view.
void note_failure(NamespaceView& view, std::string_view op, std::string_view path, const Error& error);

// Returns the outcome of "read", "list" or "delete".
template <class T>
Result<T> on_record(NamespaceView& view, std::string_view op, std::string_view path, Result<T> outcome) {
  if (!outcome.ok()) note_failure(view, op, path, outcome.error());
  return outcome;
}

}  // namespace warren
