// Where an agent with a base keeps its namespace: in an agent file of its own beside the agent file, because the agent
// file's tree is the project's. "a.db" has "a.namespace.db".
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "store/store.h"

namespace warren {

std::string namespace_file_of(std::string_view agent_path);

// The path, if there is such a file.
Result<std::optional<std::string>> find_namespace_file(const std::string& agent_path);

// Makes the file if it is missing. Of several processes that do so at once, one makes it and all open it.
Result<std::unique_ptr<Store>> open_or_make_store(const std::string& file, const StoreOptions& options, Clock& clock);

// Makes the file if it is missing; kNotFound if it is missing and the mode is kReadOnly. An existing file is complete,
// however many processes open it at once and whenever one is killed.
Result<std::unique_ptr<Store>> open_namespace_store(const std::string& agent_path, const StoreOptions& options,
                                                    Clock& clock);

// Makes the file if it is missing, for whoever has other work meanwhile. If it fails, opening the namespace says why.
void prepare_namespace_file(const std::string& agent_path, Clock& clock);

// With SQLite's files. Succeeds if there is none.
Status remove_namespace_file(const std::string& agent_path);

}  // namespace warren
