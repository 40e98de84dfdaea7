#include "sim/forecast/placed.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

// What brought a value that nobody said: keys by which it follows from another.
const std::vector<std::pair<std::string, std::vector<std::string>>>& brought_by() {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> keys{
      {"wrap_min_params", {"wrap"}},
      {"nodes", {"gpus", "gpus_per_node", "cluster"}},
      {"gpus", {"nodes", "gpus_per_node", "cluster"}},
      {"gpus_per_node", {"cluster"}}};
  return keys;
}

}  // namespace

InputError at_its_place(const Scenario& scenario, const InputError& error) {
  const std::string text = error.what();
  const std::size_t colon = text.find(": ");
  if (colon == std::string::npos) return error;
  const auto said = [&](const std::string& key) { return scenario.said.count(key) > 0; };
  const std::string key = text.substr(0, std::min(text.find(' '), colon));
  if (said(key)) return {scenario.where(key), text.substr(colon + 2)};
  for (const auto& [follows, others] : brought_by()) {
    if (follows != key) continue;
    const auto from = std::find_if(others.begin(), others.end(), said);
    if (from != others.end()) return {scenario.where(*from), text};
  }
  return error;
}

}  // namespace stepcast
