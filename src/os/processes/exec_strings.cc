#include "os/processes/exec_strings.h"

#include <string_view>

#include <unistd.h>

namespace warren {
namespace {

char* exec_string(const std::string& text) { return const_cast<char*>(text.c_str()); }  // exec does not write to it

}  // namespace

std::vector<char*> exec_strings(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const std::string& each : strings) out.push_back(exec_string(each));
  out.push_back(nullptr);
  return out;
}

std::vector<char*> environment_with(const std::string& variable) {
  std::string_view name = std::string_view(variable).substr(0, variable.find('=') + 1);
  std::vector<char*> out{exec_string(variable)};
  for (char** each = environ; *each != nullptr; ++each) {
    if (!std::string_view(*each).starts_with(name)) out.push_back(*each);
  }
  out.push_back(nullptr);
  return out;
}

}  // namespace warren
