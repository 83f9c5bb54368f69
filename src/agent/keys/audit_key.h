// The operator's keys for audit trails: where they come from. They are never in an agent file, an argument list, a log
// or an error.
//
// In this order: the variable WARREN_AUDIT_KEY, the output of the command in WARREN_AUDIT_KEY_COMMAND, or the file
// $XDG_CONFIG_HOME/warren/audit.key (~/.config/warren/audit.key), which is made when it is first needed, with a random
// key and mode 0600. A key is 64 hexadecimal digits. There may be several, separated by commas, blanks or line ends:
// the first is used for new events, the others are those before it.
#pragma once

#include <string>

#include "base/result.h"
#include "store/record/audit_log.h"
#include "store/record/audit_row.h"

namespace warren {

enum class MissingKey { kMake, kReport };

// kNotFound if there is none and none is to be made; kDenied if others can read the file; kInvalid.
Result<AuditKeys> load_audit_keys(MissingKey missing = MissingKey::kMake);

// Whether a variable says where they come from: then the operator has asked for trails.
bool is_audit_key_given();

// Puts a new key in front of those in the file and returns its id. kUnsupported if the keys come from elsewhere.
Result<std::string> rotate_audit_key();

// The directory of the key file, which no run may reach.
Result<std::string> audit_key_directory();

// Makes the trail ready, with the operator's keys. A key is made only for a trail without rows.
Status enable_audit(AuditLog& log, const std::string& agent);

// Parses keys as above; `where` names their source in errors.
Result<AuditKeys> parse_audit_keys(std::string_view text, std::string_view where);

}  // namespace warren
