#include "db/sqlite_init.h"

#include <algorithm>
#include <new>

#include <sqlite3.h>

#include "base/check.h"

namespace warren {
namespace {

constexpr unsigned kLockByte = 0x40000000;  // SQLite's PENDING_BYTE: part of the file format

sqlite3_pcache_methods2 inner{};  // SQLite's own; set once, before a second thread can call

struct PageCache {
  sqlite3_pcache* pages = nullptr;
  unsigned lock_page = 0;  // the temporary number
  unsigned highest = 0;    // upper bound of the other page numbers
};

PageCache& of(sqlite3_pcache* cache) { return *reinterpret_cast<PageCache*>(cache); }

void note(PageCache& cache, unsigned number) {
  if (number != cache.lock_page) cache.highest = std::max(cache.highest, number);
}

int on_init(void*) { return inner.xInit(inner.pArg); }
void on_shutdown(void*) { inner.xShutdown(inner.pArg); }

sqlite3_pcache* on_create(int page_bytes, int extra_bytes, int is_purgeable) {
  auto* cache = new (std::nothrow) PageCache;
  if (cache == nullptr) return nullptr;
  cache->pages = inner.xCreate(page_bytes, extra_bytes, is_purgeable);
  cache->lock_page = kLockByte / static_cast<unsigned>(page_bytes) + 1;
  if (cache->pages != nullptr) return reinterpret_cast<sqlite3_pcache*>(cache);
  delete cache;
  return nullptr;
}

void on_destroy(sqlite3_pcache* cache) {
  inner.xDestroy(of(cache).pages);
  delete &of(cache);
}

sqlite3_pcache_page* on_fetch(sqlite3_pcache* cache, unsigned number, int how) {
  sqlite3_pcache_page* page = inner.xFetch(of(cache).pages, number, how);
  if (page != nullptr) note(of(cache), number);
  return page;
}

void on_rekey(sqlite3_pcache* cache, sqlite3_pcache_page* page, unsigned old_number, unsigned number) {
  inner.xRekey(of(cache).pages, page, old_number, number);
  note(of(cache), number);
}

void on_truncate(sqlite3_pcache* cache, unsigned limit) {
  if (limit > of(cache).highest) return;
  inner.xTruncate(of(cache).pages, limit);
  of(cache).highest = limit - 1;
}

void on_unpin(sqlite3_pcache* cache, sqlite3_pcache_page* page, int is_unwanted) {
  inner.xUnpin(of(cache).pages, page, is_unwanted);
}
void on_size(sqlite3_pcache* cache, int pages) { inner.xCachesize(of(cache).pages, pages); }
int on_count(sqlite3_pcache* cache) { return inner.xPagecount(of(cache).pages); }
void on_shrink(sqlite3_pcache* cache) { inner.xShrink(of(cache).pages); }

// SQLite refuses this once it is initialised; then it keeps its own cache.
[[maybe_unused]] void install() {
  if (sqlite3_config(SQLITE_CONFIG_GETPCACHE2, &inner) != SQLITE_OK || inner.iVersion != 1) return;
  sqlite3_pcache_methods2 methods{};
  methods.iVersion = 1;
  methods.xInit = on_init;
  methods.xShutdown = on_shutdown;
  methods.xCreate = on_create;
  methods.xCachesize = on_size;
  methods.xPagecount = on_count;
  methods.xFetch = on_fetch;
  methods.xUnpin = on_unpin;
  methods.xRekey = on_rekey;
  methods.xTruncate = on_truncate;
  methods.xDestroy = on_destroy;
  methods.xShrink = on_shrink;
  sqlite3_config(SQLITE_CONFIG_PCACHE2, &methods);
}

int initialise() {
#ifdef WARREN_OWN_SQLITE
  install();
#endif
  int code = sqlite3_initialize();
#ifdef SQLITE3MC_VERSION_STRING
  // Files without a key do not go through the VFS that encrypts, which would be the default.
  if (code == SQLITE_OK) code = sqlite3_vfs_register(sqlite3_vfs_find("unix"), 1);
#endif
  return code;
}

}  // namespace

void initialise_sqlite() {
  static const int done = initialise();
  WARREN_CHECK(done == SQLITE_OK);
}

}  // namespace warren
