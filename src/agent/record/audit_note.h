// Our own notes of how far audit trails have come, in ~/.agentfs/audit, which no agent can reach.
//
// A process that has appended to a trail stores the trail's end when it closes the agent. A trail that is shorter later
// was cut, and one that differs was replaced. There is one for the file (its inode and time of birth) and one for its
// path, so that an older or emptied copy that was moved into place is found too.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "store/record/audit_check.h"
#include "store/record/audit_log.h"

namespace warren {

// Stores the end of the trail of the agent file, unless that would hide that rows are missing which an older note has.
Status note_audit_head(AuditLog& log, const std::string& agent_path);

// What the trail must contain by our notes.
Result<std::vector<AuditPoint>> find_audit_notes(const std::string& agent_path);

// Removes the notes about a path where Warren has just made another agent.
Status forget_audit_notes(const std::string& agent_path);

// Replaces the notes by the trail as it is now: the operator knows why it differs.
Status accept_audit_head(AuditLog& log, const std::string& agent_path);

}  // namespace warren
