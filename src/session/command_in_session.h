// How a command of `run` is started inside a session: its words and its environment.
#pragma once

#include <string>
#include <vector>

#include "sandbox/walls/environment.h"
#include "session/run_network.h"

namespace warren {

struct CommandInSession {
  std::string session;  // its id
  std::string base;
  std::string namespace_path;  // "" if it has none
  NetworkAccess network = NetworkAccess::kAll;
  bool marks_prompt = false;  // the command is an interactive shell: its prompt names the session
};

std::vector<std::string> own_environment();  // of this process: "NAME=value"

// `chosen`: the variables that the command gets from outside; `asked`: those that the user named, which stay as they
// are. `dir`: where the command starts.
std::vector<std::string> environment_inside(const CommandInSession& command, std::vector<std::string> chosen,
                                            const std::vector<AskedVariable>& asked, const std::string& dir);

// The words of the command; fish, which takes no prompt from the environment, gets it as an option.
std::vector<std::string> words_inside(const CommandInSession& command, std::vector<std::string> words);

}  // namespace warren
