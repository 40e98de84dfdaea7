#include "sim/plan/prices.hpp"

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "topologies/catalog.hpp"
#include "topologies/topology.hpp"

namespace stepcast {

Prices Prices::shipped() {
  Prices prices;
  prices.lay_over(catalog::embedded_text("prices.toml"), "catalog/prices.toml", catalog_machines());
  return prices;
}

void Prices::lay_over(std::string_view text, const std::string& file,
                      const std::vector<std::string>& known) {
  TomlTable root = TomlTable::from_text(text, file);
  if (std::optional<TomlTable> power = root.table("power")) {
    pue_ = power->number("pue", {.min = 1, .max = 10});
    pue_source_ = power->string_or("source", file);
    power->finish();
  }
  std::set<std::string> seen;
  for (TomlTable& entry : root.tables("machine")) {
    const std::string name = entry.string("name");
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw not_accepted(entry.where("name"), name, known);
    }
    if (!seen.insert(name).second) {
      throw InputError(entry.where("name"), "'" + name + "' is there twice; accepted: once");
    }
    MachinePrice& price = machines_[name];
    const std::optional<std::string> source = entry.optional_string("price_source");
    const std::optional<std::string> date = entry.optional_string("price_date");
    if (const auto usd = entry.optional_number("usd_per_gpu_hour", {.min = 1e-6, .max = 1e6})) {
      price.usd_per_gpu_hour = usd;
      price.price_source = source.value_or(file);
      price.price_date = date.value_or("");
    } else if (source || date) {
      throw InputError(entry.where(source ? "price_source" : "price_date"),
                       "there is no price; accepted: with usd_per_gpu_hour");
    }
    const std::optional<std::string> measured = entry.optional_string("power_source");
    if (const auto watts = entry.optional_number("overhead_watts", {.min = 0, .max = 1e6})) {
      price.overhead_watts = watts;
      price.power_source = measured.value_or(file);
    } else if (measured) {
      throw InputError(entry.where("power_source"),
                       "there is no power; accepted: with overhead_watts");
    }
    entry.finish();
  }
  root.finish();
}

MachinePrice Prices::of(const std::string& machine) const {
  const auto found = machines_.find(machine);
  return found == machines_.end() ? MachinePrice{} : found->second;
}

}  // namespace stepcast
