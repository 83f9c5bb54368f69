#include "testing/temp_dir.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/check.h"

namespace warren::testing {

TempDir::TempDir() {
  const char* root = std::getenv("TMPDIR");
  path_ = std::string(root != nullptr ? root : "/tmp") + "/warren-test-XXXXXX";
  WARREN_CHECK(mkdtemp(path_.data()) != nullptr);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace warren::testing
