// A program of the system that reads a stranger's document, confined (os/processes/confined.h): a document can take
// over the program that reads it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace warren {

struct LimitedProgram {
  std::vector<std::string> words;  // the program and its arguments
  std::string_view package;        // of Debian, for the message if it is missing
};

// What it prints, with `input` as its standard input, which is a file. kUnavailable: not installed. kTimeout. kInvalid:
// it failed, with what it said.
Result<std::string> run_limited(const LimitedProgram& program, std::string_view input);

}  // namespace warren
