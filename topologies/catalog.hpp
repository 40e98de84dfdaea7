#pragma once
// Where the catalog's files are found: embedded in the library, by basename. A name that looks like
// a path ("./my.toml", "racks/a.toml") is read from disk instead.

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace stepcast::catalog {

struct File {
  std::string name;  // what errors call it
  std::string key;   // "dgx-h100"
  std::string text;
};

// The keys of all embedded files KIND-KEY.toml, sorted; KIND is "gpu" or "machine".
std::vector<std::string> keys(std::string_view kind);

// The file of a catalog key or a path. ASKED is where the name was read: errors point there, and a
// relative path is taken from its folder. Throws InputError.
File find(std::string_view kind, const std::string& name_or_path, const Where& asked = {});

// One embedded file by its full basename; a missing one is our own mistake.
std::string_view embedded_text(std::string_view basename);

}  // namespace stepcast::catalog
