#include "drives/folder_identity.h"

namespace warren {

Result<FolderIdentity> identify_folder(int dir) {
  HostStat info = WARREN_TRY(host_stat(dir, ""));
  FolderIdentity identity{.device = info.st_dev, .inode = info.st_ino};
  switch (find_generation_source(dir, "", info)) {
    case GenerationSource::kNone: break;
    case GenerationSource::kBirth: identity.generation = info.generation; break;
    case GenerationSource::kHandle: identity.generation = generation_by_handle(dir, ""); break;
  }
  return identity;
}

}  // namespace warren
