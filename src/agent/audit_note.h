// Our own notes of how far audit trails have come, in ~/.agentfs/audit, which no agent can reach.
//
// A process that has appended to a trail stores the trail's end when it closes the agent. A trail that is shorter later
// was cut, and one that differs was replaced. The note belongs to the file (its inode and time of birth) and, as long
// as the trail begins with the same row, to its path, so that an older copy that was moved into place is found too.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "store/audit_check.h"
#include "store/audit_log.h"

namespace warren {

// Stores the end of the trail of the agent file, unless that would hide that rows are missing which an older note has.
Status note_audit_head(AuditLog& log, const std::string& agent_path);

// What the trail must contain by our notes.
Result<std::vector<AuditPoint>> find_audit_notes(AuditLog& log, const std::string& agent_path);

// Replaces the notes by the trail as it is now: the operator knows why it differs.
Status accept_audit_head(AuditLog& log, const std::string& agent_path);

}  // namespace warren
