// The operations of the host's protocol, on a view of a namespace: read, write, append, list, stat, exists, remove,
// query.
#pragma once

#include <string>
#include <string_view>

#include "agent/agent_namespace.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "fs/types.h"
#include "host/frame.h"
#include "vfs/namespace.h"

namespace warren {

struct OperationPlace {
  AgentNamespace& names;
  NamespaceView& view;
  Clock& clock;
  std::string prefix;  // of paths in answers: "/agent/OTHER" where it is not the caller's own
};

Status check_operation(std::string_view op);  // kInvalid lists them
// `path` is normalised. kInvalid names the member of the request that is wrong.
Result<Frame> run_operation(const std::string& op, const std::string& path, const Frame& request,
                            const OperationPlace& place);

// Attributes as they are sent, and back. kInvalid.
Json attributes_to_wire(const Attributes& node);
Result<Attributes> attributes_from_wire(const Json& json);
Json directory_entry(std::string_view name);  // of a directory about which nothing else is told

}  // namespace warren
