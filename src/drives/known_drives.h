// The drives that Warren knows the origin of, and which of them an address on the web belongs to.
//
// A new drive is a row of the table in known_drives.cc. Any other drive name is allowed, too; such a drive has no
// origin.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "drives/drive_ref.h"

namespace warren {

// An http or https address in parts.
struct WebAddress {
  std::string scheme;                 // in lower case
  std::string host;                   // in lower case, with the port if one is given
  std::vector<std::string> segments;  // of the path, '.' and '..' resolved, percent signs as they are
  bool ends_with_slash = false;       // or has no path
  std::string query;                  // without '?'; may be empty

  std::string to_string() const;
};

// kInvalid: not http or https, no host, user names, control characters. The fragment is dropped.
Result<WebAddress> parse_web_address(std::string_view text);
bool looks_like_web_address(std::string_view text);  // begins with http:// or https://

// Where an address belongs, and how its content is fetched.
struct WebItem {
  Ref ref;
  std::string source;     // the address, without its fragment
  std::string fetch_url;  // empty: cannot be fetched as one item
  std::string problem;    // then why, and what to do instead
};

struct KnownDrive {
  std::string_view name;
  std::string_view shape;        // of its paths, for people
  std::string_view description;  // where its items come from
  // The path of the address and how it is fetched; nullopt if it does not belong here. Null: no address does.
  struct Place {
    std::string path;
    std::string fetch_url;
    std::string problem = {};
  };
  std::optional<Place> (*recognise)(const WebAddress&) = nullptr;
};

std::span<const KnownDrive> known_drives();
const KnownDrive* find_known_drive(std::string_view name);  // null: not known

// The first drive that recognises it; the drive url takes every address.
Result<WebItem> find_web_item(std::string_view address);

}  // namespace warren
