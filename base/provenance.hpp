#pragma once
// Where a cost comes from. Every number a forecast uses carries one of these, and the report says
// how much of the step rests on each.

#include <cstdint>
#include <string_view>

namespace stepcast {

// Ordered from best to worst: the provenance of a sum is the worst of its parts.
enum class Provenance : std::uint8_t {
  measured,      // read from a file of measurements
  modelled,      // computed by a model with a named source
  extrapolated,  // outside what the model or the table was made for
  assumed,       // a default that nobody measured
};

constexpr Provenance worse(Provenance a, Provenance b) { return a < b ? b : a; }

constexpr std::string_view to_string(Provenance provenance) {
  switch (provenance) {
    case Provenance::measured: return "measured";
    case Provenance::modelled: return "modelled";
    case Provenance::extrapolated: return "extrapolated";
    case Provenance::assumed: return "assumed";
  }
  return "";
}

}  // namespace stepcast
