// Columns in the order in which Ledger reads them.
#pragma once

#define WARREN_DELIVERY "id, message_id, recipient, state, inbox_name, receipt, attempts, next_at, deadline, last_error"
#define WARREN_MESSAGE                                                                                         \
  "id, message_id, agent_name, direction, file_path, file_size, file_mtime_ns, file_inode, checksum, status, " \
  "message_type, target, discovered_at, last_error"

// The condition of the index on unread deliveries, word for word. Not IN: for lists of three SQLite creates a table
// whenever a row of deliveries is written.
#define WARREN_UNREAD "(state = 'stored' OR state = 'held' OR state = 'delivered')"
#define WARREN_UNREAD_D "(d.state = 'stored' OR d.state = 'held' OR d.state = 'delivered')"
