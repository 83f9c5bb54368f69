// PostgreSQL's client library, loaded on the first connection: it pulls in two dozen libraries, which would slow down
// every start of the program.
//
// Internal to this module: only its .cc files include this header.
#pragma once

#include <libpq-fe.h>

#include "base/result.h"

namespace warren::pg {

// The functions we use, by name.
// clang-format off
#define WARREN_PQ_FUNCTIONS(X) \
  X(PQconnectStartParams) X(PQconnectPoll) X(PQconninfoParse) X(PQconninfoFree) X(PQfinish) X(PQstatus) \
  X(PQerrorMessage) X(PQhost) X(PQdb) X(PQserverVersion) X(PQparameterStatus) X(PQbackendPID) X(PQsocket) \
  X(PQsetnonblocking) X(PQsendQuery) X(PQenterPipelineMode) X(PQexitPipelineMode) X(PQpipelineSync) X(PQsendPrepare) \
  X(PQsendQueryParams) X(PQsendQueryPrepared) X(PQflush) X(PQisBusy) X(PQconsumeInput) X(PQgetResult) \
  X(PQnotifies) X(PQfreemem) X(PQclear) X(PQresultStatus) X(PQresultErrorField) X(PQcmdStatus) X(PQcmdTuples) \
  X(PQntuples) X(PQgetisnull) X(PQgetvalue) X(PQgetlength) X(PQsetErrorVerbosity) X(PQsetNoticeReceiver)
// clang-format on

struct Libpq {
#define WARREN_PQ_POINTER(name) decltype(&::name) name = nullptr;
  WARREN_PQ_FUNCTIONS(WARREN_PQ_POINTER)
#undef WARREN_PQ_POINTER
};

// Loaded once per process. kUnavailable says what to install.
Result<const Libpq*> load_libpq();

}  // namespace warren::pg
