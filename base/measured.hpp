#pragma once
// How a measured figure answers a question: the very point was measured, points around it were, or
// only points on one side. The tables of collectives and of kernels both say so.

#include <cstdint>
#include <string_view>

#include "base/provenance.hpp"

namespace stepcast {

enum class MeasuredHow : std::uint8_t { measured, interpolated, extrapolated };

constexpr std::string_view to_string(MeasuredHow how) {
  switch (how) {
    case MeasuredHow::measured: return "measured";
    case MeasuredHow::interpolated: return "interpolated";
    case MeasuredHow::extrapolated: return "extrapolated";
  }
  return "";
}

constexpr Provenance provenance_of(MeasuredHow how) {
  return how == MeasuredHow::extrapolated ? Provenance::extrapolated : Provenance::measured;
}

}  // namespace stepcast
