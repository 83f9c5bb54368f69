// config.json as the running relay uses it. It is read again when it changes; a bad one is not used.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "relay/root/config.h"
#include "relay/root/root.h"

namespace warren::relay {

// For people: why config.json is not used. Also the text of an earlier such error starts with kConfigRefused.
inline constexpr std::string_view kConfigRefused = "the changed config.json is not used";
std::string config_refusal(const Error& why);

// What `warren relay status` says about config.json as it is now, given what the relay said up to a second ago.
std::string current_config_remark(const Root& root, std::string_view earlier);

// One thread. The root must outlive it. References to now() stay valid, and see the new values.
class ConfigFile {
 public:
  static Result<std::unique_ptr<ConfigFile>> open(const Root& root);

  const Config& now() const { return config_; }

  struct Change {
    std::optional<Error> error;          // why the file is not used; everything is as it was
    std::vector<std::string> postponed;  // keys that take effect at the next start
    bool is_removed = false;             // the file that was not used is gone; everything is as it was
  };
  // What has changed since the last call, if anything has. A file that is missing changes nothing.
  std::optional<Change> reread();

 private:
  explicit ConfigFile(const Root& root) : root_(root) {}
  std::vector<std::string> keep_fixed(Config& fresh) const;

  const Root& root_;
  Config config_;
  std::string text_;   // of the file that is in use
  std::string error_;  // the message of the last error; "": the file is in use
};

}  // namespace warren::relay
