# SQLite 3.51.3 or newer: older versions can corrupt a database if several connections reset the WAL at the same time.
# Uses the system library if it is new enough; otherwise builds the amalgamation with SQLite3 Multiple Ciphers that
# tools/setup has fetched into .deps/sqlite, with options chosen by measurement (docs/dependencies.md). Only with the
# latter can agent files be encrypted.
set(WARREN_SQLITE_MINIMUM 3.51.3)
set(WARREN_SQLITE_DIR ${PROJECT_SOURCE_DIR}/.deps/sqlite CACHE PATH "Where sqlite3.c and sqlite3.h are")

find_package(SQLite3 ${WARREN_SQLITE_MINIMUM} QUIET)
if(SQLite3_FOUND)
  message(STATUS "SQLite: system ${SQLite3_VERSION}")
  add_library(warren_sqlite INTERFACE)
  target_link_libraries(warren_sqlite INTERFACE SQLite::SQLite3)
  return()
endif()
if(NOT EXISTS ${WARREN_SQLITE_DIR}/sqlite3.c)
  message(FATAL_ERROR "SQLite ${WARREN_SQLITE_MINIMUM} or newer not found. Run tools/setup to fetch it.")
endif()
file(STRINGS ${WARREN_SQLITE_DIR}/sqlite3.h ciphers REGEX "SQLITE3MC_VERSION_STRING" LIMIT_COUNT 1)
if(NOT ciphers)
  message(FATAL_ERROR "${WARREN_SQLITE_DIR} has SQLite without ciphers. Run tools/setup to fetch the pinned one.")
endif()

add_library(warren_sqlite OBJECT ${WARREN_SQLITE_DIR}/sqlite3.c)
target_include_directories(warren_sqlite SYSTEM PUBLIC ${WARREN_SQLITE_DIR})
target_compile_definitions(warren_sqlite PRIVATE
  SQLITE_THREADSAFE=2             # one thread at a time in a connection: db/database.h holds a lock
  SQLITE_DEFAULT_MEMSTATUS=0
  SQLITE_DEFAULT_WAL_SYNCHRONOUS=1
  SQLITE_LIKE_DOESNT_MATCH_BLOBS
  SQLITE_MAX_EXPR_DEPTH=0
  SQLITE_OMIT_DEPRECATED
  SQLITE_OMIT_PROGRESS_CALLBACK
  SQLITE_OMIT_SHARED_CACHE
  SQLITE_OMIT_AUTOINIT
  SQLITE_USE_ALLOCA
  SQLITE_DQS=0
  SQLITE_MAX_MMAP_SIZE=0x10000000000
  SQLITE_ENABLE_FTS5
  SQLITE_ENABLE_SESSION
  SQLITE_ENABLE_PREUPDATE_HOOK
  SQLITE_ENABLE_SNAPSHOT
  SQLITE_ENABLE_DBSTAT_VTAB
  SQLITE_ENABLE_COLUMN_METADATA
  CODEC_TYPE=CODEC_TYPE_AEGIS     # the one cipher that we use, and the only one that is built
  HAVE_CIPHER_AES_128_CBC=0 HAVE_CIPHER_AES_256_CBC=0 HAVE_CIPHER_CHACHA20=0 HAVE_CIPHER_SQLCIPHER=0
  HAVE_CIPHER_RC4=0 HAVE_CIPHER_ASCON128=0
  HAVE_FDATASYNC=1 HAVE_USLEEP=1 HAVE_PREAD=1 HAVE_PWRITE=1 HAVE_MALLOC_USABLE_SIZE=1)
# Not sanitized: it is not our code, and at -O2 a sanitizer triples the longest compilation of the build. The options are
# the same in every build and do not name the directory, so that ccache hits after the first build.
set_target_properties(warren_sqlite PROPERTIES COMPILE_OPTIONS "-O2;-w;-g0")
target_link_libraries(warren_sqlite PUBLIC Threads::Threads dl m)
