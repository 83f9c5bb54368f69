#include "store/vacant.h"

#include "db/log_owner.h"

namespace warren {

Status check_vacant(const std::string& path) { return check_no_log(path); }

}  // namespace warren
