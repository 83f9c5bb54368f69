// What a run sees of a home directory, by name. Paths are relative to the home. docs/security.md explains the choice.
#pragma once

#include <span>
#include <string_view>

namespace warren {

// Hidden in every view: secrets of people and programs, histories, and the mail of agents.
std::span<const std::string_view> home_secrets();

// All that HomeView::kTools shows: tools, and settings that usually hold no secrets.
std::span<const std::string_view> home_tools();

// Where known agents keep the sign-in of their user; nothing in these files is ever executed.
std::span<const std::string_view> home_sign_ins();

// Absolute paths that only root can read.
std::span<const std::string_view> system_secrets();

// Environment files, and the temporary files that editors and sed write next to them.
bool is_secret_name(std::string_view name);

}  // namespace warren
