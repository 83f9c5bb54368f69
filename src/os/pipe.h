// A pipe, both ends closed on exec.
#pragma once

#include "base/result.h"
#include "os/fd.h"

namespace warren {

struct Pipe {
  Fd reader;
  Fd writer;
};

Result<Pipe> open_pipe();

}  // namespace warren
