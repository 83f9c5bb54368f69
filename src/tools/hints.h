// The hint that every failed call ends with: what a model can do next.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/tool.h"

namespace warren {

// Whether this advises to type a command or an option at a shell, as hints of the layers below do: they are written for
// people, and a model has tools only.
bool is_for_shell(std::string_view hint);

// Whether the tools that the hint advises to call are among these: those that it names before its first '{'. What
// follows are arguments, or a schema.
bool names_only(std::string_view hint, const std::vector<const Tool*>& offered);

// The hint for an error of this tool that came without one, or with one for a shell: by the kind of the error and what
// the tool is about. Never empty.
std::string default_hint(const Tool& tool, std::string_view error_type);

}  // namespace warren
