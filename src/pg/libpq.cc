#include "pg/libpq.h"

#include <dlfcn.h>

#include <fmt/format.h>

namespace warren::pg {
namespace {

template <class F>
void find(void* library, const char* name, F& function, const char*& missing) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  if (function == nullptr && missing == nullptr) missing = name;
}

Result<Libpq> load() {
  void* library = ::dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error(Code::kUnavailable, "PostgreSQL's client library 'libpq.so.5' is not here",
                 "install it: on Debian the package libpq5");
  }
  Libpq pq;
  const char* missing = nullptr;
#define WARREN_PQ(name) find(library, #name, pq.name, missing)
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
  if (missing != nullptr) {
    return Error(Code::kUnavailable, fmt::format("PostgreSQL's client library has no {}", missing),
                 "version 14 or newer is needed");
  }
  return pq;
}

}  // namespace

Result<const Libpq*> load_libpq() {
  static const Result<Libpq> loaded = load();
  if (!loaded.ok()) return loaded.error();
  return &*loaded;
}

}  // namespace warren::pg
