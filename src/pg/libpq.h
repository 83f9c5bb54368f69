// PostgreSQL's client library, loaded when somebody connects: it brings two dozen libraries along, which would make
// every start of the program slower.
//
// Internal to this module: only its .cc files include this header.
#pragma once

#include <libpq-fe.h>

#include "base/result.h"

namespace warren::pg {

struct Libpq {
#define WARREN_PQ(name) decltype(&::name) name = nullptr
  WARREN_PQ(PQconnectStartParams);
  WARREN_PQ(PQconnectPoll);
  WARREN_PQ(PQconninfoParse);
  WARREN_PQ(PQconninfoFree);
  WARREN_PQ(PQfinish);
  WARREN_PQ(PQstatus);
  WARREN_PQ(PQerrorMessage);
  WARREN_PQ(PQhost);
  WARREN_PQ(PQdb);
  WARREN_PQ(PQserverVersion);
  WARREN_PQ(PQparameterStatus);
  WARREN_PQ(PQbackendPID);
  WARREN_PQ(PQsocket);
  WARREN_PQ(PQsetnonblocking);
  WARREN_PQ(PQexec);
  WARREN_PQ(PQenterPipelineMode);
  WARREN_PQ(PQexitPipelineMode);
  WARREN_PQ(PQpipelineSync);
  WARREN_PQ(PQsendPrepare);
  WARREN_PQ(PQsendQueryParams);
  WARREN_PQ(PQsendQueryPrepared);
  WARREN_PQ(PQflush);
  WARREN_PQ(PQisBusy);
  WARREN_PQ(PQconsumeInput);
  WARREN_PQ(PQgetResult);
  WARREN_PQ(PQnotifies);
  WARREN_PQ(PQfreemem);
  WARREN_PQ(PQclear);
  WARREN_PQ(PQresultStatus);
  WARREN_PQ(PQresultErrorField);
  WARREN_PQ(PQcmdStatus);
  WARREN_PQ(PQcmdTuples);
  WARREN_PQ(PQntuples);
  WARREN_PQ(PQgetisnull);
  WARREN_PQ(PQgetvalue);
  WARREN_PQ(PQgetlength);
  WARREN_PQ(PQsetNoticeReceiver);
#undef WARREN_PQ
};

// Loaded once for the process. kUnavailable says what to install.
Result<const Libpq*> load_libpq();

}  // namespace warren::pg
