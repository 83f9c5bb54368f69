// One word of a shell's command, for commands that people copy.
#pragma once

#include <string>
#include <string_view>

namespace warren {

// As it is if that means the same to every shell, otherwise between single quotes. What a terminal would not show as it
// is (base/printable.h) stays in it: print no command then.
std::string shell_word(std::string_view text);

}  // namespace warren
