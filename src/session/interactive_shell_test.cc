#include "session/interactive_shell.h"

#include <gtest/gtest.h>

#include <vector>

namespace warren {
namespace {

using ShellLine = std::vector<std::string>;

TEST(InteractiveShell, AShellWithOptionsOnlyAsksForCommands) {
  for (const ShellLine& words : {ShellLine{"bash"},
                                 {"/bin/bash", "--norc"},
                                 {"bash", "--norc", "--noprofile", "-i"},
                                 {"bash", "--rcfile", "my.rc", "-o", "vi", "+O", "extglob"},
                                 {"bash", "--rcfile=my.rc"},
                                 {"bash", "-s", "first argument"},
                                 {"zsh", "-f"},
                                 {"zsh", "-df", "-o", "extendedglob"},
                                 {"zsh", "-oextendedglob"},
                                 {"sh", "-eu"},
                                 {"dash", "--"},
                                 {"fish", "--no-config"},
                                 {"fish", "-N", "-C", "echo hello"}}) {
    EXPECT_TRUE(is_interactive_shell(words)) << testing::PrintToString(words);
  }
}

TEST(InteractiveShell, AScriptACommandOrAnotherProgramDoesNot) {
  for (const ShellLine& words : {ShellLine{},
                                 {"python3"},
                                 {"bash", "script.sh"},
                                 {"bash", "--norc", "script.sh"},
                                 {"bash", "-c", "true"},
                                 {"bash", "-ec", "true"},
                                 {"bash", "-o", "pipefail", "-c", "true"},
                                 {"bash", "-o"},
                                 {"bash", "--version"},
                                 {"bash", "--", "script.sh"},
                                 {"zsh", "-f", "script.zsh"},
                                 {"zsh", "-fc", "true"},
                                 {"sh", "-x", "script.sh"},
                                 {"fish", "--command=true"},
                                 {"fish", "-N", "-c", "true"},
                                 {"fish", "-C", "echo hello", "script.fish"},
                                 {"fish", "--version"}}) {
    EXPECT_FALSE(is_interactive_shell(words)) << testing::PrintToString(words);
  }
}

}  // namespace
}  // namespace warren
