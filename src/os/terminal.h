// Whether a person is looking, and how wide their window is.
#pragma once

namespace warren {

bool is_terminal(int fd);
int terminal_columns(int fd);  // 80 when it does not say

}  // namespace warren
