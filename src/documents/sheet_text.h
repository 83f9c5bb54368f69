// The cells of an Excel workbook (xlsx) as text.
//
// Internal to this module.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace warren {

// Each sheet in the workbook's order: its name, then its rows, cells with tabs between them, empty ones included. After
// more than 256 empty cells a cell has its reference before it instead ("XFD1: x"). Numbers, truth values and results
// of formulas are as they are stored. kInvalid (damaged), kTooLarge, and the errors of run_limited.
Result<std::string> sheet_text(std::string_view bytes);

}  // namespace warren
