#include "topologies/catalog.hpp"

#include <algorithm>
#include <filesystem>

#include "base/embedded.hpp"
#include "base/toml.hpp"

namespace stepcast::catalog {
namespace {

constexpr std::string_view suffix = ".toml";

bool is_path(std::string_view name) {
  return name.find('/') != std::string_view::npos ||
         (name.size() > suffix.size() && name.substr(name.size() - suffix.size()) == suffix);
}

}  // namespace

std::vector<std::string> keys(std::string_view kind) {
  std::vector<std::string> all;
  const std::string prefix = std::string(kind) + "-";
  for (const embedded::File& file : embedded::topologies()) {
    if (file.name.substr(0, prefix.size()) != prefix) continue;
    all.emplace_back(
        file.name.substr(prefix.size(), file.name.size() - prefix.size() - suffix.size()));
  }
  std::sort(all.begin(), all.end());
  return all;
}

File find(std::string_view kind, const std::string& name_or_path, const Where& asked) {
  if (is_path(name_or_path)) {
    std::filesystem::path path = name_or_path;
    if (path.is_relative() && !asked.file.empty()) {
      path = std::filesystem::path(asked.file).parent_path() / path;
    }
    return {path.string(), path.stem().string(), read_file(path.string(), 16ll << 20)};
  }
  const std::string basename = std::string(kind) + "-" + name_or_path + std::string(suffix);
  for (const embedded::File& file : embedded::topologies()) {
    if (file.name == basename) return {"catalog/" + basename, name_or_path, std::string(file.text)};
  }
  std::vector<std::string> accepted = keys(kind);
  accepted.push_back("a path to a .toml file");
  const std::string key = asked.key.empty() ? std::string(kind) : asked.key;
  throw not_accepted({asked.file, asked.line, key}, name_or_path, accepted);
}

std::string_view embedded_text(std::string_view basename) {
  for (const embedded::File& file : embedded::topologies()) {
    if (file.name == basename) return file.text;
  }
  STEPCAST_ASSERT(false, "embedded file is missing: " + std::string(basename));
}

}  // namespace stepcast::catalog
