// Redis's client library, loaded on the first connection. It formats commands and parses answers; sockets are ours
// (stream.h), because its own calls have a time limit for each read, not for the whole answer.
//
// Internal to this module: only its .cc files include this header.
#pragma once

#include <hiredis/hiredis.h>

#include "base/result.h"

namespace warren::redis {

// The functions we use, by name.
// clang-format off
#define WARREN_HIREDIS_FUNCTIONS(X) \
  X(redisReaderCreate) X(redisReaderFree) X(redisReaderFeed) X(redisReaderGetReply) X(redisFormatCommandArgv) \
  X(redisFreeCommand) X(freeReplyObject)
// clang-format on

struct Hiredis {
#define WARREN_HIREDIS_POINTER(name) decltype(&::name) name = nullptr;
  WARREN_HIREDIS_FUNCTIONS(WARREN_HIREDIS_POINTER)
#undef WARREN_HIREDIS_POINTER
};

// Loaded once per process. kUnavailable says what to install.
Result<const Hiredis*> load_hiredis();

}  // namespace warren::redis
